"""Calls the command line many times in one process: arguments in as JSON lines, output and exit code out."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys

from typer.main import get_command

from tarry.programs import cli
from tarry.programs.cli import app, commands

commands.app = get_command(app.app)  # type: ignore[assignment]  # made once, not for each call


def call_tarry(words: str) -> tuple[int, str, str]:
    said, told = io.StringIO(), io.StringIO()
    sys.argv = ["tarry", *shlex.split(words)]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        code = cli.run()
    return code, said.getvalue(), told.getvalue()


for line in sys.stdin:
    print(json.dumps(call_tarry(json.loads(line))), flush=True)
