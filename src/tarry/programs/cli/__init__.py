"""The command line, ``tarry``, and the place where the apps are put together.

    exit code   0  done
                1  refused: StaleReceipt, JobExists, BodyError, Unconfirmed; a demo that lost an order
                2  bad arguments: BadInput, unknown options
                3  no server: Unavailable, ServerUnfit; a missing extra, such as tarry[cli]; a worker that is unfit
                4  tarry worker: stopped, but running jobs had to be given back

Answers go to stdout, messages to stderr. With ``--json`` an answer is one line of JSON: ``*_ms`` integers, RFC 3339 times.
Nothing heavy is imported before a verb runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tarry.programs.cli.collector import gc_paused

if TYPE_CHECKING:
    from tarry.errors import TarryError

REFUSED, WRONG, NO_SERVER = 1, 2, 3
MISSING_EXTRA = "The command line needs more than the library: pip install 'tarry[cli]'."


def main() -> None:
    """Runs the command line and exits."""
    sys.exit(run())


def run() -> int:
    """Runs the command line; returns the exit code."""
    from tarry.errors import MissingExtra, TarryError

    try:
        with gc_paused():
            from importlib.util import find_spec

            if not (find_spec("typer") and find_spec("rich")):
                raise MissingExtra(MISSING_EXTRA)
            from tarry.programs.cli import commands

            commands.load_commands(sys.argv[1:])
        commands.app()
        return 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except TarryError as fault:
        message = " ".join(str(fault).split())
        print(f"error: {message} [{fault.code}]", file=sys.stderr)
        return exit_code(fault)


def exit_code(fault: TarryError) -> int:
    from tarry.errors import BadInput, ServerUnfit, Unavailable

    if isinstance(fault, BadInput):
        return WRONG
    return NO_SERVER if isinstance(fault, (Unavailable, ServerUnfit)) else REFUSED
