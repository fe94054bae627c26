"""What type checkers must know about the errors. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from typing import assert_type

import tarry
from tarry import errors


def told(error: errors.StaleReceipt) -> None:
    assert_type(error.id, str)
    assert_type(error.attempt, int | None)
    assert_type(error.code, str)


def caught() -> None:
    try:
        pass
    except errors.TarryError as error:
        assert_type(error, errors.TarryError)
    except ConnectionError:
        pass


def of_other_modules() -> None:
    """Each public name has one module."""
    _ = tarry.MapCache  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    _ = tarry.Duration  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    _ = tarry.FallenBehind  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


bad: ValueError = errors.BadInput("no")
gone: ConnectionError = errors.Unavailable("no answer", done=3)
