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
from contextlib import suppress
from typing import Any

import redis.exceptions as driver

from tarry.connections.address import connection_class
from tarry.connections.blocking import (
    BUFFERED_TIMEOUT_S,
    READ_ONLY,
    ROLE,
    Alive,
    Args,
    MasterCheck,
    Replies,
    T,
    judge_role,
    pack,
    raise_faults,
    transaction_end,
)
from tarry.connections.blocking_blpop import WAIT_S
from tarry.connections.connection_limit import Permit
from tarry.connections.faults import CLOSED, CONNECTION_ERRORS, ConnectionLost, Fault, fault_of
from tarry.core.requests import Transaction


class Server:
    """One server, by its URL, in one event loop."""

    def __init__(
        self,
        url: str,
        max_answer_s: float = math.inf,
        *,
        replica_of_cluster: bool = False,
        guard: MasterCheck | None = None,
    ) -> None:
        """``max_answer_s``: no answer is waited for any longer. ``of_a_replica``: of a Cluster, which answers there only who says
        that he only reads. ``guard`` is asked about each connection."""
        self.forbidden: frozenset[bytes] = frozenset()
        """Commands that the user of the URL may not run, as far as anybody told."""
        self.confirms: set[bytes] = set()
        """Commands by which it can confirm what it was given."""
        self._class, self._arguments, self.answer_timeout_s = connection_class(
            url, awaited=True, max_answer_s=max_answer_s
        )
        self._read_only = replica_of_cluster
        self._connection: Any = None
        self._send_lock = asyncio.Lock()
        self._reading = asyncio.Lock()
        self._all: Alive[Any] = Alive()
        self._loop = asyncio.get_running_loop()
        self._dropping: asyncio.Task[None] | None = None
        self._guard = guard
        self.url = url
        if guard is not None:
            guard.watch(self)

    async def exchange(self, commands: Sequence[Args]) -> Replies:
        """Sends commands and reads their replies. Raises a ``Fault`` when there is no answer at all; where an answer
        breaks off, what had come is answered and the rest is ``ConnectionLost``."""
        async with self._send_lock:
            connection = self._connection
            if connection is None:
                connection = self._connection = await self.connect()
            try:
                async with asyncio.timeout(self.answer_timeout_s):
                    await send(connection, commands)
            except BaseException as error:
                await self._drop(connection)
                if not isinstance(error, Exception):
                    raise
                raise self._meaning(error) from error
        replies: Replies = []
        try:
            async with self._reading:  # joined in the order of sending: nothing is awaited in between
                if connection is not self._connection:
                    raise ConnectionLost("the connection broke while an earlier reply was awaited")
                try:
                    async with asyncio.timeout(self.answer_timeout_s):
                        for _ in commands:
                            replies.append(await _read(connection))  # those that came are kept
                except (
                    TimeoutError
                ):  # perhaps it was this loop that stood still, and not the server: what has come is taken
                    async with asyncio.timeout(BUFFERED_TIMEOUT_S):
                        for _ in commands[len(replies) :]:
                            replies.append(await _read(connection))
        except BaseException as error:  # cancelled, too: a reply that nobody reads would be taken for the next one's
            await self._drop(connection)
            if not isinstance(error, Exception):
                raise
            replies += [self._meaning(error)] * (len(commands) - len(replies))
        return replies

    async def transact(self, transaction: Transaction[T], within_s: float | None = None) -> T:
        """Performs a transaction, again while what it watches changes, all of it ``within_s``. Raises a ``Fault``."""
        try:
            async with asyncio.timeout(within_s):
                connection = await self.connect()  # what it watches is a connection's own, and the other is everybody's
                try:
                    while True:
                        words = transaction.decide(await self._request(connection, transaction.begin))
                        answers = (await self._request(connection, transaction_end(words)))[-1]
                        if answers is not None:
                            return transaction.decode(answers if words else [])
                finally:
                    await abort_connection(connection)
        except (TimeoutError, *CONNECTION_ERRORS) as error:
            raise self._meaning(error) from error

    async def _request(self, connection: Any, commands: Sequence[Args]) -> Replies:
        return raise_faults(await self._asked(connection, commands))

    async def _asked(self, connection: Any, commands: Sequence[Args]) -> Replies:
        async with asyncio.timeout(self.answer_timeout_s):
            await send(connection, commands)
            return [await _read(connection) for _ in commands]

    async def connect(self, *, push_messages: bool = False) -> Any:
        """A connection of one's own; ``told``: on which the server says something by itself, as lists."""
        connection = self._class(**(self._arguments | {"protocol": 3} if push_messages else self._arguments))
        try:
            if self._guard is not None:
                await asyncio.to_thread(self._guard.confirm, self.url, self.answer_timeout_s)
            async with asyncio.timeout(self.answer_timeout_s):
                await connection.connect()
                if self._guard is not None:
                    self._all.add(connection)
                    judge_role(await self._asked(connection, ROLE))
                    self._guard.keep(self.url)
                if self._read_only:
                    await self._request(connection, [READ_ONLY])
            if push_messages:
                connection._parser.set_invalidation_push_handler(_unchanged)
        except BaseException as error:
            await abort_connection(connection)
            if not isinstance(error, Exception):
                raise
            raise self._meaning(error) from error
        return connection

    def drop_all(self) -> None:
        """From any thread: whoever waits for an answer is told that there will be none."""
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for connection in self._all.all():
            if connection._writer is not None:
                connection._writer.transport.abort()
        if self._connection is not None:
            self._dropping = asyncio.ensure_future(self._drop(self._connection))
            self._connection = None  # nobody sends on it from now on

    async def close(self) -> None:
        if self._connection is not None:
            await self._drop(self._connection)

    async def _drop(self, connection: Any) -> None:
        if connection is self._connection:
            self._connection = None
        await abort_connection(connection)

    def _meaning(self, error: Exception) -> Fault:
        return (
            ConnectionLost(f"no answer for {self.answer_timeout_s:g} s")
            if type(error) is TimeoutError
            else fault_of(error, database=self._arguments.get("db", 0))
        )


