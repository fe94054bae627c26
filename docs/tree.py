"""The picture of the source at the top of Architecture: its folders from the highest floor down, each with the first sentence of its
`__init__`. `make docs` writes it into the page; the site adds how many lines each has.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "tarry"
PAGE = ROOT / "docs" / "maintainers" / "architecture.md"
BEGIN, END = "<!-- made by docs/tree.py: begin -->\n```text\n", "```\n<!-- end -->\n"
ELSEWHERE = {"django/management"}
"""Folders whose names and place another library wants."""


def floors() -> list[str]:
    """The top folders in the order of the contract, highest first; those that are on no floor come last."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    contract = next(one for one in settings["contracts"] if one["name"] == "imports go down only")
    named = [name for layer in contract["layers"] for name in re.findall(r"\w+", layer)]
    return [*named, *contract["exhaustive_ignores"]]


@cache
def sentence(folder: Path) -> str:
    """The first sentence of a folder's ``__init__``, without its full stop."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    match = re.match(r"(.+?)\.(?:\s|$)", text, re.S)
    return " ".join((match[1] if match else text).split()).replace("``", "")


def folders(parent: Path = SRC) -> Iterator[Path]:
    """All packages below a folder, each before what is in it."""
    order = floors() if parent == SRC else []
    found = [path.parent for path in parent.glob("*/__init__.py")]
    for folder in sorted(found, key=lambda path: (order.index(path.name) if path.name in order else 0, path.name)):
        if folder.relative_to(SRC).as_posix() not in ELSEWHERE:
            yield folder
            yield from folders(folder)


def lines(folder: Path) -> int:
    """How many lines the sources in a folder and below it have."""
    kinds = {".py", ".lua", ".html", ".css"}
    files = [path for path in folder.rglob("*") if path.suffix in kinds]
    return sum(path.read_text("utf-8").count("\n") for path in files)


def picture(*, with_lines: bool = False) -> str:
    """The picture, a line for each folder."""
    rows = [(folder, "  " * len(folder.relative_to(SRC).parts[1:]) + folder.name) for folder in folders()]
    width = max(len(name) for _, name in rows) + 2
    counts = {folder: f"{lines(folder):>7,} " if with_lines else "" for folder, _ in rows}
    return "".join(f"{name:<{width}}{counts[folder]}{sentence(folder)}\n" for folder, name in rows)


def with_picture(page: str, *, with_lines: bool = False) -> str:
    """The page with the picture of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + picture(with_lines=with_lines) + END + after
