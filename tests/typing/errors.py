"""What type checkers must know about the errors. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from typing import assert_type

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


bad: ValueError = errors.BadInput("no")
gone: ConnectionError = errors.Unavailable("no answer", done=3)
