"""Servers that freeze for a moment, or for longer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tarry
from faults.wait_until import blocked, until
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S


def test_a_call_waits_for_a_server_that_freezes_briefly(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    any_client = make_client(kind, server.url)
    any_client.call(any_client.topic("a"), "stats")
    server.freeze()
    add = threads.submit(any_client.call, any_client.topic("a"), "add", "tea", id="a")
    threading.Event().wait(0.1)
    assert not add.done()
    server.resume()
    assert add.result(LONGEST_S).is_new
    assert any_client.call(any_client.topic("a"), "stats").repeated == 0


def test_a_server_frozen_beyond_the_socket_timeout_does_nothing_twice(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    any_client = make_client(kind, server.url + "?socket_timeout=0.1", patience=LONGEST_S)
    topic = any_client.topic("a")
    any_client.call(topic, "stats")
    server.freeze()
    add = threads.submit(any_client.call, topic, "add", "tea", id="a")
    threading.Event().wait(0.4)
    assert not add.done()
    server.resume()
    assert add.result(LONGEST_S).is_new
    assert any_client.call(topic, "stats").ready == 1
    assert any_client.call(topic, "pop").attempt == 1


def test_calls_to_a_frozen_server_fail_when_patience_ends(server: ServerProcess, kind: str, make_client: Any) -> None:
    any_client = make_client(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.15)
    topic = any_client.topic("a")
    any_client.call(topic, "stats")
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            any_client.call(topic, "add", "tea")
        with pytest.raises(tarry.Unavailable):
            any_client.call(topic, "pop", wait=None)
        with pytest.raises(tarry.Unavailable):
            any_client.call(topic, "add_many", ["x" * 100_000] * 50)  # more than the line takes while nobody reads
    finally:
        server.resume()
    assert any_client.call(topic, "check").ok


@pytest.mark.slow
def test_a_waiting_pop_ends_when_the_server_freezes(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    """The waiting connection has no time-out of its own; the wait ends all the same."""
    any_client = make_client(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.3)
    topic = any_client.topic("a")
    pop = threads.submit(any_client.call, topic, "pop", wait=0.5)
    until(lambda: blocked(server))
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            pop.result(LONGEST_S)
    finally:
        server.resume()
    any_client.call(topic, "add", "tea")
    assert any_client.call(topic, "pop", wait=5).body == "tea"


def test_a_wait_that_begins_on_a_frozen_server_ends(
    server: ServerProcess, kind: str, make_client: Any, threads: ThreadPoolExecutor
) -> None:
    any_client = make_client(kind, server.url + "?socket_timeout=0.1", imaginary=False, patience=0.3)
    topic = any_client.topic("a")
    any_client.call(topic, "stats")
    server.freeze()
    try:
        with pytest.raises(tarry.Unavailable):
            threads.submit(any_client.call, topic, "pop", wait=None).result(LONGEST_S)
    finally:
        server.resume()
    assert any_client.call(topic, "pop", wait=0.01) is None
