"""The blocking modules are what the tool makes from the awaited ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import blocking

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return blocking.made()


@pytest.mark.slow
@pytest.mark.parametrize("path", blocking.MADE, ids=str)
def test_generated_modules_are_up_to_date(made: dict[Path, str], path: Path) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == made[path], f"{path} is stale: run `make blocking`"


def test_generated_modules_are_marked_in_gitattributes() -> None:
    lines = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{path} linguist-generated" for path in blocking.MADE]


def test_a_blocking_docstring_is_taken_from_its_comment() -> None:
    source = '"""A lock, awaited."""\n\n\nasync def close() -> None:\n    """Waits, then closes."""\n    # blocking: Closes.\n    await wait()\n'
    assert (
        blocking.blocking(source, set())
        == '"""A lock, blocking."""\n\n\ndef close() -> None:\n    """Closes."""\n    wait()\n'
    )
