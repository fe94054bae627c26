"""What several pages need is written on one of them; the others link to it. First of all, what is promised about killed workers."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

import generate
import prose
from doc_pages import MADE, PAGES, ROOT, name
from walked import each

SENTENCE = re.compile(
    r"A killed worker's jobs go to another running worker within two seconds if the server sees its connection end, "
    r"otherwise after their time to run"
)
PAGE = "docs/explanation/how-it-works.md"
ELSEWHERE = {PAGE, "CHANGELOG.md", "docs/how-to/use-with-celery.md", "docs/evidence/celery-delays.md"}
"""It, what has changed, and pages about Celery's workers."""
DOCSTRINGS = ("src/tarry/worker/liveness.py", "src/tarry/worker/worker.py")
"""What `help` shows has no links."""
TIME = re.compile(r"\b(\d+ ?s|seconds?|minutes?|TTR|time to run)\b", re.I)
KILLED = re.compile(r"(killed|dead|dying) worker|worker\S* (that )?(is killed|was killed|dies|died)|kill -9", re.I)


def text_of(path: Path) -> str:
    """Without tables that are made."""
    return " ".join(MADE.sub("", path.read_text("utf-8")).split())


def test_one_page_and_the_docstrings_have_the_promise() -> None:
    assert {name(page) for page in PAGES if SENTENCE.search(text_of(page))} == {PAGE, "CHANGELOG.md"}
    assert all(re.search(SENTENCE.pattern, text_of(ROOT / file), re.I) for file in DOCSTRINGS)


@each([page for page in PAGES if page.parent.name != "decisions"], name)
def test_no_other_page_says_when_the_jobs_of_a_killed_worker_come_back(page: Path) -> None:
    text = page.read_text("utf-8")
    if name(page) not in ELSEWHERE and not text.startswith(generate.NOTE):
        assert times(" ".join(prose.without_headings(MADE.sub("", text)).split())) == []


def times(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.;:|]) ", text)
    return [one for one in sentences if KILLED.search(one) and TIME.search(one)]


@pytest.mark.parametrize(
    "text",
    [
        "If you kill a worker by kill -9, another one gets its job fifteen seconds later.",
        "A killed worker's jobs come after their TTR.",
    ],
)
def test_a_second_promise_is_found(text: str) -> None:
    assert times(text) == [text]


RUN = 12
"""So many words in a row, on two pages, are a copy."""
PARAGRAPH = re.compile(r"\n\n|\n(?=[-|] )|\n(?=\d+\. )")
USUAL = re.compile(r"\*Starts from:\*|.*port 7117 is taken|.*While tarry is not published|- \[[^]]*\]", re.S)
"""What a page to follow begins with, and lines of a menu."""


def copies(pages: dict[str, str]) -> dict[str, set[str]]:
    """The runs of words that are on several pages, with these pages."""
    found: dict[str, set[str]] = defaultdict(set)
    for page, text in pages.items():
        for paragraph in PARAGRAPH.split(prose.without_headings(MADE.sub("", text))):
            words = re.findall(r"[\w'{}.]+", paragraph) if not USUAL.match(paragraph.lstrip()) else []
            for at in range(len(words) - RUN + 1):
                found[" ".join(words[at : at + RUN])].add(page)
    return {run: places for run, places in found.items() if len(places) > 1}


def test_no_sentence_is_on_two_pages() -> None:
    """README is the front page of a forge, and repeats; each page of docs/migrate is for the users of another system."""
    pages = {name(page): page.read_text("utf-8") for page in PAGES if page.parent.name not in {"decisions", "migrate"}}
    by_hand = {page: text for page, text in pages.items() if not text.startswith(generate.NOTE)}
    assert copies({page: text for page, text in by_hand.items() if page not in {"README.md", "CHANGELOG.md"}}) == {}


def test_a_copy_is_found() -> None:
    sentence = "The worker takes no new jobs, and running jobs have the grace period to end."
    assert len(copies({"one": sentence, "other": f"Then: {sentence}", "third": "no"})) > 0
