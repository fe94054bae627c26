"""The numbers on the pages are references, and each has a row of the benchmarks or a constant (docs/figures.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

import figures
from doc_pages import PAGES, ROOT, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_number_has_a_row_or_a_constant(page: Path) -> None:
    filled = figures.fill(page.read_text(encoding="utf-8"))
    assert "{{" not in filled


def test_every_number_that_is_named_can_be_filled_in() -> None:
    assert all(figures.values().values())


def test_a_number_without_a_row_fails() -> None:
    with pytest.raises(LookupError, match=r"docs/figures\.py"):
        figures.fill("It takes {{burst.of_none}}.")


def test_a_row_that_was_not_measured_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(figures.MEASURED, "burst.renamed", figures.Measured("burst", "no such measure"))
    with pytest.raises(LookupError, match=r"benchmarks\.json has no row 'burst'"):
        figures.fill("It takes {{burst.renamed}}.")


def test_constants_are_written_as_people_write_them() -> None:
    text = figures.fill(
        "{{default.ttr}} {{default.keep_dead}} {{default.retry_longest}} {{default.max_body}} {{default.concurrency}}"
    )
    assert text == "60 s 30 days 1 h 1 MiB 100"


def test_readme_is_shown_as_it_is() -> None:
    """A forge and an index of packages fill in nothing."""
    assert figures.REFERENCE.findall((ROOT / "README.md").read_text(encoding="utf-8")) == []
