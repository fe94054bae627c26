"""The table of docs/maintainers/architecture.md: every question has an answer, and every file and function that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

from doc_pages import ROOT

PAGE = ROOT / "docs" / "maintainers" / "architecture.md"
FILE = re.compile(r"`([\w./-]+\.(?:py|lua|md|html))`(?: \(([\w, ]+)\))?")
"""A file, and functions in it."""


def answers() -> dict[str, list[tuple[str, str]]]:
    table = PAGE.read_text(encoding="utf-8").partition("## Where do I find…")[2]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.M)[1:]
    return {question: FILE.findall(files) for question, files in rows}


def test_there_are_at_least_twenty_questions() -> None:
    assert len(answers()) >= 20


def place_of(file: str) -> Path:
    return ROOT / file if file.startswith(("tests/", "tools/")) else ROOT / "src" / "tarry" / file


def test_every_file_named_in_an_answer_exists() -> None:
    assert [file for files in answers().values() for file, _ in files if not place_of(file).exists()] == []


def test_every_function_named_in_an_answer_is_in_its_file() -> None:
    named = [
        (file, name) for files in answers().values() for file, names in files for name in re.findall(r"\w+", names)
    ]
    assert len(named) >= 20
    assert [
        (file, name)
        for file, name in named
        if not re.search(rf"(?:def|function) {name}\(", place_of(file).read_text(encoding="utf-8"))
    ] == []


def test_no_answer_names_more_than_five_files() -> None:
    assert {question: len(files) for question, files in answers().items() if not 1 <= len(files) <= 5} == {}
