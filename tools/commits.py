"""Reads the commits after the one that pyproject.toml names: `.venv/bin/python tools/commits.py`, as `make lint` does.

**Subjects**: `area: verb what`, as in `worker: renew leases from one thread`. It checks the length, the area, the full stop, and that the
first word after the colon can be an imperative. That needs no list of verbs: articles, pronouns, numbers and prepositions are few, and
most other forms end in -s, -ed or -ing. A noun that looks like a verb passes; the reviewer finds it.

**The interface**: a commit that changes docs/interface.txt adds a line to CHANGELOG.md, and so does the tree that is not committed yet.
If users see nothing of it, or another commit has the line, the message says so in a line of its own: `Interface: …`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INTERFACE, CHANGES = "docs/interface.txt", "CHANGELOG.md"
LONGEST = 72
AREA = re.compile(r"[a-z0-9][a-z0-9 ,._/-]*")
FIRST = re.compile(r"[a-z]+(-[a-z]+)*(?=,? |$)")
NO_VERBS = set(
    "a an the this that these those its their his her our your my it they we you he she there here "
    "who whom whose what which when where why how if whether while until unless because as than "
    "and or but nor not no none one two three four five six seven eight nine ten eleven twelve "
    "each every all any some both either neither such same other another more most less few many much only also never always "
    "about above across after against along among around at before behind below beneath beside between beyond by "
    "down during for from in inside into of off on onto out outside over per since through to toward under up upon "
    "with within without is are was were has had does did can could may might must shall should will would".split()
)
"""Words with which no imperative begins."""
VERBS = set("alias bias bring embed exceed feed focus need ping proceed seed shed shred speed string succeed".split())
"""Verbs that end as if they were another form."""
EXPLAINED = re.compile(r"^Interface: .*\w", re.M)
OTHER_FORM = re.compile(r".*([^s]s|ed|ing)")


def fault_of(subject: str) -> str | None:
    """What is against the rules, and what to write instead."""
    area, colon, rest = subject.partition(": ")
    if not colon or not AREA.fullmatch(area):
        return "write `area: verb what`, the area in small letters"
    if len(subject) > LONGEST:
        return f"{len(subject)} characters, {LONGEST} at most: the reason belongs to the body"
    if subject.endswith("."):
        return "leave out the full stop"
    first = FIRST.match(rest)
    if first is None:
        return "begin with a verb after the colon, in small letters"
    word = first[0].partition("-")[0]
    if word in NO_VERBS:
        return f"begin with a verb after the colon: no imperative begins with `{word}`"
    if word not in VERBS and OTHER_FORM.fullmatch(word):
        return f"begin with an imperative after the colon: `{word}` is another form, or no verb"
    return None


def git(*words: str, root: Path = ROOT) -> str | None:
    """What git answers; ``None`` if it refuses. In a container the clone may belong to another user."""
    command = ["git", "-c", f"safe.directory={root}", *words]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return None
    return done.stdout if done.returncode == 0 else None


def first_commit(root: Path = ROOT) -> str:
    """The commit after which all are read."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["tool"]["tarry"]["commits-after"])


def subject_faults(after: str, root: Path) -> Iterator[str]:
    """A line for each commit whose subject is against the rules; merges have git's own."""
    told = git("log", "--no-merges", "--reverse", "--format=%h %s", f"{after}..HEAD", root=root) or ""
    for line in told.splitlines():
        commit, _, subject = line.partition(" ")
        if fault := fault_of(subject):
            yield f"{commit} {subject!r}: {fault} (git rebase -i, reword)"


def interface_faults(after: str, root: Path) -> Iterator[str]:
    """A line for each commit that changes the interface and says nothing of it."""
    told = git("log", "--no-merges", "--reverse", "--format=%h", f"{after}..HEAD", "--", INTERFACE, root=root) or ""
    for commit in told.split():
        message = git("show", "--no-patch", "--format=%B", commit, root=root) or ""
        if not EXPLAINED.search(message) and (fault := interface_fault(["show", "--format=", commit], root)):
            yield f"{commit} {fault} (git rebase -i, edit)"


def interface_fault(command: list[str], root: Path) -> str | None:
    """What is missing, if this comparison changes the interface and adds nothing to the changelog."""
    changed, added = (
        [
            line
            for line in (git(*command, "--unified=0", "--", file, root=root) or "").splitlines()
            if pattern.match(line)
        ]
        for file, pattern in (
            (INTERFACE, re.compile(r"[-+](?![-+]{2} )")),
            (CHANGES, re.compile(r"\+(?!\+\+ )\s*\w|\+- ")),
        )
    )
    if not changed or added:
        return None
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return (
        f"changes {INTERFACE} (`{changed[0]}`{more}), and adds nothing to {CHANGES}: "
        "say there what users have to know; if it is nothing, say why in the message: `Interface: …`"
    )


def main(root: Path = ROOT) -> int:
    """Print every fault; 1 if there is one."""
    after = first_commit(root)
    not_committed = interface_fault(["diff", "HEAD"], root)
    found = [f"the working tree {not_committed}"] if not_committed else []
    if git("merge-base", "--is-ancestor", after, "HEAD", root=root) is None:
        print(f"commits are not read: this history does not have {after[:12]} (git fetch --unshallow)")
    else:
        found += [*subject_faults(after, root), *interface_faults(after, root)]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
