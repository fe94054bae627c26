"""How handles look in a debugger: what they are, of what, and where; never a password or a token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry import zookeeper

SECRET = "geheim"
AT = f"redis://me:{SECRET}@host.invalid:6380/3?socket_timeout=7"
SHOWN = "redis://host.invalid:6380/3"


def handles(client: Any) -> list[Any]:
    return [
        client,
        client.topic("orders"),
        client.schedules,
        client.delayed_queue("q"),
        client.blocking_queue("q"),
        client.guarded_queue("g"),
        client.map_cache("m", policy=None),
        client.map_cache("m", policy=None).as_dict(),
        client.lock("stock"),
        client.lock("stock", shared=True),
    ]


@pytest.mark.parametrize(("made", "before"), [(tarry.Client, ""), (tarry.AsyncClient, "Async")])
def test_a_repr_names_the_handle_and_its_server(made: Callable[..., Any], before: str) -> None:
    async def representations() -> list[str]:
        return [repr(one) for one in handles(made(AT, namespace="shop"))]

    assert asyncio.run(representations()) == [
        f"<{before}Client of shop at {SHOWN}>",
        f"<{before}Topic 'orders' of shop at {SHOWN}>",
        f"<{before}Schedules of shop at {SHOWN}>",
        f"<{before}DelayedQueue 'q' at {SHOWN}>",
        f"<{before}BlockingQueue 'q' at {SHOWN}>",
        f"<{before}GuardedQueue 'g' of shop at {SHOWN}>",
        f"<{before}MapCache 'm' at {SHOWN}>",
        f"<{before}MapDict of <{before}MapCache 'm' at {SHOWN}>>",
        f"<{before}Lock 'stock' of shop at {SHOWN}>",
        f"<{before}Lock 'stock' at {SHOWN}>",
    ]


@pytest.mark.parametrize(("made", "before"), [(tarry.HTTPClient, ""), (tarry.AsyncHTTPClient, "Async")])
def test_the_repr_of_an_http_client_shows_no_token(made: Callable[..., Any], before: str) -> None:
    client = made(f"https://me:{SECRET}@tarry.invalid", namespace="shop", token=SECRET)
    assert repr(client) == f"<{before}HTTPClient of shop at https://tarry.invalid>"
    assert (
        repr(client.topic("orders"))
        == f"<{'' if not before else 'Async'}Topic 'orders' of shop at https://tarry.invalid>"
    )
    assert SECRET not in repr(made(f"https://me:{SECRET}@tarry.invalid", token=SECRET))


def test_reprs_name_the_embedded_server_and_zookeeper() -> None:
    assert repr(tarry.Client("embedded://")) == "<Client of default at the embedded server>"
    locks = zookeeper.Client("zk1:2181,zk2:2181", namespace="shop")
    assert repr(locks) == "<Client of shop at zk1:2181,zk2:2181>"
    assert repr(locks.lock("stock")) == "<Lock 'stock' of shop at zk1:2181,zk2:2181>"
    assert repr(locks.lock("/stock", shared=True)) == "<Lock '/stock' at zk1:2181,zk2:2181>"


@pytest.mark.slow
def test_reprs_of_listeners_name_their_source(valkey_url: str) -> None:
    with tarry.Client(valkey_url) as client:
        with client.map_cache("m", policy=None).listen(print) as listener:
            assert repr(listener) == "<MapListener to 'm'>"
        with client.blocking_queue("q-told").subscribe(print) as subscription:
            assert repr(subscription) == "<Subscription to 'q-told'>"

    async def representations() -> list[str]:
        async with (
            tarry.AsyncClient(valkey_url) as client,
            await client.map_cache("m", policy=None).listen(print) as listener,
            client.blocking_queue("q-told").subscribe(print) as subscription,
        ):
            return [repr(listener), repr(subscription)]

    assert asyncio.run(representations()) == ["<AsyncMapListener to 'm'>", "<AsyncSubscription to 'q-told'>"]


def test_the_repr_of_a_grant_shows_its_state(valkey_url: str) -> None:
    with tarry.Client(valkey_url) as client:
        lock = client.lock("told-of")
        grant = lock.acquire()
        assert grant is not None
        assert repr(grant) == f"<Grant 'told-of', token {grant.token}>"
        grant.release()
        assert repr(grant) == f"<Grant 'told-of', token {grant.token}, released>"
        grant = lock.acquire(lease="1h")
        assert grant is not None
        lock.force_release()
        with pytest.raises(tarry.LockLost):
            grant.check()
        assert repr(grant) == f"<Grant 'told-of', token {grant.token}, lost: it was taken away>"
