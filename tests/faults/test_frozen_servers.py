"""Servers that freeze for a moment, or for longer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tarry
from faults.patience import HANG_S, blocked, until
from tarry.connections.embedded.process import ServerProcess


def test_a_server_that_freezes_for_a_moment_is_waited_for(
    server: ServerProcess, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url)
    way.call(way.topic("a"), "stats")
    server.freeze()
    add = threads.submit(way.call, way.topic("a"), "add", "tea", id="a")
    threading.Event().wait(0.1)
    assert not add.done()
    server.resume()
    assert add.result(HANG_S).created
    assert way.call(way.topic("a"), "stats").repeated == 0


def test_a_server_frozen_for_longer_than_an_answer_may_take_does_nothing_twice(
    server: ServerProcess, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url + "?socket_timeout=0.1", patience=HANG_S)
    topic = way.topic("a")
    way.call(topic, "stats")
    server.freeze()
    add = threads.submit(way.call, topic, "add", "tea", id="a")
    threading.Event().wait(0.4)
    assert not add.done()
    server.resume()
    assert add.result(HANG_S).created
    assert way.call(topic, "stats").ready == 1
    assert way.call(topic, "pop").attempt == 1


def test_a_frozen_server_is_given_up_when_patience_ends(server: ServerProcess, kind: str, ways: Any) -> None:
    way = ways(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.15)
    topic = way.topic("a")
    way.call(topic, "stats")
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            way.call(topic, "add", "tea")
        with pytest.raises(tarry.Unavailable):
            way.call(topic, "pop", wait=None)
        with pytest.raises(tarry.Unavailable):
            way.call(topic, "add_many", ["x" * 100_000] * 50)  # more than the line takes while nobody reads
    finally:
        server.resume()
    assert way.call(topic, "check").ok


def test_who_waits_while_the_server_freezes_is_told_or_served(
    server: ServerProcess, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    """The waiting connection has no time-out of its own; the wait ends all the same."""
    way = ways(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.3)
    topic = way.topic("a")
    pop = threads.submit(way.call, topic, "pop", wait=0.5)
    until(lambda: blocked(server))
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            pop.result(HANG_S)
    finally:
        server.resume()
    way.call(topic, "add", "tea")
    assert way.call(topic, "pop", wait=5).body == "tea"


def test_a_wait_that_begins_while_the_server_freezes_ends(
    server: ServerProcess, kind: str, ways: Any, threads: ThreadPoolExecutor
) -> None:
    way = ways(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.3)
    topic = way.topic("a")
    way.call(topic, "stats")
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            threads.submit(way.call, topic, "pop", wait=None).result(HANG_S)
    finally:
        server.resume()
    assert way.call(topic, "pop", wait=0.01) is None
