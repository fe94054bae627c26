"""The command line in this process, for what is no test of a process: seventy others would be a minute of starting.

Typer makes all commands anew for each call, 25 ms. Here they are made once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import typer.testing

from tarry.programs.cli.app import app
from tarry.programs.cli.commands import load_commands

load_commands(["--help"])
command = cache(typer.testing._get_command)
typer.testing._get_command = command


def call_tarry(words: Sequence[str], stdin: str | None = None, **environment: str) -> typer.testing.Result:
    """``tarry WORDS``: its exit code, what it wrote, what it raised."""
    return typer.testing.CliRunner().invoke(app, list(words), input=stdin, env=environment)


COMMAND = command(app)
