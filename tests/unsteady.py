"""The list of unsteady tests, ``tests/unsteady.txt``, and its rules: ``.venv/bin/python tests/unsteady.py``, as `make lint` does.

- A test that stands there with three commits is fixed now.
- A line older than twenty commits has a finding: ``product: …`` or ``test: …``.
- A line goes only with the commit that fixes it, so that commit changes another file, too.
- No test is marked to be repeated.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIST = "tests/unsteady.txt"
MOST_COMMITS = 2
OLDEST = 20
FINDING = re.compile(r"(product|test): .")
REPEATS = re.compile(r"mark\.(flaky|repeat|rerun)|--reruns|rerunfailures")


class Line(NamedTuple):
    """One test, once seen to be unsteady."""

    test: str
    commit: str
    finding: str = "open"

    def __str__(self) -> str:
        return " | ".join(self)


def read(text: str) -> list[Line]:
    """A test's name may have the sign between the columns in it."""
    told = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if wrong := [line for line in told if line.count(" | ") < 2]:
        raise SystemExit(f"{LIST}: not `test | commit | finding`: {wrong[0]}")
    return [Line(*line.rsplit(" | ", 2)) for line in told]


def git(*words: str, root: Path = ROOT) -> str:
    """What git answers, or nothing."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False).stdout.strip()


def faults(root: Path = ROOT) -> Iterator[str]:
    """What is against the rules."""
    lines = read((root / LIST).read_text(encoding="utf-8"))
    for test, n in Counter(line.test for line in lines).items():
        if n > MOST_COMMITS:
            yield f"{test} was unsteady at {n} commits: fix it now"
    for line in lines:
        if not FINDING.match(line.finding) and age(line, root) > OLDEST:
            yield f"{line}: after {OLDEST} commits it needs a finding, `product: …` or `test: …`"
    for commit in git("log", "-100", "--format=%h", "--", LIST, root=root).split():
        gone = taken_out(git("show", "--format=", "--unified=0", commit, "--", LIST, root=root))
        if gone and git("show", "--format=", "--name-only", commit, root=root).split() == [LIST]:
            yield f"{commit} takes {gone[0].test} out and fixes nothing"
    for file in [root / "pyproject.toml", *(root / "tests").rglob("*.py")]:
        if file != Path(__file__) and (mark := REPEATS.search(file.read_text(encoding="utf-8"))):
            yield f"{file.relative_to(root)}: {mark[0]}: no test is repeated until it passes"


def age(line: Line, root: Path) -> int:
    """Commits since then; of a commit that is not in this clone, since the line was written."""
    count = git("rev-list", "--count", f"{line.commit}..HEAD", root=root)
    if not count:
        written = git("log", "-1", "--format=%H", f"-S{line.test} | {line.commit}", "--", LIST, root=root)
        count = git("rev-list", "--count", f"{written}..HEAD", root=root) if written else ""
    return int(count or 0)


def taken_out(changes: str) -> list[Line]:
    """The lines that a commit removed; one whose finding changed is there again."""
    removed = read("\n".join(one[1:] for one in changes.splitlines() if re.match(r"-[^-#]", one)))
    added = read("\n".join(one[1:] for one in changes.splitlines() if re.match(r"\+[^+#]", one)))
    return [line for line in removed if not any(line[:2] == other[:2] for other in added)]


if __name__ == "__main__":
    found = list(faults())
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(bool(found))
