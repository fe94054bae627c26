"""A server whose memory is full: due elements are moved, and none is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs.redisson.delayed import transfer
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import pack

KEYS = keys_of("q")
GOOD, LAST = pack(b"tea", b"12345678"), pack(b"milk", b"12345678")


@pytest.fixture
def full(own_server: Callable[..., ServerProcess]) -> Iterator[tuple[TestClient, ServerProcess]]:
    """It has an unreadable element, a good one, and one that is not due."""
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        now = clock.us // 1000
        running.ask("RPUSH", KEYS.order, b"bad", GOOD, LAST)
        running.ask("ZADD", KEYS.timeouts, str(now - 1), b"bad", str(now), GOOD, str(now + 1), LAST)
        running.ask("CONFIG", "SET", "maxmemory", "1")
        yield client, running


@pytest.mark.parametrize("places", [(), (b"0", b"1")], ids=["searched", "by their places"])
def test_due_elements_are_moved_and_unreadable_ones_set_aside(
    full: tuple[TestClient, ServerProcess], places: tuple[bytes, ...]
) -> None:
    client, running = full
    anchor = transfer.Anchor(2, b"bad", LAST) if places else None
    done = client.engine.runner.perform(transfer.transfer(KEYS, places=places, anchor=anchor))
    assert (done.moved, done.poison, done.assumed_places) == (1, 1, bool(places))
    assert running.ask("LRANGE", KEYS.ready, "0", "-1") == [b"tea"]
    assert running.ask("HKEYS", KEYS.poison) == [b"bad"]
    assert running.ask("LRANGE", KEYS.order, "0", "-1") == [LAST]
