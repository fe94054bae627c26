"""``python -m tarry`` is ``tarry``."""

from tarry.programs.cli import main

if __name__ == "__main__":
    main()
