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


def summary(page: str) -> tuple[str, str]:
    """Its title, and its first sentence that is not what it starts from."""
    title, _, rest = text_of(page).partition("\n")
    paragraphs = [part for part in rest.split("\n\n") if re.match(r"\s*[A-Z`*\[](?!Starts from)", part)]
    first = " ".join(LINK.sub(r"\1", paragraphs[0]).split()) if paragraphs else ""
    return title.removeprefix("# "), re.split(r"(?<=[.:])\s", first)[0]


def listed(menu: Iterable[tuple[str, list[str]]]) -> str:
    """llms.txt: the first page's first words, and each page with a link and a sentence."""
    title, sentence = summary(FIRST)
    parts = [f"# {title}\n\n> {sentence}\n"]
    for caption, pages in menu:
        lines = []
        for page in pages:
            name, about = summary(page)
            lines.append(f"- [{name}]({page}.html){': ' + about if about else ''}\n")
        parts.append(f"## {caption}\n\n{''.join(lines)}")
    return "\n".join(parts)


def full(menu: Iterable[tuple[str, list[str]]]) -> str:
    """llms-full.txt: the pages, each after a line that names it."""
    pages = [FIRST, *(page for _, pages in menu for page in pages)]
    return "\n".join(f"<!-- {page}.md -->\n\n{text_of(page).strip()}\n" for page in pages)
