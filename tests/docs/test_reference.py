"""The pages made from the code say what the code says."""

from __future__ import annotations

import pytest

import generate


@pytest.mark.parametrize("name", [*generate.PAGES, *generate.PARTS])
def test_the_page_matches_the_code(name: str) -> None:
    written = (generate.DOCS / name).read_text(encoding="utf-8")
    assert written == generate.page(name), f"docs/{name} is stale: run `make docs`"
