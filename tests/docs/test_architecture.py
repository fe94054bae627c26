"""The table of docs/explanation/architecture.md: every question has an answer, and every file that it names exists."""

from __future__ import annotations

import re

from doc_pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
FILE = re.compile(r"`([\w./-]+\.(?:py|lua|md|html))`")


def answers() -> dict[str, list[str]]:
    table = PAGE.read_text(encoding="utf-8").partition("## Where do I find…")[2]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.M)[1:]
    return {question: FILE.findall(files) for question, files in rows}


def test_there_are_at_least_twenty_questions() -> None:
    assert len(answers()) >= 20


def test_every_file_named_in_an_answer_exists() -> None:
    gone = {q: [f for f in files if not (ROOT / "src" / "tarry" / f).exists()] for q, files in answers().items()}
    assert {question: files for question, files in gone.items() if files} == {}


def test_no_answer_names_more_than_five_files() -> None:
    assert {question: len(files) for question, files in answers().items() if not 1 <= len(files) <= 5} == {}
