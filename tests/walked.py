"""A rule for each of a long list, as one test: what pytest does around a case costs more than to look at a page."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


def each(cases: Iterable[T], name: Callable[[T], str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Tries all, and names those that fail, with what they say. A case is the rule's first argument; the others are fixtures, the same
    for all cases."""
    kept = list(cases)

    def as_one(rule: Callable[..., None]) -> Callable[..., None]:
        first, *fixtures = inspect.signature(rule).parameters.values()
        return _walked(rule, [(name(case), {first.name: case}) for case in kept], fixtures)

    return as_one


def cases(names: str | tuple[str, ...], rows: Iterable[Any], ids: Callable[[Any], str] = repr) -> Any:
    """Like ``pytest.mark.parametrize``, as one test; under another one, or under pytest's, for each row of that."""
    arguments = (names,) if isinstance(names, str) else names
    kept = [(row,) if isinstance(names, str) else row for row in rows]

    def as_one(rule: Callable[..., None]) -> Callable[..., None]:
        found = [("-".join(map(ids, row)), dict(zip(arguments, row, strict=True))) for row in kept]
        inner: list[tuple[str, dict[str, Any]]] = getattr(rule, "walked", [("", {})])
        both = [(f"{name}-{more}".strip("-"), {**given, **also}) for name, given in found for more, also in inner]
        parameters = inspect.signature(rule).parameters.values()
        return _walked(getattr(rule, "rule", rule), both, [one for one in parameters if one.name not in arguments])

    return as_one


def _walked(
    rule: Callable[..., None], rows: list[tuple[str, dict[str, Any]]], fixtures: Iterable[inspect.Parameter]
) -> Callable[..., None]:
    def walk(**given: Any) -> None:
        failed = []
        for name, case in rows:
            try:
                rule(**case, **given)
            except (AssertionError, pytest.fail.Exception) as error:
                failed.append(f"{name}: {error}")
                if not getattr(error, "pytrace", True):  # it hangs
                    break
            except BaseException as error:
                error.add_note(f"of {name}")
                raise
        if failed:
            pytest.fail("\n\n".join(failed), pytrace=False)

    made: Any = update_wrapper(walk, rule)
    made.__signature__ = inspect.Signature(list(fixtures))  # what pytest gives
    made.rule, made.walked = rule, rows
    return walk
