"""The command line, ``tarry``, and the place where the apps are put together.

    exit code   0  done
                1  refused: StaleReceipt, JobExists, BodyError, Unconfirmed; a demo that lost an order
                2  bad arguments: BadInput, unknown options
                3  no server: Unavailable, ServerUnfit; a missing extra, such as tarry[cli]; a worker that is unfit
                4  tarry worker: stopped, but running jobs had to be released
              130  Ctrl-C

Answers go to stdout, messages to stderr. With ``--json`` each is one line of JSON: ``*_ms`` integers, RFC 3339 times.
Nothing heavy is imported before a verb runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tarry.programs.cli.process import gc_paused, write_message

if TYPE_CHECKING:
    from tarry.errors import TarryError

REFUSED, WRONG, NO_SERVER, INTERRUPTED = 1, 2, 3, 130
MISSING_EXTRA = "The command line needs more than the library: pip install 'tarry[cli]'."


def main() -> None:
    """Runs the command line and exits."""
    sys.exit(run())


def run() -> int:
    """Runs the command line; returns the exit code."""
    words = sys.argv[1:]
    if words == ["--version"]:  # without Typer, which takes most of a tenth of a second
        from tarry import __version__

        print(f"tarry {__version__}")
        return 0
    wants_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        return _run(wants_json)
    except KeyboardInterrupt:
        write_message("interrupted", wants_json, level="error", message="interrupted", code="interrupted")
        return INTERRUPTED


def _run(wants_json: bool) -> int:
    from tarry.errors import BadInput, MissingExtra, TarryError

    try:
        with gc_paused():
            from importlib.util import find_spec

            if not (find_spec("typer") and find_spec("rich")):
                raise MissingExtra(MISSING_EXTRA)
            from tarry.programs.cli import commands

            commands.load_commands(sys.argv[1:])
        code = commands.app(standalone_mode=False) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else REFUSED
    except TarryError as fault:
        message = " ".join(str(fault).split())
        write_message(f"error: {message} [{fault.code}]", wants_json, level="error", message=message, code=fault.code)
        return exit_code(fault)
    except Exception as fault:
        if (code := _usage_code(fault)) is None:
            raise
        if not wants_json:
            fault.show()  # type: ignore[attr-defined]  # it has an exit code, so it is one of click's
        elif message := fault.format_message():  # type: ignore[attr-defined]
            write_message("", wants_json, level="error", message=message, code=BadInput.code)
        return code
    if code == INTERRUPTED:  # Typer makes it of Ctrl-C while a command runs
        raise KeyboardInterrupt
    return int(code)


def _usage_code(fault: Exception) -> int | None:
    """The exit code of an error that click, or the copy of it in Typer, found in the arguments. Raises ``KeyboardInterrupt`` for
    Ctrl-C at a question."""
    from typer import Abort

    if isinstance(fault, Abort):
        raise KeyboardInterrupt
    code = getattr(fault, "exit_code", None)
    return code if isinstance(code, int) and hasattr(fault, "format_message") else None


def exit_code(fault: TarryError) -> int:
    from tarry.errors import BadInput, ServerUnfit, Unavailable

    if isinstance(fault, BadInput):
        return WRONG
    return NO_SERVER if isinstance(fault, (Unavailable, ServerUnfit)) else REFUSED
