"""What is promised about killed workers is written on one page; the others link to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import generate
import prose
from doc_pages import MADE, PAGES, ROOT, name

SENTENCE = re.compile(
    r"A killed worker's jobs go to another running worker within two seconds if the server sees its connection end, "
    r"otherwise after their time to run"
)
PAGE = "docs/explanation/how-it-works.md"
ELSEWHERE = {PAGE, "CHANGELOG.md", "docs/how-to/use-with-celery.md"}
"""It, what has changed, and a page about Celery's workers."""
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


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=name)
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
