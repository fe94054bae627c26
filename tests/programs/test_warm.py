"""The processes of the tests themselves (tests/warm.py): none is left."""

from __future__ import annotations

import os
from pathlib import Path

from until import is_alive, until
from warm import WarmTarry
from warm_call import Call

PROGRAM = """
import os, sys, threading
with open(sys.argv[1], "w") as file:
    print(os.getpid(), flush=True, file=file)
    threading.Event().wait()
"""


def test_a_caller_that_ends_before_it_has_the_pid_takes_its_call_along(
    tarry_command: WarmTarry, tmp_path: Path
) -> None:
    (program := tmp_path / "program.py").write_text(PROGRAM)
    (told := tmp_path / "told").touch()
    with Path(os.devnull).open("rb") as nothing:
        words, files = [str(program), str(told)], (nothing.fileno(), 1, 2)
        with Call(tarry_command.address, words, dict(os.environ), str(tmp_path), files):
            until(lambda: told.read_text().endswith("\n"), "its pid")
    until(lambda: not is_alive(int(told.read_text())), "the end of the call")
