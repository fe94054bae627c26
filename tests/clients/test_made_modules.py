"""The blocking modules that are made from the awaited ones are what the tool makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import blocking

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return blocking.made()


@pytest.mark.parametrize("path", blocking.MADE, ids=str)
def test_a_module_that_is_made_is_up_to_date(made: dict[Path, str], path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == made[path], f"{path} is stale: run `make blocking`"


def test_forges_hide_what_is_made() -> None:
    lines = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{path} linguist-generated" for path in blocking.MADE]


def test_a_docstring_of_the_blocking_client_stands_behind_the_awaited_one() -> None:
    source = '"""A lock, awaited."""\n\n\nasync def close() -> None:\n    """Waits, then closes."""\n    # blocking: Closes.\n    await wait()\n'
    assert (
        blocking.blocking(source, set())
        == '"""A lock, blocking."""\n\n\ndef close() -> None:\n    """Closes."""\n    wait()\n'
    )
