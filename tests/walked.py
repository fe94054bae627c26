"""A rule for each of a long list, as one test: what pytest does around a case costs more than to look at a page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
LONGEST_NAME = 100


def each(cases: Iterable[T], name: Callable[[T], str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Tries all, and names those that fail, with what they say. A case is the rule's first argument; the others are fixtures, the same
    for all cases."""
    kept = list(cases)

    def as_one(rule: Callable[..., None]) -> Callable[..., None]:
        first = next(iter(inspect.signature(rule).parameters))
        return _walked(rule, [{first: case} for case in kept], {first: name})

    return as_one


def cases(names: str | tuple[str, ...], rows: Iterable[Any], ids: Callable[[Any], str] = repr) -> Any:
    """``pytest.mark.parametrize`` as one test. Above another one it tries each row with each of the other's; those of pytest stand above."""
    arguments = (names,) if isinstance(names, str) else names
    kept = [dict(zip(arguments, (row,) if isinstance(names, str) else row, strict=True)) for row in rows]

    def as_one(rule: Callable[..., None]) -> Callable[..., None]:
        plain, inner, inner_ids = getattr(rule, "walked", (rule, [{}], {}))
        return _walked(
            plain,
            [{**given, **more} for given in kept for more in inner],
            {**dict.fromkeys(arguments, ids), **inner_ids},
        )

    return as_one


def _walked(
    rule: Callable[..., None], rows: list[dict[str, Any]], ids: dict[str, Callable[[Any], str]]
) -> Callable[..., None]:
    def walk(**fixtures: Any) -> None:
        failed = []
        for row in rows:
            try:
                rule(**row, **fixtures)
            except (AssertionError, pytest.fail.Exception) as error:
                failed.append(f"{_name(row, ids)}: {error}")
                if not getattr(error, "pytrace", True):  # it hangs
                    break
            except BaseException as error:
                error.add_note(f"of {_name(row, ids)}")
                raise
        if failed:
            pytest.fail("\n\n".join(failed), pytrace=False)

    made: Any = update_wrapper(walk, rule)
    fixtures = [one for one in inspect.signature(rule).parameters.values() if one.name not in ids]
    made.__signature__ = inspect.Signature(fixtures)  # what pytest gives
    made.walked = (rule, rows, ids)
    return walk


def _name(row: dict[str, Any], ids: dict[str, Callable[[Any], str]]) -> str:
    return "-".join(ids[argument](value)[:LONGEST_NAME] for argument, value in row.items())
