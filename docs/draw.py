"""Draws thirty pages and thirty public docstrings: `.venv/bin/python docs/draw.py [--texts] [COMMIT]`.

Somebody who does not know tarry reads them and marks each sentence that must be read twice. With more than five marks the texts are
rewritten, and the next commit draws others. The commit decides, so nobody chooses. Decisions are not drawn, because they are for
maintainers, nor pages that are made from docstrings. A docstring that a blocking and an awaited name share is drawn once.
"""

from __future__ import annotations

import hashlib
import inspect
import subprocess
import sys
from collections.abc import Iterable

import interface_of_python as interface
import prose
import reference_of_python as reference

DRAWN = 30


def draw(names: Iterable[str], commit: str) -> list[str]:
    """Thirty of the names, by the digest of each with the commit's hash."""
    return sorted(names, key=lambda name: hashlib.sha256(f"{commit} {name}".encode()).digest())[:DRAWN]


def pages() -> list[str]:
    """Those that users read."""
    names = (page.relative_to(prose.ROOT).as_posix() for page in prose.PAGES)
    return [name for name in names if "/decisions/" not in name]


def docstrings() -> dict[str, str]:
    """Name and text: of public classes, functions, methods, properties and attributes."""
    found: dict[str, str] = {}
    for one in reference.all_names():
        if not inspect.isclass(one.value) and not inspect.isfunction(one.value):
            continue
        found[one.title] = inspect.getdoc(one.value) or ""
        if isinstance(one.value, type):
            kind: type = one.value
            told = reference.words_of_fields(kind)
            for name in interface.members_of(kind):
                text = told.get(name) or inspect.getdoc(inspect.getattr_static(kind, name, None))
                found[f"{one.title}.{name}"] = text if text and not name.startswith("__") else ""
    once = {reference.plain(text): name for name, text in reversed(found.items()) if text}
    return {name: found[name] for name in once.values()}


def main(words: list[str]) -> int:
    """Print what is drawn; with ``--texts`` the docstrings, too."""
    named = [word for word in words if not word.startswith("-")] or ["HEAD"]
    commit = subprocess.run(
        ["git", "rev-parse", "--verify", f"{named[0]}^{{commit}}"],
        cwd=prose.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    told = docstrings()
    print(f"commit {commit}", *draw(pages(), commit), sep="\n")
    for name in draw(told, commit):
        print(name, *(f"    {line}" for line in told[name].splitlines() if "--texts" in words), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
