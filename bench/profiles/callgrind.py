"""A process under Valgrind's callgrind, which counts its instructions by function and by library.

callgrind_control resets the counts and writes them to a file while the process runs; so what it does between is counted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.profiles.child import Child

NAME = re.compile(r"\((\d+)\)(?: (.*))?")
"""A name at its first mention has a number; later the number alone is written."""


class Counts:
    """The instructions of one stage: ``total``; ``by_function`` and ``by_call`` (who calls whom) with all that is called from there;
    ``by_library`` alone. ``calls`` counts the calls of a function."""

    def __init__(self, text: str) -> None:
        self.by_function: Counter[str] = Counter()
        self.by_call: Counter[tuple[str, str]] = Counter()
        self.by_library: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        names: dict[str, dict[str, str]] = {"fn": {}, "ob": {}}

        def named(kind: str, value: str) -> str:
            found = NAME.fullmatch(value)
            assert found, value
            if found[2]:
                names[kind][found[1]] = found[2]
            return names[kind][found[1]]

        library = function = called = ""
        is_call = False
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals and key in ("fn", "cfn"):
                function, called = (named("fn", value), called) if key == "fn" else (function, named("fn", value))
            elif equals and key in ("ob", "cob"):
                library = named("ob", value) if key == "ob" else (named("ob", value) and library)
            elif key == "calls":
                self.calls[called] += int(value.split()[0])
                is_call = True
            elif line[:1] in "+-*0123456789" and line:
                cost = int(line.split()[1])
                self.by_function[function] += cost
                if is_call:
                    self.by_call[function, called] += cost
                else:
                    self.by_library[Path(library).name] += cost
                is_call = False
        self.total = sum(self.by_library.values())

    def of(self, *functions: str) -> int:
        """The instructions of functions that do not call each other, with all that they call."""
        return sum(self.by_function[name] for name in functions)


class CountedProcess(Child):
    """A process under callgrind. Counting begins with the first stage."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        if not shutil.which("valgrind"):
            raise SystemExit("needs valgrind: apt-get install valgrind")
        self._output = folder / "counts"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self._output}", "--instr-atstart=no"]
        super().__init__([*tool, *command])
        self._stages = 0

    def measure(self, action: Callable[[], object]) -> Counts:
        """Counts what the process does meanwhile."""
        self._control("--instr=on")
        self._control("--zero")
        action()
        self._control("--dump")
        self._stages += 1
        return Counts(Path(f"{self._output}.{self._stages}").read_text("utf-8", errors="replace"))

    def _control(self, word: str) -> None:
        subprocess.run(["callgrind_control", word, str(self.pid)], check=True, capture_output=True)


def run(command: Sequence[str]) -> None:
    """Runs a command to its end, with bytecode files as users have them."""
    there = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, capture_output=True, env={**there, "PYTHONHASHSEED": "0"})


def count_run(command: Sequence[str]) -> int:
    """The instructions of a command, from its start to its exit."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "counts")
        run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={output}", *command])
        return Counts(output.read_text("utf-8", errors="replace")).total
