"""Functions that users give, as handlers and middleware: their name, and what a call of them must not be.

A call of a generator function runs none of its lines. It returns without an error, so its job would count as done. Such a
function is refused when it is given, and such a result when the call returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import GeneratorType
from typing import Any

from tarry.errors import BadInput


def name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).rpartition("<locals>.")[2]


def is_async(function: Callable[..., Any]) -> bool:
    return any(map(inspect.iscoroutinefunction, _called(function)))


def refuse_generator(function: Callable[..., Any], what: str) -> None:
    """Raises ``BadInput`` for a function with a ``yield``, also below its decorators. ``what`` is what it is to be, for the error."""
    called = [inspect.unwrap(one) for one in _called(function)]
    is_generator = any(map(inspect.isgeneratorfunction, called))
    if is_generator or any(map(inspect.isasyncgenfunction, called)):
        kind = "a generator" if is_generator else "an async generator"
        raise BadInput(
            f"{what} {name_of(function)}: it contains yield and so is {kind}, and a call of it runs none of its lines; "
            "write it without yield."
        )


def refuse_unfinished(result: Any, *, is_async: bool = False) -> None:
    """Raises ``TypeError`` if what a handler returned is work that nobody has done, an awaitable, a generator, an async iterator; or an
    exception, which was to be raised.

    ``is_async``: whether the handler is an ``async def``.
    """
    if result is None:
        return
    if isinstance(result, BaseException):
        raise TypeError(
            f"the handler returned a {type(result).__name__}, which says that jobs have failed; raise it"
        ) from result
    if isinstance(result, (GeneratorType, map, filter)):
        raise TypeError(
            f"the handler returned a {type(result).__name__}, whose work is not done until something loops over it; "
            "loop over it in the handler"
        )
    if hasattr(result, "__await__"):
        if inspect.iscoroutine(result):
            result.close()
        if is_async:
            raise TypeError("the handler returned an awaitable, whose work is not done; write await before it")
        raise TypeError("the handler is a plain function and returned an awaitable; make it an async def")
    if hasattr(result, "__anext__"):
        raise TypeError(
            "the handler returned an async iterator, whose work is not done until something loops over it; "
            "loop over it with async for in the handler"
        )


def _called(function: Callable[..., Any]) -> tuple[Any, Any]:
    """The function, and that of an object that can be called."""
    return function, getattr(function, "__call__", function)  # noqa: B004  # an object whose __call__ is async
