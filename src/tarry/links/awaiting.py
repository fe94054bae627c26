"""Reaching one server, awaiting: one connection for all requests, pipelined; one more for waiting.

    exchange a ──send──┐                 replies come in the order of the requests; each exchange reads its own
    exchange b ────────send──┐           when its turn has come
                       └─read─┴─read─▶

An exchange must not be cancelled by those who wait for its answer: the runner performs it in a task of its own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import redis.exceptions as driver

from tarry.links.address import ANSWER_S, connection_class
from tarry.links.blocking import WAIT_S, Replies, Words, pack
from tarry.links.faults import Fault, Lost, meaning


class Server:
    """One server, by its URL, in one event loop."""

    def __init__(self, url: str) -> None:
        self._class, self._arguments = connection_class(url, awaiting=True)
        self._connection: Any = None
        self._sending = asyncio.Lock()
        self._reading = asyncio.Lock()

    async def exchange(self, commands: Sequence[Words]) -> Replies:
        """Sends commands and reads their replies. Raises a ``Fault`` when there is no whole answer."""
        async with self._sending:
            connection = self._connection
            if connection is None:
                connection = self._connection = await self.connect()
            try:
                await connection.send_packed_command(list(map(pack, commands)), check_health=False)
            except Exception as error:
                await self._drop(connection)
                raise meaning(error) from error
        async with self._reading:  # joined in the order of sending: nothing is awaited in between
            if connection is not self._connection:
                raise Lost("the connection broke while an earlier reply was awaited")
            try:
                async with asyncio.timeout(ANSWER_S):
                    return [await _read(connection) for _ in commands]
            except BaseException as error:
                await self._drop(connection)
                if not isinstance(error, Exception):
                    raise
                raise meaning(error) from error

    async def connect(self) -> Any:
        """A connection of one's own."""
        connection = self._class(**self._arguments)
        try:
            async with asyncio.timeout(ANSWER_S):
                await connection.connect()
        except Exception as error:
            raise meaning(error) from error
        return connection

    async def close(self) -> None:
        if self._connection is not None:
            await self._drop(self._connection)

    async def _drop(self, connection: Any) -> None:
        if connection is self._connection:
            self._connection = None
        await connection.disconnect(nowait=True)


async def _read(connection: Any) -> Any:
    try:
        return await connection.read_response(timeout=math.inf, disconnect_on_error=False)
    except driver.ResponseError as error:
        return meaning(error)


class WaitingLine:
    """The one connection that blocks, for all who wait: BLPOP over tokens, begun, awaited, ended."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Any = None
        self._id = b""
        self._reply: asyncio.Task[Any] | None = None
        self.keys: tuple[bytes, ...] = ()

    async def begin(self, keys: tuple[bytes, ...]) -> None:
        """Waits for a token in one of the keys. Raises a ``Fault``."""
        try:
            if self._connection is None:
                self._connection = await self._server.connect()
                await self._connection.send_packed_command([pack((b"CLIENT", b"ID"))], check_health=False)
                self._id = b"%d" % await self._connection.read_response()
            words = (b"BLPOP", *keys, b"%d" % WAIT_S)
            await self._connection.send_packed_command([pack(words)], check_health=False)
        except Exception as error:
            await self.drop()
            raise error if isinstance(error, Fault) else meaning(error) from error
        self._reply = asyncio.ensure_future(_read(self._connection))
        self.keys = keys

    async def wait(self, seconds: float, poke: asyncio.Future[None]) -> bytes | None:
        """Until a token comes (answers its key), the time is up, or somebody pokes. Raises a ``Fault``."""
        assert self._reply is not None
        await asyncio.wait({self._reply, poke}, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED)
        return await self._read() if self._reply.done() else None

    async def end(self) -> bytes | None:
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
        while self._reply is not None:
            if not self._reply.done():
                await self._server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])
                await asyncio.wait({self._reply}, timeout=0.05)
            if self._reply.done():
                return await self._read()
        return None

    async def _read(self) -> bytes | None:
        assert self._reply is not None
        task, self._reply, self.keys = self._reply, None, ()
        try:
            reply = task.result()
        except Exception as error:
            await self.drop()
            raise meaning(error) from error
        if isinstance(reply, Fault):
            raise reply
        return reply[0] if reply else None

    async def drop(self) -> None:
        connection, task = self._connection, self._reply
        self._connection, self._reply, self.keys = None, None, ()
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        if connection is not None:
            await connection.disconnect(nowait=True)
