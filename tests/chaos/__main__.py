"""``python -m tests.chaos``: see command.py."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(1, str(Path(__file__).resolve().parents[2]))

if __name__ == "__main__":
    from chaos.command import main

    sys.exit(main())
