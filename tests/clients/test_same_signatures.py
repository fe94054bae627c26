"""The blocking and the awaited client have the same verbs, signatures, defaults and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType

import pytest

import tarry
from tarry import zookeeper
from tarry.clients.awaited.base_client import AsyncBaseClient
from tarry.clients.blocking.base_client import BaseClient
from walked import cases

PAIRS = [
    (tarry.Client, tarry.AsyncClient),
    (tarry.Topic, tarry.AsyncTopic),
    (tarry.Schedules, tarry.AsyncSchedules),
    (tarry.Job, tarry.AsyncJob),
    (tarry.redisson.DelayedQueue, tarry.redisson.AsyncDelayedQueue),
    (tarry.redisson.BlockingQueue, tarry.redisson.AsyncBlockingQueue),
    (tarry.redisson.Subscription, tarry.redisson.AsyncSubscription),
    (tarry.Lock, tarry.AsyncLock),
    (tarry.Grant, tarry.AsyncGrant),
    (tarry.types.LockLostEvent, tarry.types.AsyncLockLostEvent),
    (tarry.redisson.MapCache, tarry.redisson.AsyncMapCache),
    (tarry.redisson.MapListener, tarry.redisson.AsyncMapListener),
    (tarry.redisson.MapDict, tarry.redisson.AsyncMapDict),
    (tarry.types.GuardedQueue, tarry.types.AsyncGuardedQueue),
    (zookeeper.Client, zookeeper.AsyncClient),
    (tarry.HTTPClient, tarry.AsyncHTTPClient),
    (BaseClient, AsyncBaseClient),
]
AWAITED = {"__enter__": "__aenter__", "__exit__": "__aexit__"}


def public_methods(kind: type) -> dict[str, object]:
    """Without those that are its bases' under its name, such as the operators of a map, which differ."""
    return {
        name: member
        for name, member in vars(kind).items()
        if inspect.isfunction(member) and not name.startswith("_") and inspect.unwrap(member) is member
    }


def plain(text: object) -> str:
    text = re.sub(r"Awaitable\[(.*?)\]", r"\1", str(text))  # a handler's answer
    return re.sub(
        r"\bAsync(?=Client|HTTPClient|Topic|Schedules|Job|DelayedQueue|BlockingQueue|Subscription|Lock|Grant|Guard|Lost|Generator|Map|Iterator|Ends)",
        "",
        text,
    )


@cases(("blocking", "awaiting"), PAIRS)
def test_blocking_and_async_classes_have_the_same_verbs(blocking: type, awaiting: type) -> None:
    assert public_methods(blocking).keys() == public_methods(awaiting).keys()


@cases(
    ("blocking", "awaiting", "name"),
    [(blocking, awaiting, name) for blocking, awaiting in PAIRS for name in public_methods(blocking)],
)
def test_a_verb_has_the_same_signature_and_docstring_in_both(blocking: type, awaiting: type, name: str) -> None:
    one, other = public_methods(blocking)[name], public_methods(awaiting)[name]
    assert callable(one)
    assert callable(other)
    assert plain(inspect.signature(one)) == plain(inspect.signature(other))
    assert (one.__doc__ or "").split() == (other.__doc__ or "").split() or name == "close"


@pytest.mark.parametrize(("blocking", "awaiting"), [PAIRS[0], PAIRS[-2]])
def test_both_clients_take_the_same_options(blocking: type, awaiting: type) -> None:
    assert inspect.signature(blocking) == inspect.signature(awaiting)


def public_callables() -> list[tuple[str, Callable[..., object]]]:
    """All that `help(tarry)` shows with a signature: functions, classes and their methods."""
    found: list[tuple[str, Callable[..., object]]] = []
    homes: tuple[ModuleType, ...] = (tarry, tarry.types, tarry.redisson)
    for name, member in ((name, getattr(home, name)) for home in homes for name in home.__all__):
        if not callable(member):
            continue
        found.append((name, member))
        if isinstance(member, type):
            methods = (one for one in dir(member) if not one.startswith("_"))
            found += [
                (f"{name}.{one}", call)
                for one in methods
                if inspect.isfunction(call := inspect.getattr_static(member, one))
            ]
    return found


def test_no_number_and_no_ellipsis_stands_for_an_option_that_is_not_given() -> None:
    defaults: list[tuple[str, object]] = []
    for name, call in public_callables():
        with suppress(ValueError):  # a class without a signature
            defaults += [(f"{name}({one})", one.default) for one in inspect.signature(call).parameters.values()]
    assert len(defaults) > 1000
    assert [where for where, default in defaults if default in (-1, ...) or type(default) is object] == []
