"""The rule of the suffix: a class whose methods are awaited is ``Async…``; beside a blocking twin a method ends with ``_async``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tarry


def verbs() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """The public methods of all public classes: the class, the name, the function."""
    for name in dir(tarry):
        kind = getattr(tarry, name)
        if inspect.isclass(kind):
            for verb, function in inspect.getmembers(kind, inspect.isfunction):
                if not verb.startswith("_"):
                    yield name, verb, function


def test_only_beside_its_blocking_twin_a_method_ends_with_async() -> None:
    ends = {(kind, verb) for kind, verb, _ in verbs() if verb.endswith("_async")}
    assert ends == {("Task", f"{verb}_async") for verb in ("add", "cancel", "get", "reschedule", "result")}
    for kind, verb in ends:
        assert inspect.iscoroutinefunction(getattr(getattr(tarry, kind), verb))
        assert not inspect.iscoroutinefunction(getattr(getattr(tarry, kind), verb.removesuffix("_async")))


def test_a_class_with_other_awaited_methods_is_async_by_name_or_has_no_blocking_twin() -> None:
    awaited = {
        kind for kind, verb, function in verbs() if inspect.iscoroutinefunction(function) and "_async" not in verb
    }
    assert {kind for kind in awaited if not kind.startswith("Async")} == {"Worker"}
    assert not hasattr(tarry, "AsyncWorker")
