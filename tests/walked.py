"""A rule for each of a long list, as one test: what pytest does around a case costs more than to look at a page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import TypeVar

import pytest

T = TypeVar("T")


def each(cases: Iterable[T], name: Callable[[T], str]) -> Callable[[Callable[[T], None]], Callable[[], None]]:
    """Tries all, and names those that fail, with what they say."""

    def as_one(rule: Callable[[T], None]) -> Callable[[], None]:
        def walk() -> None:
            failed = []
            for case in cases:
                try:
                    rule(case)
                except AssertionError as error:
                    failed.append(f"{name(case)}: {error}")
                except BaseException as error:
                    error.add_note(f"of {name(case)}")
                    raise
            if failed:
                pytest.fail("\n\n".join(failed), pytrace=False)

        walk = update_wrapper(walk, rule)
        walk.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # pytest gives it nothing
        return walk

    return as_one
