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
import llms  # noqa: E402
import site_pages  # noqa: E402
import tree  # noqa: E402

MAINTAINERS = ["docs/maintainers/architecture", "docs/maintainers/release", "docs/maintainers/maintainers"]
MENU: dict[str, str | list[str]] = {
    "Learn": ["docs/tutorial/first-job", "docs/tutorial/first-worker"],
    "How-to": "docs/how-to",
    "Move over": "docs/migrate",
    "Run in production": "docs/production",
    "Reference": "docs/reference",
    "Explanation": "docs/explanation",
    "Evidence": "docs/evidence",
    "The project": ["docs/glossary", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT"],
    "For maintainers": ["docs/maintainers/README", *MAINTAINERS, "CONTRIBUTING", "docs/decisions/README"],
}
"""Pages, or a folder whose README.md lists them; each of its headings is a part of the menu."""
FOR_MAINTAINERS = {"Evidence", "For maintainers"}
"""They are not in llms.txt."""
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
html_static_path = ["site"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_use_index = False  # its entries are for the search
html_copy_source = False
html_show_sphinx = False
html_search_scorer = str(DOCS / "search_scorer.js")


def menu() -> list[tuple[str, list[str]]]:
    """The parts of the menu: a caption and its pages."""
    return [part for caption, pages in MENU.items() for part in parts_of(caption, pages)]


def parts_of(caption: str, pages: str | list[str]) -> list[tuple[str, list[str]]]:
    """A list of pages is one part. Of a folder the first part is its README with the pages that it lists above the first heading."""
    if not isinstance(pages, str):
        return [(caption, list(pages))]
    text = (DOCS.parent / pages / "README.md").read_text(encoding="utf-8")
    first, *rest = re.split(r"^## ", text, flags=re.M)
    parts = [(caption, [f"{pages}/README", *linked(pages, first)])]
    return [
        *parts,
        *((f"{caption}: {one.partition(chr(10))[0]}", linked(pages, one)) for one in rest if linked(pages, one)),
    ]


def linked(folder: str, text: str) -> list[str]:
    """The pages of the folder that a text links to, in its order."""
    return [f"{folder}/{name}" for name in dict.fromkeys(LINK.findall(text))]


def add_menu(_app: Sphinx, page: str, source: list[str]) -> None:
    """Append the menu to the first page, where a forge does not show it. Records of decisions are in no menu, their list is."""
    if page == root_doc:
        for caption, pages in menu():
            listed = "\n".join(f"/{name}" for name in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: '{caption}'\n\n{listed}\n```\n"
    elif page.startswith("docs/decisions/0"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"


def change_page(_app: Sphinx, page: str, source: list[str]) -> None:
    """Captions, tabs, words for the search: what a forge does not have (site_pages.py)."""
    source[0] = site_pages.for_the_site(page, source[0])


def add_lines(_app: Sphinx, page: str, source: list[str]) -> None:
    """Add how many lines each folder has to the picture of the source. The page itself would change with every commit."""
    if page == "docs/maintainers/architecture":
        source[0] = tree.with_picture(source[0], with_lines=True)


def add_figures(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Fill in the numbers. One without a row or a constant ends the build."""
    source[0] = figures.fill(source[0])


def add_files(app: Sphinx, failed: Exception | None) -> None:
    """The site's own address leads to the first page; programs read llms.txt and llms-full.txt."""
    if failed is None:
        front = '<!doctype html><meta charset="utf-8"><title>tarry</title>'
        front += f'<meta http-equiv="refresh" content="0; url={root_doc}.html"><a href="{root_doc}.html">tarry</a>\n'
        (Path(app.outdir) / "index.html").write_text(front, encoding="utf-8")
        read = [part for part in menu() if part[0].partition(":")[0] not in FOR_MAINTAINERS]
        (Path(app.outdir) / "llms.txt").write_text(llms.listed(read), encoding="utf-8")
        (Path(app.outdir) / "llms-full.txt").write_text(llms.full(read), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect them."""
    app.connect("source-read", change_page)
    app.connect("source-read", add_menu)
    app.connect("source-read", add_lines)
    app.connect("source-read", add_figures)
    app.add_config_value("numbers_on_pages", figures.values(), "env")  # all pages are read again when one changes
    app.connect("build-finished", add_files)
