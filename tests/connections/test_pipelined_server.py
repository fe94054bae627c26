"""An awaited client's connection for all requests: each gets its own replies, whatever happens to the others."""

from __future__ import annotations

import asyncio

from tarry.connections.awaited import Server
from tarry.connections.blocking import Server as BlockingServer
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import ConnectionLost, ServerRefused
from tarry.errors import Unavailable

PING = ((b"PING",),)
BLOCKS = ((b"BLPOP", b"list", b"0"),)


def client_ids(running: ServerProcess) -> list[bytes]:
    clients = running.ask("CLIENT", "LIST")
    assert isinstance(clients, bytes)
    return [line.split()[0] for line in clients.splitlines() if b"name=tarry " in line]


def test_the_reply_to_a_cancelled_request_is_nobodys(running: ServerProcess) -> None:
    async def story() -> None:
        server = Server(running.url)
        await server.exchange(PING)
        before = client_ids(running)
        blocked = asyncio.ensure_future(server.exchange(BLOCKS))
        next_one = asyncio.ensure_future(server.exchange(((b"PING", b"mine"),)))
        await asyncio.sleep(0)
        blocked.cancel()
        running.ask("RPUSH", "list", "x")
        assert await next_one == [b"mine"]
        assert client_ids(running) == before
        server.close()

    asyncio.run(story())


def test_requests_wait_while_the_buffer_is_full(running: ServerProcess) -> None:
    """Each is larger than what a socket takes at once."""

    async def story() -> None:
        server = Server(running.url)
        bodies = [b"%d" % number * 1_000_000 for number in range(9)]
        replies = await asyncio.gather(*[server.exchange(((b"PING", body), *PING)) for body in bodies])
        assert replies == [[body, b"PONG"] for body in bodies]
        server.close()

    asyncio.run(story())


def test_a_connection_that_ends_is_told_to_all_who_wait(running: ServerProcess) -> None:
    async def story() -> None:
        server = Server(running.url)
        [own_id] = (await server.exchange(((b"CLIENT", b"ID"),)))[0:1]
        waiting = [asyncio.ensure_future(server.exchange((*PING, *BLOCKS))), *map(server_exchange(server), range(2))]
        await asyncio.sleep(0)
        running.ask("CLIENT", "KILL", "ID", str(own_id))
        first, *others = await asyncio.gather(*waiting)
        assert first[0] == b"PONG"
        assert [type(reply) for reply in (first[1], *[reply for [reply] in others])] == [ConnectionLost] * 3
        assert await server.exchange(PING) == [b"PONG"]
        server.close()

    asyncio.run(story())


def server_exchange(server: Server):  # type: ignore[no-untyped-def]  # a task for each number
    return lambda _: asyncio.ensure_future(server.exchange(PING))


def test_a_closed_connection_gives_its_reason(running: ServerProcess) -> None:
    async def story() -> None:
        server = Server(running.url)
        await server.exchange(PING)
        blocked = asyncio.ensure_future(server.exchange(BLOCKS))
        await asyncio.sleep(0)
        server.close(ServerRefused(Unavailable("closed")))
        [reply] = await blocked
        assert isinstance(reply, ServerRefused)
        assert not client_ids(running)

    asyncio.run(story())


def test_both_kinds_of_servers_read_all_kinds_of_replies(running: ServerProcess) -> None:
    commands = (
        (b"PING", b"x" * 100_000),
        (b"EVAL", b"return {1, false, {'a', {}}, redis.error_reply('NO way')}", b"0"),
        (b"GET", b"nothing"),
        (b"NOSUCHCOMMAND",),
        (b"TIME",),
    )

    async def awaited() -> list[object]:
        server = Server(running.url)
        try:
            return await server.exchange(commands)
        finally:
            server.close()

    blocking = BlockingServer(running.url)
    for replies in (asyncio.run(awaited()), blocking.exchange(commands)):
        text, nested, nothing, refused, moment = replies
        assert (text, nested[:3], nothing) == (b"x" * 100_000, [1, None, [b"a", []]], None)  # type: ignore[index]
        assert isinstance(refused, ServerRefused)
        assert len(moment) == 2  # type: ignore[arg-type]
    blocking.close()
