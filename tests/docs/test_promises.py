"""Each promise of the pages names tests that show it, and each test names promises that are on a page (docs/promises.py).

That docs/reference/promises.md has both is told by test_reference.py.
"""

from __future__ import annotations

import pytest

import promises


def test_every_promise_has_a_test() -> None:
    """Write ``Promise:``, its words and a full stop into the docstring of a test that shows it."""
    assert promises.promises().keys() - promises.shown_by().keys() == set()


def test_every_promise_that_a_test_names_is_on_a_page() -> None:
    unknown = promises.shown_by().keys() - promises.promises().keys()
    assert unknown == set(), "see the headings of docs/reference/promises.md"


@pytest.mark.parametrize("page", ["README.md", promises.HOW])
def test_every_promise_of_these_pages_links_to_its_tests(page: str) -> None:
    """The link leads to a heading of docs/reference/promises.md (test_pages.py), which lists them (test_reference.py)."""
    there = [(title, text) for at, _, title, text in promises.written() if at == page]
    assert len(there) >= 5
    assert [title for title, text in there if promises.link_to_tests(page, title) not in " ".join(text.split())] == []


def test_every_line_that_names_a_promise_is_read() -> None:
    """One in the docstring of a file, of a class or of a helper, or without its full stop, would show nothing."""
    lines = [
        f"{file.relative_to(promises.ROOT).as_posix()}: {line.strip()}"
        for file in (promises.ROOT / "tests").glob("**/*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if line.lstrip(' "').startswith("Promise: ")
    ]
    read = {test for tests in promises.shown_by().values() for test in tests}
    assert len(lines) == len(read), lines
