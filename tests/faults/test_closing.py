"""An awaited client that is closed leaves no connection open, whatever else happens at that moment.

A connection that is left open complains in ``gc.collect()``, and that fails the test.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from faults.blocked_clients import until_blocked
from faults.loop_turns import real
from tarry.connections.awaited import Server
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import ConnectionLost

VERBS: dict[str, Callable[[Any, str], Any]] = {
    "add": lambda client, name: client.topic(name).add("tea"),
    "pop": lambda client, name: client.topic(name).pop(wait=5),
    "workers": lambda client, _: client.workers(),
    "take": lambda client, name: client.blocking_queue(name, codec="json").poll(wait=5),
    "lock": lambda client, name: client.lock(name).acquire(wait=0),
    "plain commands": lambda client, name: client.guarded_queue(name, guard=client.lock(name)).stats(),
    "result": lambda client, name: client.topic(name).result("nobody", wait=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("connected", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_begins_while_the_client_is_closed_leaves_nothing_open(
    verb: str, connected: bool, running: ServerProcess, name: str
) -> None:
    async def story(_: Any) -> None:
        for turns in range(12):
            client = tarry.AsyncClient(running.url)
            before = asyncio.ensure_future(VERBS[verb](client, name))
            if connected:
                await client.topics()
            closing = asyncio.ensure_future(client.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            during = asyncio.ensure_future(VERBS[verb](client, name))
            for end in await asyncio.gather(before, closing, during, return_exceptions=True):
                assert not isinstance(end, Exception) or isinstance(end, tarry.TarryError)

    real(running.url, story)
    gc.collect()


def test_a_loop_may_end_when_the_server_has_just_closed_the_connection(running: ServerProcess) -> None:
    async def story() -> None:
        server = Server(running.url)
        [own_id] = await server.exchange(((b"CLIENT", b"ID"),))
        lost = asyncio.ensure_future(server.exchange(((b"BLPOP", b"nothing", b"0"),)))
        await asyncio.sleep(0)
        running.ask("CLIENT", "KILL", "ID", str(own_id))
        [fault] = await lost
        assert isinstance(fault, ConnectionLost)

    asyncio.run(story())
    gc.collect()


def test_a_connection_that_breaks_before_its_first_request_is_closed(
    running: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        server = Server(running.url)
        opened = await server.connect()
        opened._writer.transport.abort()
        await asyncio.sleep(0)

        async def connect() -> Any:
            return opened

        monkeypatch.setattr(server, "connect", connect)
        with pytest.raises(ConnectionLost):
            await server.exchange(((b"PING",),))

    asyncio.run(story())
    gc.collect()


def test_a_closed_server_connects_no_more(running: ServerProcess) -> None:
    async def story() -> None:
        for turns in range(1, 10):
            server = Server(running.url)
            waits = await server.connect()
            connecting = asyncio.ensure_future(server.connect())
            for _ in range(turns):
                await asyncio.sleep(0)
            server.close()
            assert waits._writer is None
            with pytest.raises(ConnectionLost):
                await connecting
            with pytest.raises(ConnectionLost, match="was closed"):
                await server.connect()

    asyncio.run(story())
    gc.collect()


def test_an_element_that_comes_while_the_client_is_closed_is_taken_or_stays(running: ServerProcess, name: str) -> None:
    async def story(other: Any) -> None:
        queue = other.blocking_queue(name, codec="json")
        for turns in range(30):
            client = tarry.AsyncClient(running.url)
            taking = asyncio.ensure_future(client.blocking_queue(name, codec="json").poll(wait=50))
            await until_blocked(running)
            adding = asyncio.ensure_future(queue.put("tea"))
            for _ in range(turns):
                await asyncio.sleep(0)
            await client.close()
            await adding
            (taken,) = await asyncio.gather(taking, return_exceptions=True)
            assert taken == "tea" or await queue.poll() == "tea"

    real(running.url, story)


def test_a_transaction_that_is_under_way_is_waited_for(running: ServerProcess, name: str) -> None:
    async def story(_: Any) -> None:
        for turns in range(1, 40):
            client = tarry.AsyncClient(running.url)
            queue = client.guarded_queue(name, guard=client.lock(name))
            await client.topics()
            offering = asyncio.ensure_future(queue.stats())
            for _ in range(turns):
                await asyncio.sleep(0)
            await client.close()
            assert offering.done()
            offering.exception()

    real(running.url, story)
    gc.collect()
