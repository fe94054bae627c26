"""Whatever a server sends, no request gets another one's reply, and each gets one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tarry
from connections.strange_server import CUT, strange_server
from tarry.connections.awaited import Server
from tarry.connections.blocking import Server as BlockingServer
from tarry.connections.faults import ConnectionLost, Fault, ServerRefused
from until import LONGEST_S

Requests = Sequence[bytes]
Told = list[list[Any]]


def echo(words: list[bytes]) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(words[1]), words[1])


def ask_awaited(url: str, *batches: Requests) -> Told:
    """Each batch is sent at the same time as ECHOs; the next one when all have an answer."""

    async def story() -> Told:
        server = Server(url)
        told = [
            await asyncio.gather(*[server.exchange(((b"ECHO", word),)) for word in batch], return_exceptions=True)
            for batch in batches
        ]
        server.close()
        return [[reply[0] if isinstance(reply, list) else reply for reply in replies] for replies in told]

    return asyncio.run(story())


def ask_blocking(url: str, *batches: Requests) -> Told:
    """Each batch is one exchange."""
    server = BlockingServer(url)
    told: Told = []
    for batch in batches:
        try:
            told.append(server.exchange([(b"ECHO", word) for word in batch]))
        except Fault as fault:
            told.append([fault] * len(batch))
    server.close()
    return told


@pytest.fixture(params=[ask_awaited, ask_blocking])
def ask(request: pytest.FixtureRequest) -> Callable[..., Told]:
    found: Callable[..., Told] = request.param
    return found


def test_a_reply_too_many_is_nobodys(ask: Callable[..., Told]) -> None:
    with strange_server(lambda words: echo(words) * (2 if words[1] == b"b" else 1)) as url:
        assert ask(url, [b"1"], [b"a", b"b"], [b"c"])[1:] == [[b"a", b"b"], [b"c"]]


def test_a_push_message_is_nobodys_reply(ask: Callable[..., Told]) -> None:
    push = b">2\r\n+invalidate\r\n+x\r\n"
    with strange_server(lambda words: (push if words[1] == b"b" else b"") + echo(words)) as url:
        _, first, second = ask(url, [b"1"], [b"a", b"b", b"c"], [b"d"])
        assert first[0] == b"a"
        assert [type(fault) for fault in first[1:]] == [ConnectionLost] * 2
        assert second == [b"d"]


def test_half_a_reply_is_none(ask: Callable[..., Told]) -> None:
    with strange_server(lambda words: echo(words)[:-3] + CUT if words[1] == b"b" else echo(words)) as url:
        _, first, second = ask(url, [b"1"], [b"a", b"b", b"c"], [b"d"])
        assert first[0] == b"a"
        assert [type(fault) for fault in first[1:]] == [ConnectionLost] * 2
        assert second == [b"d"]


def test_what_no_client_can_read_is_not_told_to_those_behind() -> None:
    """They may be repeated: nobody knows whether they were done."""
    with strange_server(lambda words: b"HTTP/1.1 400\r\n" if words[1] == b"b" else echo(words)) as url:
        _, first, second = ask_awaited(url, [b"1"], [b"a", b"b", b"c"], [b"d"])
        assert first[0] == b"a"
        assert [type(fault) for fault in first[1:]] == [ServerRefused, ConnectionLost]
        assert second == [b"d"]


def test_all_callers_are_told_of_a_reply_that_makes_no_sense() -> None:
    info = b"redis_version:7.2.0\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"

    def answer(words: list[bytes]) -> bytes:
        if words[0] == b"INFO":
            return b"$%d\r\n%s\r\n" % (len(info), info)
        return b":1\r\n"

    async def story(url: str) -> list[Any]:
        async with tarry.AsyncClient(url) as client, asyncio.timeout(LONGEST_S):
            topic = client.topic("x")
            return await asyncio.gather(*[topic.add(n) for n in range(3)], return_exceptions=True)

    with strange_server(answer) as url:
        answers = asyncio.run(story(url))
    assert all(isinstance(one, Exception) for one in answers)


@pytest.mark.slow
def test_a_server_that_stops_reading_and_says_goodbye_keeps_nobody() -> None:
    """The transport would wait until all is sent."""

    async def story() -> None:
        said: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            said.append(writer)
            for _ in range(3):
                await reader.readuntil(b"CLIENT")
                writer.write(b"+OK\r\n")
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is one that reads
            writer.write_eof()

        door = await asyncio.start_server(serve, "127.0.0.1", 0)
        server = Server(f"redis://127.0.0.1:{door.sockets[0].getsockname()[1]}?socket_timeout=1000")
        async with asyncio.timeout(LONGEST_S):
            [fault] = await server.exchange(((b"ECHO", b"x" * 50_000_000),))
            assert isinstance(fault, ConnectionLost)
        server.close()
        for writer in said:
            writer.close()
        door.close()
        await door.wait_closed()

    asyncio.run(story())
