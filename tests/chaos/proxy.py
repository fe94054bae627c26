"""A line to a server that can be slow, cut, half open, reset or refused: ``python proxy.py LISTEN TARGET_PORT``, a process.

Says its port, then is told one order a line, and answers each with ``ok``:

    delay MS       what passes is late by so much; 0: no more
    cut            all connections end (FIN)
    reset          all connections end (RST)
    hold KINDS     connections of these kinds that are open now stay open, and nothing passes any more
    end KINDS      the same, but the server's side of them ends: only the client is not told
    tell           the clients of such connections are told: they end (RST)
    refuse on|off  nobody listens

Kinds, with commas, by what the client has sent: ``subscribed``, ``blocked`` (in BLPOP), ``commands``.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from typing import Any

Transport = Any
SUBSCRIBED, BLOCKED, COMMANDS = "subscribed", "blocked", "commands"


class Side(asyncio.Protocol):
    """One end of a connection; what it receives goes to the other."""

    def __init__(self, hub: Hub, other: Side | None = None) -> None:
        self.hub, self.other = hub, other
        self.is_clients = other is None
        self.transport: Transport = None
        self.early: list[bytes] = []
        self.kind = COMMANDS
        self.silent = False
        self.next_at = 0.0

    def connection_made(self, transport: Transport) -> None:
        self.transport = transport
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.hub.sides.add(self)
        if self.other is None:
            self.other = Side(self.hub, self)
            self.reached = asyncio.ensure_future(self.hub.reach(self, self.other))
        else:
            for piece in self.other.early:
                transport.write(piece)
            self.other.early.clear()

    def data_received(self, data: bytes) -> None:
        if self.silent:
            return
        if b"\r\nSUBSCRIBE\r\n" in data:
            self.kind = SUBSCRIBED
        elif b"\r\nBLPOP\r\n" in data:
            self.kind = BLOCKED
        now = self.hub.loop.time()
        at = max(self.next_at, now + self.hub.delay_s)
        if at <= now:
            self.pass_on(data)
        else:
            self.next_at = at
            self.hub.loop.call_at(at, self.pass_on, data)

    def pass_on(self, data: bytes) -> None:
        assert self.other is not None
        if self.silent or self.transport.is_closing():
            return
        if self.other.transport is None:
            self.early.append(data)
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        self.hub.sides.discard(self)
        if self.other is not None and self.other.transport is not None and not self.silent:
            self.other.transport.abort()

    def go_silent(self, *, ends: bool) -> None:
        """The client's side: nothing passes any more, and it is not told. With ``ends`` the server is."""
        assert self.other is not None
        self.silent = self.other.silent = True
        if ends and self.other.transport is not None:
            self.other.transport.abort()

    def reset(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class Hub:
    """All connections, and what is done to them."""

    def __init__(self, port: int, target: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.port, self.target = port, target
        self.delay_s = 0.0
        self.sides: set[Side] = set()
        self.app: asyncio.Server | None = None

    async def listen(self) -> None:
        self.app = await self.loop.create_server(lambda: Side(self), "127.0.0.1", self.port, reuse_address=True)
        self.port = self.app.sockets[0].getsockname()[1]

    async def reach(self, client: Side, server: Side) -> None:
        try:
            await self.loop.create_connection(lambda: server, "127.0.0.1", self.target)
        except OSError:
            client.transport.abort()

    async def obey(self, word: str, rest: str) -> None:
        if word == "delay":
            self.delay_s = float(rest) / 1000
        elif word in ("cut", "reset"):
            for side in list(self.sides):
                if word == "reset":
                    side.reset()
                else:
                    side.transport.close()
        elif word in ("hold", "end"):
            for side in [side for side in self.sides if side.is_clients and side.kind in rest.split(",")]:
                side.go_silent(ends=word == "end")
        elif word == "tell":
            for side in [side for side in self.sides if side.silent]:
                side.reset()
        elif rest == "on":
            assert self.app is not None
            self.app.close()
        else:
            await self.listen()


async def main(port: int, target: int) -> None:
    hub = Hub(port, target)
    await hub.listen()
    print(hub.port, flush=True)
    reader = asyncio.StreamReader()
    await hub.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        word, _, rest = line.decode().strip().partition(" ")
        await hub.obey(word, rest)
        print("ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
