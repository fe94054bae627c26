"""The tool makes the blocking modules from the awaited ones; `make lint` runs it with ``--check``."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import blocking

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_stale_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(iter(blocking.MADE))
    text = (ROOT / path).read_text(encoding="utf-8")
    monkeypatch.setattr(blocking, "made", lambda: {path: text})
    monkeypatch.setattr("sys.argv", ["blocking.py", "--check"])
    blocking.main()
    monkeypatch.setattr(blocking, "made", lambda: {path: text + "planted = 1\n"})
    with pytest.raises(SystemExit, match=f"stale: {re.escape(str(path))}. Run `make blocking`"):
        blocking.main()


def test_generated_modules_are_marked_in_gitattributes() -> None:
    lines = (ROOT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert lines == [f"{path} linguist-generated" for path in blocking.MADE]


def test_a_blocking_docstring_is_taken_from_its_comment() -> None:
    source = '"""A lock, awaited."""\n\n\nasync def close() -> None:\n    """Waits, then closes."""\n    # blocking: Closes.\n    await wait()\n'
    assert (
        blocking.blocking(source, set())
        == '"""A lock, blocking."""\n\n\ndef close() -> None:\n    """Closes."""\n    wait()\n'
    )
