"""Rules for every page: each block names its language, and each link leads somewhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from doc_pages import OF_ONE_EXTRA, ONE_EXTRA, PAGES, ROOT, blocks, name
from walked import each

RUN = {"python", "console", "sh", "java"}
SHOWN = {"text", "json", "toml", "lua"}
WORDS_OF_README = 1_100
WORDS_OF_CHANGES = 900
FILES = {"js", "ts", "go", "ini", "dockerfile"}
"""What is only shown as a file, which a command on the page uses."""
ANCHOR = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?://)([^)#\s]*)(#[^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


@cache
def anchors(page: Path) -> set[str]:
    """What a forge makes of headings: lower case, without punctuation, with hyphens."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {"#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@each(PAGES, name)
def test_every_block_names_its_language(page: Path) -> None:
    assert [block.place for block in blocks(page) if block.language not in RUN | SHOWN | FILES] == []
    assert [block.place for block in blocks(page) if block.language in FILES and not block.file] == []


@each(PAGES, name)
def test_a_file_is_a_block_of_its_own(page: Path) -> None:
    """Coloured and copied as what it is: its first line is a comment with its name."""
    assert [block.place for block in blocks(page) if block.language == "sh" and "<<" in block.text] == []


@each(PAGES, name)
def test_every_block_that_is_not_run_has_a_reason(page: Path) -> None:
    assert [block.place for block in blocks(page) if block.not_run == ""] == []


@each([page for page in PAGES if page.parent.name in {"how-to", "production", "migrate"}], name)
def test_every_page_to_follow_says_what_it_starts_from(page: Path) -> None:
    run = [block for block in blocks(page) if block.language in RUN]
    if run:
        start = re.search(r"^\*Starts from:\* .*", page.read_text(encoding="utf-8").partition("\n## ")[0], re.M)
        assert start is not None
        command = any(re.search(r"^(\$ )?tarry ", block.text, re.M) and block.not_run is None for block in run)
        extras = "cli" in start[0] or "standard" in start[0]
        assert extras or not command, "it uses the command line, which is an extra"


@pytest.mark.parametrize("page", OF_ONE_EXTRA, ids=name)
def test_a_page_of_a_system_that_tarry_comes_from_needs_one_extra_and_three_commands(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"pip install ([^`]*)`", text) == [f"'tarry[{ONE_EXTRA}]'"]
    there = [block for block in blocks(page) if block.language in RUN]
    assert {block.language for block in there} <= {"console", "sh"}, "commands only"
    assert all(block.not_run is None for block in there)
    shown = [line for block in there for line in block.text.splitlines() if block.language == "console"]
    started = [line for block in there if block.language == "sh" for line in re.findall("^tarry .*", block.text, re.M)]
    assert 2 <= len(started) + sum(line.startswith("$ ") for line in shown) <= 3
    assert not shown[-1].startswith("$ "), "what is seen at the end"


@each(PAGES, name)
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = [target for target, _ in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@each(PAGES, name)
def test_every_anchor_is_a_heading(page: Path) -> None:
    links = ANCHOR.findall(page.read_text(encoding="utf-8"))
    wrong = [target + one for target, one in links if one not in anchors(page.parent / target if target else page)]
    assert wrong == []


@each(PAGES, name)
def test_every_picture_is_there_and_needs_no_other_host(page: Path) -> None:
    for target in PICTURE.findall(page.read_text(encoding="utf-8")):
        picture = page.parent / target
        assert picture.exists(), target
        if picture.suffix == ".svg":
            loaded = re.findall(r"(?:href|src|url)\W{1,3}(?:https?:)?//[^\"')]+", picture.read_text(encoding="utf-8"))
            assert loaded == [], target


def test_the_changelog_has_one_section_that_is_not_released() -> None:
    titles = re.findall("^## (.*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    undated = [title for title in titles if not re.search(r"\d{4}-\d\d-\d\d$", title)]
    assert all(title.endswith(", not yet released") for title in undated)
    assert len(undated) <= 1


def test_what_is_not_released_fits_a_page() -> None:
    """A user reads it before an upgrade. Change the line that has the feature; a new line needs a shorter one elsewhere."""
    sections = re.split("^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    open_ones = [one for one in sections if ", not yet released" in one.partition("\n")[0]]
    assert all(len(one.split()) <= WORDS_OF_CHANGES for one in open_ones)


def test_readme_fits_two_screens() -> None:
    """Somebody who has never heard of tarry reads it; what needs more words has a page."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= WORDS_OF_README


def test_every_page_of_the_docs_can_be_reached() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        text = page.read_text(encoding="utf-8")
        waiting += [(page.parent / target).resolve() for target, _ in LINK.findall(text)]
    assert [name(page) for page in PAGES if page not in reached] == []
