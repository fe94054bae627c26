"""Does the suite notice a fault? ``make mutants``: each fault of planted.toml and drawn.toml is made in a copy of the tree,
and the tests that reach it run, those that are most likely to notice first, until one fails.

    python -m mutants                        all that have no result yet, for the tests as they are: column `new`
    python -m mutants planted-name …         these anew; the test that noticed one before comes first
    python -m mutants --again                all anew, but for the harmless ones
    python -m mutants --ask tests/locks --ask … name   by these tests only: quick, for who knows which should notice it
    python -m mutants --column old --tree REVISION     for a suite of the past

Results are written after each, so that a run can be ended and begun again, and two can run side by side. A fault that is still noticed
by the same test takes a second or two, and a minute or two if the test does not end. Else it is first recorded which test reaches what
(.mutants, a quarter of an hour; `rm -r .mutants` for anew). The vectors are asked about all Lua: they call scripts without the client.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mutants import forked, reach

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"
LISTS = ("planted.toml", "drawn.toml")
LIKELY, FILES, EACH = 40, 8, 5
ROUNDS = ((0, LIKELY + FILES * EACH), (LIKELY + FILES * EACH, 400))
"""Of the tests that reach a fault: those from here to there run together."""
WORD, STEM = re.compile(r"[a-z]{3,}"), 5
LONGEST_S, SHORT_S, EACH_S = 900, 60, 5
"""A run that has not ended then has met the fault: so many seconds, and so many for each test, at most the longest."""
WAITING = tuple(
    f"tests/{folder}/"
    for folder in "faults distributed worker programs service locks dashboard conformance connections".split()
)
"""Here a test that fails is asked once more, alone."""
NOT_LONG = "not at_large and not many_more_orders and not one_for_longer and not in_new_games"
"""What had no mark of its own once."""
BESIDE = {
    "lua/migration": "distributed/test_migration.py distributed/test_migration_resumed.py distributed/test_migration_killed.py",
    "lua/redisson/delayed": "redisson/delayed", "verbs/redisson/delayed": "redisson/delayed",
    "lua/redisson/mapcache": "redisson/mapcache", "verbs/redisson/mapcache": "redisson/mapcache",
    "lua/redisson": "redisson", "clients/redisson": "redisson", "verbs/redisson": "redisson",
    "lua/locks": "locks", "verbs/locks": "locks", "lua/guarded": "guarded", "verbs/guarded": "guarded",
    "lua/schedules": "schedules", "lua/topic": "model", "lua/lib": "model", "lua/partitions": "distributed/test_partitions.py",
    "values": "values", "wire": "clients service",
    "connections/embedded": "embedded programs/test_cli_endings.py", "connections": "connections faults distributed",
    "clients/http": "clients service", "clients": "faults locks distributed", "core": "faults watch", "worker": "worker",
    "programs/cli": "programs conformance/test_command_line.py", "programs/service": "service clients",
    "programs/serving": "service beanstalk", "programs/beanstalk": "beanstalk", "programs/sqs": "sqs", "programs/dialects": "dialects",
    "programs/dashboard": "dashboard", "programs/demo": "programs/test_demo.py", "programs": "programs", "django": "frameworks", "celery": "frameworks",
    "otel": "programs/test_otel.py",
}  # fmt: skip
"""Where tests lie that reach a file in another process, or on another server: the longest beginning counts."""


class Tree:
    """A copy of the repository in which one fault at a time is made."""

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = folder
        if revision:
            packed = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
            subprocess.run(["tar", "x"], cwd=folder, input=packed, check=True)
        else:
            words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
            for name in filter(None, listed.split("\0")):
                if (ROOT / name).exists():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, folder / name)
        (folder / ".venv").symlink_to(ROOT / ".venv")
        knows = "long:" in (folder / "pyproject.toml").read_text("utf-8")
        self.without = ("-m", "not long") if knows else ("-k", NOT_LONG)
        self.collected = set(self.pytest("--collect-only", "tests").text.split("\n"))

    def pytest(self, *words: str, longest_s: float = LONGEST_S) -> forked.Ended:
        fixed = ("-p", "no:cacheprovider", "-p", "no:schemathesis", *self.without, "--tb=line")
        return forked.pytest(self.folder, [*fixed, *words], longest_s)

    def count_of(self, places: list[str]) -> int:
        """How many tests there are in these folders and files, or of these names."""
        return sum(test.startswith(tuple(places)) for test in self.collected)

    def write(self, file: str, text: str) -> None:
        path = self.folder / "src" / "tarry" / file
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()

    def fails(self, tests: list[str]) -> str:
        """The first test that fails, or does not end; nothing when none does."""
        listed = self.folder / "chosen.txt"
        listed.write_text("\n".join(tests), encoding="utf-8")
        longest_s = min(SHORT_S + EACH_S * self.count_of(tests), LONGEST_S)
        ended = self.pytest("-x", "-vv", "-rfE", f"@{listed}", longest_s=longest_s)
        if ended.code in (0, 5):
            return ""
        found = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", ended.text, re.M)
        if found is None and "src/tarry" not in ended.text:
            raise RuntimeError(f"the tests cannot be run: {ended.text}")
        if found is None:
            return f"tarry cannot be imported: {ended.text.strip().splitlines()[-1][:200]}"
        name = found[1]
        doubted = name.startswith(WAITING) or not ended.in_time  # a busy machine may have done it
        if doubted and self.pytest("-x", name, longest_s=SHORT_S).code == 0:
            return self.fails(tests[tests.index(name) + 1 :]) if name in tests else ""
        return name

    def judge(self, fault: dict[str, str], known: list[str], asked: list[str]) -> dict[str, Any]:
        """``known``: tests that noticed it before; ``asked``: those that are asked, and no others."""
        began, path = time.monotonic(), self.folder / "src" / "tarry" / fault["file"]
        raw = path.read_text(encoding="utf-8")
        if raw.count(fault["old"]) != 1:
            return {"by": None, "why": "the text is not there any more; adapt the fault"}
        self.write(fault["file"], raw.replace(fault["old"], fault["new"]))
        try:
            ran, by = 0, ""
            for part in filter(None, self.parts(fault, raw, known, asked)):
                ran += self.count_of(part)
                if by := self.fails(part):
                    break
        finally:
            self.write(fault["file"], raw)
        return {"by": by or None, "ran": ran, "seconds": round(time.monotonic() - began)}

    def parts(self, fault: dict[str, str], raw: str, known: list[str], asked: list[str]) -> Iterator[list[str]]:
        yield asked or [test for test in known if test in self.collected]
        if not asked:
            tests = self.chosen(fault, raw)
            yield from (tests[begin:end] for begin, end in ROUNDS)
            where = max((at for at in BESIDE if fault["file"].startswith(at)), key=len, default="")
            vectors = "vectors/test_vectors.py " if fault["file"].endswith(".lua") else ""
            places = [f"tests/{at}" for at in (vectors + BESIDE.get(where, "")).split()]
            yield [place for place in places if (self.folder / place).exists()]

    def chosen(self, fault: dict[str, str], raw: str) -> list[str]:
        """Those that reach it: those whose names have words of the fault; some of the files that do most, spread over their
        seconds; then the fastest of each file, the next of each, and so on."""
        record()
        file, first = fault["file"], raw[: raw.index(fault["old"])].count("\n") + 1
        if file.endswith(".lua"):
            found = reach.tests_of_scripts(self._including(file))
        else:
            found = reach.tests_of_lines(file, first, first + fault["old"].rstrip("\n").count("\n"))
        seconds, reaching = reach.seconds(), found & self.collected
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in sorted(reaching, key=lambda test: (round(seconds[test], 1), test)):
            by_file[test.partition("::")[0]].append(test)
        files = sorted(by_file.values(), key=len, reverse=True)
        likely = self._by_words(reaching, f"{file} {fault['old']} {fault['new']} {fault.get('why', '')}")
        spread = [test for tests in files[:FILES] for test in tests[:: len(tests) // EACH + 1]]
        turns = [test for turn in zip_longest(*files) for test in turn if test]
        return list(dict.fromkeys([*likely[:LIKELY], *spread, *turns]))

    def _by_words(self, tests: set[str], text: str) -> list[str]:
        """Those first whose names have most words of the text; a rare word says more."""
        words_of = {test: {word[:STEM] for word in WORD.findall(test.lower())} for test in tests}
        count = Counter(word for words in words_of.values() for word in words)
        wanted = {word[:STEM] for word in WORD.findall(text.lower())}
        score = {test: sum(1 / count[word] for word in words & wanted) for test, words in words_of.items()}
        return sorted(tests, key=lambda test: (-score[test], test))

    def _including(self, file: str) -> set[str]:
        """The scripts that a file of Lua is part of."""
        lua = self.folder / "src" / "tarry" / "lua"
        name = file.removeprefix("lua/").removesuffix(".lua")
        folder, lib, part = f"/{name}".rpartition("/lib/")
        if not lib:
            return {name}
        include = re.compile(rf"^-- include .*(?<![\w/]){f'{folder}/{part}'.removeprefix('/')}(?![\w/])", re.M)
        paths = [path for path in lua.rglob("*.lua") if include.search(path.read_text("utf-8"))]
        return {script for path in paths for script in self._including(path.relative_to(lua.parent).as_posix())}


def record() -> None:
    """Which test reaches what."""
    reach.KEPT.mkdir(exist_ok=True)
    for folder in reach.FOLDERS:
        if not (kept := reach.KEPT / folder).exists():
            print(f"recording what tests/{folder} reaches", flush=True)
            around = os.environ | {"REACH": str(kept)}
            words = [
                "-p",
                "mutants.reach",
                f"tests/{folder}",
                "-m",
                "not otherserver and not model and not long and not slow",
            ]
            subprocess.run(
                [sys.executable, "-m", "pytest", *words], cwd=ROOT, env=around, stdout=subprocess.DEVNULL, check=False
            )


def main() -> None:
    asked = argparse.ArgumentParser(prog="make mutants")
    asked.add_argument("names", nargs="*")
    asked.add_argument("--column", default="new")
    asked.add_argument("--tree", default="", help="the revision whose code and tests are taken; the working tree else")
    asked.add_argument("--again", action="store_true", help="those, too, that have a result; not the harmless ones")
    asked.add_argument("--ask", action="append", default=[], help="a folder, a file or a test: no others are asked")
    given = asked.parse_args()
    faults = {name: fault for file in LISTS for name, fault in tomllib.loads((HERE / file).read_text("utf-8")).items()}
    new = [name for name in faults if given.column not in results().get(name, {})]
    noticeable = [name for name, fault in faults.items() if "harmless" not in fault]
    wanted = given.names or (noticeable if given.again else new)
    with tempfile.TemporaryDirectory(prefix="tarry-mutants-", dir="/tmp", ignore_cleanup_errors=True) as made:
        tree = Tree(Path(made), given.tree)
        with suppress(KeyboardInterrupt):
            for name in random.sample(wanted, len(wanted)):  # another run beside this one has another order
                row = results().get(name, {})
                if given.column in row and not given.again and not given.names:
                    continue
                known = [verdict["by"] for verdict in row.values() if verdict["by"]]
                verdict = tree.judge(faults[name], known, given.ask)
                store(name, given.column, verdict)
                print(f"{'noticed ' if verdict['by'] else 'SURVIVED'} {name}: {verdict}", flush=True)
    report(results(), faults)


def results() -> dict[str, Any]:
    """The verdicts so far: of each fault one in each column."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}


def store(name: str, column: str, verdict: dict[str, Any]) -> None:
    with locked(Path(__file__), waits=True):  # another run may be writing
        found = results()
        found.setdefault(name, {})[column] = verdict
        lines = [f" {json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found)]
        part = RESULTS.with_suffix(".part")
        part.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        part.replace(RESULTS)


@contextmanager
def locked(path: Path, *, waits: bool = False) -> Iterator[bool]:
    """Holds a lock that ends with this process; without ``waits`` it says whether it has it."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def report(results: dict[str, Any], faults: dict[str, Any]) -> None:
    for column in sorted({column for row in results.values() for column in row}):
        verdicts = {name: row[column] for name, row in results.items() if column in row and name in faults}
        survived = [name for name, verdict in verdicts.items() if not verdict["by"]]
        harmless = sum("harmless" in faults[name] for name in survived)
        print(
            f"{column}: {len(verdicts) - len(survived)} noticed, {len(survived)} survived ({harmless} of them harmless), "
            f"{len(faults) - len(verdicts)} not tried yet"
        )


if __name__ == "__main__":
    main()
