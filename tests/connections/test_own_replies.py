"""Each caller gets its own reply, or a fault: whoever is cancelled, whatever is killed, whenever a reply is late."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tarry.connections.awaited import Server
from tarry.connections.blocking import RequestConnection
from tarry.connections.blocking import Server as BlockingServer
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import ConnectionLost, Fault


@pytest.mark.slow
def test_each_caller_gets_its_own_reply(running: ServerProcess) -> None:
    drawn = random.Random(7)

    async def ask(server: Server, number: int) -> bool:
        words = [b"%d/%d" % (number, at) + b"x" * drawn.choice((0, 10, 300_000)) for at in range(drawn.randint(1, 3))]
        try:
            replies = await server.exchange([(b"PING", word) for word in words])
        except ConnectionLost:
            return False
        assert len(replies) == len(words)
        assert all(reply == word for reply, word in zip(replies, words, strict=True) if not isinstance(reply, Fault))
        return replies == words

    async def story() -> int:
        server = Server(f"{running.url}?socket_timeout=0.5")
        answered = 0
        for number in range(150):
            tasks = [asyncio.ensure_future(ask(server, number * 10 + at)) for at in range(drawn.randint(1, 8))]
            for _ in range(drawn.randint(0, 12)):
                await asyncio.sleep(0)
            happens = drawn.random()
            if happens < 0.5:
                drawn.choice(tasks).cancel()
            elif happens < 0.8:
                running.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            elif happens < 0.82:  # longer than the timeout
                running.ask("CLIENT", "PAUSE", "700")
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            answered += ends.count(True)
            for end in ends:
                assert isinstance(end, (bool, asyncio.CancelledError)), end
        server.close()
        return answered

    assert asyncio.run(story()) > 100


def test_an_error_while_sending_ends_the_connection(running: ServerProcess) -> None:
    """A signal handler may raise when the request was sent, but nobody waits for its reply."""

    class Interrupted(BaseException):
        pass

    class Transport:
        def __init__(self, transport: Any) -> None:
            self._transport = transport

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

        def write(self, data: bytes) -> None:
            self._transport.write(data)
            raise Interrupted

    async def story() -> None:
        server = Server(running.url)
        await server.exchange(((b"PING",),))
        connection = server._connection
        assert connection is not None
        connection._transport = Transport(connection._transport)
        with pytest.raises(Interrupted):
            await server.exchange(((b"PING", b"one"),))
        connection._transport = connection._transport._transport
        assert await server.exchange(((b"PING", b"two"),)) == [b"two"]
        server.close()

    asyncio.run(story())


def test_what_came_in_time_is_read(running: ServerProcess) -> None:
    server = BlockingServer(running.url)
    connection = RequestConnection(server.connect())
    try:
        assert not connection.can_read(0.01)
        for _ in range(2):
            connection.send([(b"PING", b"mine")])
            assert connection.can_read(5)
            assert connection.can_read(5)
            assert connection.read() == b"mine"
        running.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert connection.can_read(5)
        with pytest.raises((ConnectionLost, OSError)):
            connection.read()
    finally:
        connection.disconnect()
