"""The blocking and the awaited client have the same verbs, signatures, defaults and docstrings."""

from __future__ import annotations

import inspect
import re

import pytest

import tarry
from tarry import zookeeper
from tarry.clients.awaited.base_client import AsyncBaseClient
from tarry.clients.blocking.base_client import BaseClient
from tarry.clients.redisson.awaited.dict_methods import AsyncDictMethods
from tarry.clients.redisson.blocking.dict_methods import DictMethods

PAIRS = [
    (tarry.Client, tarry.AsyncClient),
    (tarry.Topic, tarry.AsyncTopic),
    (tarry.Schedules, tarry.AsyncSchedules),
    (tarry.Job, tarry.AsyncJob),
    (tarry.DelayedQueue, tarry.AsyncDelayedQueue),
    (tarry.BlockingQueue, tarry.AsyncBlockingQueue),
    (tarry.Subscription, tarry.AsyncSubscription),
    (tarry.Lock, tarry.AsyncLock),
    (tarry.Grant, tarry.AsyncGrant),
    (tarry.Lost, tarry.AsyncLost),
    (tarry.MapCache, tarry.AsyncMapCache),
    (tarry.MapListener, tarry.AsyncMapListener),
    (DictMethods, AsyncDictMethods),
    (tarry.GuardedQueue, tarry.AsyncGuardedQueue),
    (zookeeper.Client, zookeeper.AsyncClient),
    (tarry.HTTPClient, tarry.AsyncHTTPClient),
    (BaseClient, AsyncBaseClient),
]
AWAITED = {"__enter__": "__aenter__", "__exit__": "__aexit__"}


def public_methods(kind: type) -> dict[str, object]:
    return {
        name: member for name, member in vars(kind).items() if inspect.isfunction(member) and not name.startswith("_")
    }


def plain(text: object) -> str:
    text = re.sub(r"Awaitable\[(.*?)\]", r"\1", str(text))  # a handler's answer
    return re.sub(
        r"\bAsync(?=Client|HTTPClient|Topic|Schedules|Job|DelayedQueue|BlockingQueue|Subscription|Lock|Grant|Guard|Lost|Generator|Map|Iterator|DictFace)",
        "",
        text,
    )


@pytest.mark.parametrize(("blocking", "awaiting"), PAIRS)
def test_blocking_and_async_classes_have_the_same_verbs(blocking: type, awaiting: type) -> None:
    assert public_methods(blocking).keys() == public_methods(awaiting).keys()


@pytest.mark.parametrize(
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
