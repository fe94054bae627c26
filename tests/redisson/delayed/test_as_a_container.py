"""Queues under Python's own words: ``len`` and ``in``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tarry


@pytest.fixture
def client(valkey_url: str) -> Iterator[tarry.Client]:
    with tarry.Client(valkey_url) as client:
        yield client


def test_a_shared_queue_supports_len_and_in(client: tarry.Client, name: str) -> None:
    waiting = client.delayed_queue(name, codec="string")
    ready = client.blocking_queue(name, codec="string")
    assert (len(waiting), len(ready), list(waiting)) == (0, 0, [])
    waiting.offer_many(["a", "b"], "1h")
    ready.put("c")
    assert (len(waiting), len(ready)) == (2, 1)
    assert ("a" in waiting, "c" in waiting, "c" in ready, "a" in ready) == (True, False, True, False)
    assert (list(waiting), bool(waiting)) == (["a", "b"], True)
    waiting.clear()
    assert not waiting


def test_a_guarded_queue_supports_len(client: tarry.Client, name: str) -> None:
    queue = client.guarded_queue(name)
    assert len(queue) == 0
    queue.push({"a": 0, "b": "1h"})
    assert len(queue) == queue.size() == 2
