"""The site: Sphinx reads the same Markdown that a forge shows. `make docs` builds it into build/site, without a network.

The source folder is the whole repository, so links between pages, to the changelog or to an example mean the same in both.
A new page is in the menu when the README.md of its folder links to it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import tarry

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

import figures  # noqa: E402  # they lie beside this file, where Sphinx does not look
import tree  # noqa: E402

MENU = {
    "Learn": ["docs/tutorial/first-job", "docs/tutorial/first-worker"],
    "Do": "docs/how-to",
    "Move over": "docs/migrate",
    "Run in production": "docs/production",
    "Look up": "docs/reference",
    "Understand": "docs/explanation",
    "Evidence": "docs/evidence",
    "The project": ["docs/glossary", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"],
    "For maintainers": "docs/maintainers",
}
"""Pages, or a folder whose README.md lists them."""
FURTHER = {"docs/maintainers": ["CONTRIBUTING", "docs/decisions/README"]}
"""Pages that the README of a folder names and that are elsewhere."""
LINK = re.compile(r"\]\(([\w-]+)\.md\)")

project = "tarry"
author = copyright = "the tarry maintainers"
version = release = tarry.__version__
extensions = ["myst_parser"]
include_patterns = ["*.md", "docs/**/*.md", "docs/*.md"]
exclude_patterns = ["README.md", ".venv", "build", "tests"]  # README is the front page of a forge and of an index
root_doc = "docs/index"
myst_heading_anchors = 4
nitpicky = True
# Examples leave out what varies: JSON with `…` is none.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = f"tarry {release}"
html_copy_source = False
html_show_sphinx = False
html_search_scorer = str(DOCS / "search_scorer.js")


def pages_of(folder: str) -> list[str]:
    """The folder's README, and the pages that it links to, in its order."""
    text = (DOCS.parent / folder / "README.md").read_text(encoding="utf-8")
    return [
        f"{folder}/README",
        *dict.fromkeys(f"{folder}/{name}" for name in LINK.findall(text)),
        *FURTHER.get(folder, []),
    ]


def add_menu(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append the menu to the first page, where a forge does not show it."""
    if page == root_doc:
        for caption, pages in MENU.items():
            names = pages_of(pages) if isinstance(pages, str) else pages
            listed = "\n".join(f"/{name}" for name in names)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"
    elif page == "docs/decisions/README":
        listed = "\n".join(f"/{name}" for name in pages_of("docs/decisions")[1:])
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def add_lines(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add how many lines each folder has to the picture of the source. The page itself would change with every commit."""
    if page == "docs/maintainers/architecture":
        source[0] = tree.with_picture(source[0], with_lines=True)


def add_figures(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Fill in the numbers. One without a row or a constant ends the build."""
    source[0] = figures.fill(source[0])


def add_front_door(app: Sphinx, failed: Exception | None) -> None:
    """The site's own address leads to the first page."""
    if failed is None:
        front = '<!doctype html><meta charset="utf-8"><title>tarry</title>'
        front += f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">tarry</a>\n'
        (Path(app.outdir) / "index.html").write_text(front, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect them."""
    app.connect("source-read", add_menu)
    app.connect("source-read", add_lines)
    app.connect("source-read", add_figures)
    app.add_config_value("numbers_on_pages", figures.values(), "env")  # all pages are read again when one changes
    app.connect("build-finished", add_front_door)
