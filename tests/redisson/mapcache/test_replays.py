"""A call whose answer was lost is repeated: the answer is the same, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from redisson.mapcache.conftest import BACKENDS
from tarry.clients.testing import Clock, TestClient

VERBS: dict[str, Callable[[Any], Any]] = {
    "put_if_absent": lambda verbs: verbs.put_if_absent("new", "1", 5, None),
    "put_if_absent, refused": lambda verbs: verbs.put_if_absent("k", "1", 5, None),
    "fast_put_if_absent": lambda verbs: verbs.fast_put_if_absent("new", "1", 5, None),
    "replace": lambda verbs: verbs.replace("k", "8"),
    "replace_if": lambda verbs: verbs.replace_if("k", "7", "8"),
    "replace_if, refused": lambda verbs: verbs.replace_if("k", "9", "8"),
    "remove": lambda verbs: verbs.remove("k"),
    "remove_if": lambda verbs: verbs.remove_if("k", "7"),
    "add_and_get": lambda verbs: verbs.add_and_get("k", 1),
    "expire_entry": lambda verbs: next(verbs.expire_entries(["k"], 5, None, True)),
    "fast_remove": lambda verbs: next(verbs.fast_remove(["k", "m"])),
}


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    with TestClient(url, Clock()) as made:
        yield made


@BACKENDS
@pytest.mark.parametrize("verb", VERBS)
def test_a_repeated_call_returns_the_same(verb: str, backend: Any, client: TestClient, server: Any, name: str) -> None:
    cache = client.map_cache(name, codec="string", backend=backend, policy=None)
    cache.put("k", "7")
    call = VERBS[verb](cache.verbs)
    first = client.engine.run(call)
    lies = server.hgetall(name)
    assert client.engine.run(call.as_replay()) == first
    assert server.hgetall(name) == lies
    assert server.pttl(call.keys[[b":answer:" in key for key in call.keys].index(True)]) <= 30_000


def test_a_repeated_put_changes_nothing(client: TestClient, server: Any, name: str) -> None:
    verbs = client.map_cache(name, codec="string", policy=None).verbs
    call = verbs.put("k", "1", 5, 5, False)
    assert client.engine.run(call) is None
    lies = server.hgetall(name)
    assert client.engine.run(call.as_replay()) == "1", "it finds itself"
    assert server.hgetall(name) == lies
