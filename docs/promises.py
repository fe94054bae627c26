"""The promises on the pages, and the tests that show each: `make docs` makes a page of them.

The pages alone say what is promised: in a section of PLACES, each bold phrase that begins a paragraph or an item. The tests alone say
what they show: in the last line of a docstring, ``Promise: Never early; Microseconds.``
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOW = "docs/explanation/how-it-works.md"
PLACES: dict[tuple[str, str], bool] = {
    ("README.md", "What it promises"): True,
    (HOW, "Rules that hold everywhere"): True,
    (HOW, "Receipts"): False,
    (HOW, "When a worker is killed"): False,
    (HOW, "Retries without duplicates"): False,
    (HOW, "Waiting: the watch"): False,
    (HOW, "Locks"): False,
    ("docs/evidence/reliability.md", "What is checked"): True,
}
"""Page and section; whether each bold phrase in it is a promise, or the section is one."""
BOLD = re.compile(r"^(?:- )?\*\*([^*:]+?)\.?\*\*", re.M)
SHOWN = re.compile(r"^Promise: (.+)\.$", re.M)
OPENING = """\
The tests that show what the pages promise. To run one, give its line to `pytest`. A test names its promises in its docstring, so
`grep -rn "Promise: .*Never early" tests` finds them, too. The faults that are tried for a minute or longer are on
[Reliability](../evidence/reliability.md).
"""


def promises() -> dict[str, list[tuple[str, str]]]:
    """Each promise, and where it stands: page and section. Raises KeyError for a section that was renamed."""
    found: dict[str, list[tuple[str, str]]] = {}
    for page, section, title, _ in written():
        found.setdefault(title, []).append((page, section))
    return found


def written() -> Iterator[tuple[str, str, str, str]]:
    """Each promise with its page, its section, and the text that it begins."""
    for (page, section), has_several in PLACES.items():
        parts = re.split(r"^##+ (.*)\n", (ROOT / page).read_text(encoding="utf-8"), flags=re.M)
        text = dict(zip(parts[1::2], parts[2::2], strict=True))[section]
        pieces = BOLD.split(text)
        for title, piece in zip(pieces[1::2], pieces[2::2], strict=True) if has_several else [(section, text)]:
            yield page, section, title, piece


def link_to_tests(page: str, title: str) -> str:
    """How a page links to the tests of a promise."""
    target = "docs/reference/promises.md" if page == "README.md" else "../reference/promises.md"
    return f"([tests]({target}#{_anchor(title)}))"


@cache
def shown_by() -> dict[str, list[str]]:
    """The promises that tests name, as they name them, and these tests."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").glob("*/**/test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "Promise: " not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for line in SHOWN.findall(ast.get_docstring(node) or ""):
                    for title in line.split("; "):
                        found.setdefault(title, []).append(f"{file.relative_to(ROOT).as_posix()}::{node.name}")
    return found


def promises_page() -> str:
    """Each promise with its places and its tests."""
    tests, parts = shown_by(), ["# Promises and their tests\n", OPENING]
    for title, places in promises().items():
        lines = "".join(f"- `{test}`\n" for test in tests.get(title, []))
        parts.append(f"## {title}\n\nPromised in {' and '.join(_link(*place) for place in places)}.\n\n{lines}")
    return "\n".join(parts)


def _link(page: str, section: str) -> str:
    if page == "README.md":  # it is not on the site
        return f'`README.md`, "{section}"'
    return f"[{section}](../{page.removeprefix('docs/')}#{_anchor(section)})"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
