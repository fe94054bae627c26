"""Words of other libraries (Celery, RQ, BullMQ): an error names tarry's word for each.

They are answered at run time only. Type checkers see no attribute and no ``**kwargs``, and refuse them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
TOPIC = 'Topic, made by client.topic("…")'
ADD = 'add, and options(delay="5m").add for later'
KEYWORDS = {
    "countdown": 'delay=, such as delay=5 or delay="5m"',
    "eta": "at=, a datetime with a time zone",
    "queue": "topic=",
}
OF_JOBS = {**KEYWORDS, "queue": "topic=, an argument of @worker.task"}
"""For the options of one job: its topic is its task's."""


class OtherWord:
    """A class attribute that does not exist: reading it raises ``AttributeError`` with tarry's word. ``hasattr`` is false.

    Costs nothing for the other attributes, as ``__getattr__`` would.
    """

    def __init__(self, word: str) -> None:
        self._word = word

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise no_attribute(f"{owner.__name__!r} object", self._name, self._word)


def no_attribute(owner: str, name: str, word: str | None) -> AttributeError:
    """The error for an attribute that does not exist, with tarry's word for it."""
    return AttributeError(f"{owner} has no attribute {name!r}" + (f"; tarry's word is {word}" if word else ""))


def hint_for_options(error: str) -> str:
    """The end of an error about an unknown argument of a task's call, which may be meant for the job."""
    name = next((name for name in (*OF_JOBS, "delay", "at", "id", "ttr") if error.endswith(f"argument '{name}'")), None)
    if name is None:
        return ""
    return "; tarry's word is " + (
        OF_JOBS[name] if name == "queue" else 'options(…), such as options(delay="5m").add(…)'
    )


def answers_other_words(words: dict[str, str]) -> Callable[[F], F]:
    """A decorator: the function raises ``TypeError`` with tarry's word for a keyword of another library."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            if not words.keys().isdisjoint(options):
                name = next(name for name in options if name in words)
                raise TypeError(f"{function.__name__}() has no argument {name!r}; tarry's word is {words[name]}")
            return function(*args, **options)

        return call  # type: ignore[return-value]  # the same signature

    return decorate
