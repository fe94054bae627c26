"""A function that fails once, by an error that nobody expects: what goes on in the background must go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BUG = "a bug of tarry"


def failing_once(function: Callable[..., Any], seen: Callable[[], object] = lambda: None) -> Callable[..., Any]:
    """The function, which fails at its first call. ``seen`` is called at the second."""
    calls: list[None] = []

    def call(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == 1:
            raise TypeError(BUG)
        seen()
        return function(*given, **named)

    return call
