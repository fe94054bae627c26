"""What the site does to a page before it reads it. A forge shows the same Markdown as it is.

    ```python        a block whose first line names a file has this name above it
    # shop.py
    **Blocking:**    a block after this line, and one after `**Awaited:**`, become two tabs
    dashboard.png    is shown with its dark twin, on dark pages
    search_words     words of other systems lead the search to the page

The tabs need no script: a label switches an input, and a rule of docs/site/site.css shows the block that belongs to it.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FILE = re.compile(r"^```(\w+)\n(?:#|//) ([\w./@-]+\.\w+|Dockerfile)(, at its end)?\n", re.M)
TABS = re.compile(
    r"^\*\*Blocking:\*\*\n\n(```python\n.*?^```\n)\n\*\*Awaited:\*\*\n\n(```python\n.*?^```\n)", re.M | re.S
)
PICTURE = re.compile(r"^!\[([^\]]+)\]\((\S*)dashboard\.png\)$", re.M)
SIGNATURE = re.compile(r"^```text\n(?=(?:async )?[\w.]+\()", re.M)


@cache
def search_words() -> dict[str, list[str]]:
    """For each page the words that its readers may search, and that it does not have."""
    words: dict[str, list[str]] = tomllib.loads((DOCS / "search_words.toml").read_text(encoding="utf-8"))
    return words


def for_the_site(page: str, text: str) -> str:
    """The page as Sphinx reads it."""
    text = FILE.sub(lambda file: f"```{{code-block}} {file[1]}\n:caption: {file[2]}{file[3] or ''}\n\n", text)
    text = TABS.sub(_tabs, text)
    text = PICTURE.sub(_picture, text)
    if page.startswith("docs/reference/"):
        text = SIGNATURE.sub("```{code-block} text\n:class: signature\n\n", text)
    if words := search_words().get(page):
        entries = ", ".join(f"! {word}" for word in words)
        text = re.sub(r"^# .*\n", lambda title: f"{title[0]}\n```{{index}} {entries}\n```\n", text, count=1, flags=re.M)
    return text


def _tabs(found: re.Match[str]) -> str:
    name = f"tabs-{found.start()}"
    heads = "".join(
        f'<input type="radio" name="{name}" id="{name}-{at}"{" checked" if at == 0 else ""}>'
        f'<label for="{name}-{at}">{title}</label>'
        for at, title in enumerate(("Blocking", "Awaited"))
    )
    return f'<div class="tabs">{heads}\n\n{found[1]}\n{found[2]}\n</div>\n'


def _picture(found: re.Match[str]) -> str:
    shown = {"only-light": "dashboard.png", "only-dark": "dashboard-dark.png"}
    return "\n\n".join(
        f"```{{image}} {found[2]}{name}\n:class: {kind}\n:alt: {found[1]}\n```" for kind, name in shown.items()
    )