async def _unchanged(message: Any) -> Any:
    return message


async def send(connection: Any, commands: Sequence[Args]) -> None:
    """Sends commands. What the transport raises is a ``Fault``, or one of ``CONNECTION_ERRORS``."""
    try:
        await connection.send_packed_command(list(map(pack, commands)), check_health=False)
    except CLOSED as error:
        raise fault_of(error) from error


async def read_push_or_reply(connection: Any) -> Any:
    """The next reply or message: a value, or a ``Fault``."""
    try:
        return await connection.read_response(timeout=math.inf, disconnect_on_error=False, push_request=True)
    except driver.ResponseError as error:
        return fault_of(error)


async def abort_connection(connection: Any) -> None:
    """Ends a connection at once: one with TLS would still wait for a farewell when its event loop is closed."""
    writer = connection._writer
    await connection.disconnect(nowait=True)
    if writer is not None and writer.get_extra_info("ssl_object") is not None:
        writer.transport.abort()


async def _read(connection: Any) -> Any:
    try:
        return await connection.read_response(timeout=math.inf, disconnect_on_error=False)
    except driver.ResponseError as error:
        return fault_of(error)


class BlpopConnection:
    """The one connection that blocks, for all who wait: BLPOP over tokens, begun, awaited, ended.

    The server ends a wait by itself from time to time. A line on which it did not is dead, however open it looks.
    """

    wait_s = WAIT_S

    def __init__(self) -> None:
        self.server: Server
        self.permit: Permit | None = None
        self._connection: Any = None
        self._id = b""
        self._reply: asyncio.Task[Any] | None = None
        self._ends_by = 0.0
        self.keys: tuple[bytes, ...] = ()

    async def connect_to(self, server: Server) -> None:
        """Where the next wait is; after a fail-over, or when a slot has moved, that is somewhere else."""
        if self._connection is not None and self.server is not server:
            await self.drop()
        self.server = server

    def is_connected_to(self, server: Server | None) -> bool:
        """Whether it is connected there."""
        return self._connection is not None and self.server is server

    async def begin(self, keys: tuple[bytes, ...]) -> None:
        """Waits for a token in one of the keys. Raises a ``Fault``."""
        try:
            if self._connection is None:
                self._connection = await self.server.connect()
            async with asyncio.timeout(self.server.answer_timeout_s):
                if not self._id:
                    await send(self._connection, [(b"CLIENT", b"ID")])
                    self._id = b"%d" % await self._connection.read_response()
                await send(self._connection, [(b"BLPOP", *keys, b"%d" % self.wait_s)])
        except BaseException as error:
            await self.drop()
            if not isinstance(error, Exception):
                raise
            raise fault_of(error) from error
        self._reply = asyncio.ensure_future(_read(self._connection))
        self._ends_by = _now() + self.wait_s + self.server.answer_timeout_s
        self.keys = keys

    async def wait(self, seconds: float, interrupt: asyncio.Future[None]) -> tuple[bool, bytes | None]:
        """Until a token comes, the time is up, or somebody pokes. Answers whether the wait on the server is over, and
        the key whose token came. Raises a ``Fault``."""
        assert self._reply is not None
        until = min(_now() + seconds, self._ends_by)
        await asyncio.wait(
            {self._reply, interrupt}, timeout=max(until - _now(), 0), return_when=asyncio.FIRST_COMPLETED
        )
        if self._reply.done():
            return True, await self._read()
        if _now() >= self._ends_by:
            await self.drop()
            raise ConnectionLost("the waiting connection has been silent for too long")
        return False, None

    async def end(self) -> bytes | None:
        """Ends a wait that was begun; a token may have come in that very moment. Raises a ``Fault``."""
        self._ends_by = min(self._ends_by, _now() + self.server.answer_timeout_s)
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        while self._reply is not None:
            if not self._reply.done():
                try:
                    await self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])
                except BaseException:
                    await self.drop()
                    raise
            over, key = await self.wait(0.05, never)
            if over:
                return key
        return None

    async def _read(self) -> bytes | None:
        assert self._reply is not None
        task, self._reply, self.keys = self._reply, None, ()
        try:
            reply = task.result()
        except Exception as error:
            await self.drop()
            raise fault_of(error) from error
        if isinstance(reply, Fault):
            raise reply
        return reply[0] if reply else None

    async def drop(self) -> None:
        connection, task = self._connection, self._reply
        self._connection, self._id, self._reply, self.keys = None, b"", None, ()
        try:
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
                if not task.cancelled():
                    task.exception()  # seen: the line is gone anyway
        finally:
            if connection is not None:
                await abort_connection(connection)


def _now() -> float:
    return asyncio.get_running_loop().time()
