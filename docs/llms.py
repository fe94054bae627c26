"""`llms.txt` and `llms-full.txt`, for programs that read the documents for somebody: the list of the pages, and the pages in one file.

Both have what a user reads, in the order of the site's menu: no records of decisions, no evidence, nothing for maintainers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parent.parent
FIRST = "docs/index"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def text_of(page: str) -> str:
    """A page of the site, with its numbers and without comments."""
    text = figures.fill((ROOT / f"{page}.md").read_text(encoding="utf-8"))
    return re.sub(r"<!--.*?-->\n*", "", text, flags=re.S)


def described(page: str) -> str:
    """A line of the list: its title, and what the README of its folder says of it."""
    file = ROOT / f"{page}.md"
    title = text_of(page).partition("\n")[0].removeprefix("# ")
    readme = file.parent / "README.md"
    told = re.search(
        rf"^- \[[^\]]*\]\({file.name}\)[:.]? (.+?)(?=\n- |\n\n|\Z)",
        readme.read_text(encoding="utf-8") if readme.exists() else "",
        re.M | re.S,
    )
    about = " ".join(LINK.sub(r"\1", told[1]).split()) if told else ""
    return f"- [{title}]({page}.html)" + (f": {about}\n" if about else "\n")


def listed(menu: Iterable[tuple[str, list[str]]]) -> str:
    """llms.txt: the first page's first paragraph, and each page with a link."""
    title, opening = text_of(FIRST).split("\n\n")[:2]
    parts = [f"{title}\n\n> {' '.join(opening.split())}\n"]
    parts += [f"## {caption}\n\n{''.join(map(described, pages))}" for caption, pages in menu]
    return "\n".join(parts)


def full(menu: Iterable[tuple[str, list[str]]]) -> str:
    """llms-full.txt: the pages, each after a line that names it."""
    pages = [FIRST, *(page for _, pages in menu for page in pages)]
    return "\n".join(f"<!-- {page}.md -->\n\n{text_of(page).strip()}\n" for page in pages)
