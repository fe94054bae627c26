"""Writes what each extra of tarry installs, docs/evidence/extras.md, from what is in .venv: `.venv/bin/python tools/extras.py`.

A package counts with what it has installed, without bytecode. `brings` follows the metadata as an installer does, on this Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PAGE = Path(__file__).resolve().parent.parent / "docs" / "evidence" / "extras.md"
MB = 1_000_000
TOP = """\
<!-- made by tools/extras.py -->

# What each extra installs

`pip install tarry` installs {core} packages, tarry included. An extra also installs the packages of its row. The numbers are megabytes of installed
files, without bytecode, on Python {python} and Linux. `make test-long` checks that the table has the packages that the metadata requires.

| install | packages | MB | which, with the MB of each |
|---|--:|--:|---|
"""


def brings(name: str, extras: frozenset[str] = frozenset(), seen: set[tuple[str, str]] | None = None) -> Iterator[str]:
    """The packages that a requirement installs, itself among them."""
    seen = set() if seen is None else seen
    for extra in ("", *sorted(extras)):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        yield name
        for text in distribution(name).requires or []:
            wanted = Requirement(text)
            if wanted.marker is None and extra:
                continue
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                yield from brings(canonicalize_name(wanted.name), frozenset(wanted.extras), seen)


def size(name: str) -> int:
    """The bytes of a package's files."""
    found: Distribution = distribution(name)
    paths = [Path(str(file.locate())) for file in found.files or [] if not str(file).endswith(".pyc")]
    if name == "tarry":  # here it is only a link to src
        paths = list((PAGE.parents[2] / "src" / "tarry").rglob("*"))
    return sum(
        path.stat().st_size for path in paths if path.is_file() and not {"__pycache__", "vectors"} & {*path.parts}
    )


def rows() -> dict[str, list[str]]:
    """The packages of the core, and what each extra adds."""
    core = set(brings("tarry"))
    extras = sorted(distribution("tarry").metadata.get_all("Provides-Extra") or [])
    return {"": sorted(core)} | {name: sorted(set(brings("tarry", frozenset([name]))) - core) for name in extras}


def page() -> str:
    """The page."""
    found = rows()
    text = TOP.format(core=len(found[""]), python=f"{sys.version_info[0]}.{sys.version_info[1]}")
    for name, packages in found.items():
        sizes = {one: size(one) / MB for one in packages}
        named = ", ".join(f"{one} {sizes[one]:.1f}" for one in packages)
        install = f"`tarry[{name}]`" if name else "`tarry`"
        text += f"| {install} | {len(packages)} | {sum(sizes.values()):.1f} | {named or 'nothing'} |\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
