"""The command line in a process of its own that need not import anything: a fork of this one.

Starting Python and importing what the tests' venv holds takes most of a second; hundreds of calls would be minutes of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from tarry.programs import cli
from tarry.programs.cli import app

assert app is not None  # imported here, once


def tarry(
    words: Sequence[str], stdin: str | None, environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Runs ``tarry WORDS``; answers its exit code and what it wrote."""
    given, said, told = (folder / f"tarry-{name}" for name in ("stdin", "stdout", "stderr"))
    given.write_text(stdin or "", encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        code = 70
        try:
            _take_over(given, said, told)
            os.environ.update(environment)
            sys.argv = ["tarry", *words]
            code = cli.run()
        except BaseException:  # noqa: BLE001  # whatever it is, the parent reads it
            traceback.print_exc()
        finally:
            _leave(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    texts = [place.read_text(encoding="utf-8") for place in (said, told)]
    return subprocess.CompletedProcess(["tarry", *words], code, *texts)


def _take_over(given: Path, said: Path, told: Path) -> None:
    """The child's own files in the place of the terminal's."""
    for number, place, flags in (
        (0, given, os.O_RDONLY),
        (1, said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(place, flags)
        os.dup2(opened, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _leave(code: int) -> None:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
