"""Connections to one server, awaited: one for all requests, pipelined; one more that blocks in BLPOP.

    exchange a ──send──┐                 replies come in the order of the requests (tarry.connections.pipelined); that to
    exchange b ────────send──┐           a request whose caller was cancelled is dropped
                       └─a────┴─b────▶

Each connection is known to its server, and closing the server closes it: at once, without a task, so that none is left when the
event loop ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import redis.exceptions as driver

from tarry.connections.address import connection_class
from tarry.connections.connection_limit import Permit
from tarry.connections.faults import CLOSED, CONNECTION_ERRORS, ConnectionLost, Fault, fault_of, with_tls_reason
from tarry.connections.fitness import ROLE, LiveObjects, MasterCheck, judge_role
from tarry.connections.pipelined import OnReplies, PipelinedConnection, abort_connection, writer_of
from tarry.connections.resp import READ_ONLY, WAIT_S, Args, Outgoing, Replies, pack_all, raise_faults, transaction_end
from tarry.core.requests import Transaction

T = TypeVar("T")


class Server:
    """One server, by its URL, in one event loop."""

    def __init__(
        self,
        url: str,
        max_answer_s: float = math.inf,
        *,
        replica_of_cluster: bool = False,
        master_check: MasterCheck | None = None,
    ) -> None:
        """``max_answer_s``: the longest time to wait for an answer. ``replica_of_cluster``: it answers reads only after READONLY.
        ``master_check`` confirms each new connection."""
        self.forbidden: frozenset[bytes] = frozenset()
        """Commands that the URL's user may not run, as far as known."""
        self.confirms: set[bytes] = set()
        """Commands that confirm a write and that the server accepts."""
        self._class, self._arguments, self.answer_timeout_s = connection_class(
            url, awaited=True, max_answer_s=max_answer_s
        )
        self._read_only = replica_of_cluster
        self._connection: PipelinedConnection | None = None
        self._closed: Fault | None = None
        self._send_lock = asyncio.Lock()
        self._all: LiveObjects[Any] = LiveObjects()
        self._loop = asyncio.get_running_loop()
        self._master_check = master_check
        self.url = url
        if master_check is not None:
            master_check.register(self)

    @property
    def checks_master(self) -> bool:
        """Whether its connections are dropped when another server becomes the master."""
        return self._master_check is not None

    def send(self, commands: Sequence[Outgoing], on_replies: OnReplies) -> bool:
        """Sends commands at once; ``on_replies`` gets a value or a ``Fault`` for each. Returns whether the connection took them."""
        return self._connection is not None and self._connection.send(commands, on_replies)

    async def exchange(self, commands: Sequence[Outgoing]) -> Replies:
        """Sends commands and returns their replies. Raises a ``Fault`` if there is no connection; without a reply, it is a ``Fault``
        itself."""
        answered: asyncio.Future[Replies] = self._loop.create_future()

        def on_replies(replies: Replies) -> None:
            if not answered.done():
                answered.set_result(replies)

        if not self.send(commands, on_replies):
            async with self._send_lock:
                while not self.send(commands, on_replies):
                    await self._prepare_connection()
        return await answered

    async def _prepare_connection(self) -> None:
        """Connects, or waits until the connection takes requests. Raises a ``Fault``."""
        connection = self._connection
        if connection is not None and not connection.is_closing:
            await connection.until_resumed()
            return
        connection = PipelinedConnection(await self.connect(), self.answer_timeout_s)
        if connection.is_closing:
            fault = ConnectionLost("the connection was closed before the request was sent")
            connection.lose(fault)
            raise fault
        self._connection = connection

    def _refuse_if_closed(self) -> None:
        if self._closed is not None:
            raise self._closed

    async def transact(self, transaction: Transaction[T], within_s: float | None = None) -> T:
        """Performs a transaction, again if a watched key changes, all of it within ``within_s``. Raises a ``Fault``."""
        try:
            async with asyncio.timeout(within_s):
                connection = await self.connect()  # WATCH belongs to a connection, and the other one is shared
                try:
                    while True:
                        commands = transaction.decide(await self._request(connection, transaction.begin))
                        replies = (await self._request(connection, transaction_end(commands)))[-1]
                        if replies is not None:
                            return transaction.decode(replies if commands else [])
                finally:
                    abort_connection(connection)
        except (TimeoutError, *CONNECTION_ERRORS) as error:
            raise self._meaning(error) from error

    async def _request(self, connection: Any, commands: Sequence[Args]) -> Replies:
        return raise_faults(await self._asked(connection, commands))

    async def _asked(self, connection: Any, commands: Sequence[Args]) -> Replies:
        async with asyncio.timeout(self.answer_timeout_s):
            await send(connection, commands)
            return [await _read(connection) for _ in commands]

    async def connect(self, *, push_messages: bool = False) -> Any:
        """A new connection; with ``push_messages``, the server may send messages on it, which are read as lists. Raises a
        ``Fault``."""
        self._refuse_if_closed()
        connection = self._class(**(self._arguments | {"protocol": 3} if push_messages else self._arguments))
        self._all.add(connection)
        writers: list[asyncio.StreamWriter] = []

        async def prepare(connection: Any) -> None:
            self._refuse_if_closed()
            writers.append(writer_of(connection))
            await connection.on_connect()

        connection.redis_connect_func = prepare
        try:
            if self._master_check is not None:
                await asyncio.to_thread(self._master_check.confirm_master, self.url, self.answer_timeout_s)
            async with asyncio.timeout(self.answer_timeout_s):
                await connection.connect()
                if self._master_check is not None:
                    judge_role(await self._asked(connection, ROLE))
                    self._master_check.refuse_if_replaced(self.url)
                if self._read_only:
                    await self._request(connection, [READ_ONLY])
            if push_messages:
                connection._parser.set_invalidation_push_handler(_unchanged)  # noqa: SLF001  # redis-py has no public name
            self._refuse_if_closed()
        except BaseException as error:
            abort_connection(connection)
            for writer in writers:  # the driver, when it is refused, only begins to close it
                writer.transport.abort()
            if not isinstance(error, Exception):
                raise
            self._refuse_if_closed()  # the driver whose connection was taken from it may raise anything
            fault = self._meaning(error)
            if self.url.startswith("rediss"):
                fault = await asyncio.to_thread(with_tls_reason, fault, self.url, self._arguments)
            raise fault from error
        return connection

    def drop_all(self) -> None:
        """Drops all connections, from any thread; requests without a reply fail."""
        with suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self._abort)

    def _abort(self) -> None:
        for connection in self._all.all():
            if (writer := writer_of(connection)) is not None:
                writer.transport.abort()

    def close(self, fault: Fault | None = None) -> None:
        """Closes all connections for good, at once. Requests that are not answered get the fault, and so do later ones."""
        self._closed = fault or ConnectionLost("the connection was closed")
        if self._connection is not None:
            self._connection.lose(self._closed, for_all=True)
        for connection in self._all.all():
            abort_connection(connection)

    def _meaning(self, error: Exception) -> Fault:
        return (
            ConnectionLost(f"no answer for {self.answer_timeout_s:g} s")
            if type(error) is TimeoutError
            else fault_of(error, database=self._arguments.get("db", 0))
        )


async def _unchanged(message: Any) -> Any:
    return message


async def send(connection: Any, commands: Sequence[Outgoing]) -> None:
    """Sends commands. Raises a ``Fault``, or one of ``CONNECTION_ERRORS``."""
    writer = writer_of(connection)
    if (
        writer is None or writer.is_closing()
    ):  # the driver would connect again, or asyncio raise a TypeError (3.12 to 3.13.5)
        raise ConnectionLost("the connection was closed before the request was sent")
    try:
        await connection.send_packed_command([pack_all(commands)], check_health=False)
    except CLOSED as error:
        raise fault_of(error) from error


async def read_push_or_reply(connection: Any) -> Any:
    """The next reply or message: a value, or a ``Fault``."""
    try:
        return await connection.read_response(timeout=math.inf, disconnect_on_error=False, push_request=True)
    except driver.ResponseError as error:
        return fault_of(error)


def ignore_error(done: asyncio.Future[Any]) -> None:
    """A callback of a future whose exception may be ignored: asyncio would log it if the waiting task is cancelled first."""
    if not done.cancelled():
        done.exception()


def read_in_background(reading: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task whose exception may be ignored."""
    task = asyncio.ensure_future(reading)
    task.add_done_callback(ignore_error)
    return task


async def _read(connection: Any) -> Any:
    try:
        return await connection.read_response(timeout=math.inf, disconnect_on_error=False)
    except driver.ResponseError as error:
        return fault_of(error)


class BlpopConnection:
    """The connection that blocks for all waiting callers: BLPOP on tokens is sent, awaited and ended.

    The server ends each BLPOP after ``wait_s``. If it does not, the connection is lost, even if it seems open.
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
        """Sets the server of the next wait; after a fail-over, or when a slot has moved, it is another one."""
        if self._connection is not None and self.server is not server:
            await self.drop()
        self.server = server

    def is_connected_to(self, server: Server | None) -> bool:
        """Whether it has a connection to this server."""
        return self._connection is not None and self.server is server

    async def begin(self, keys: tuple[bytes, ...]) -> None:
        """Sends BLPOP for tokens in some keys. Raises a ``Fault``."""
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
        self._reply = read_in_background(_read(self._connection))
        self._ends_by = _now() + self.wait_s + self.server.answer_timeout_s
        self.keys = keys

    async def wait(self, seconds: float, interrupt: asyncio.Future[None]) -> tuple[bool, bytes | None]:
        """Waits until a token comes, the time is up, or ``interrupt`` is done. Returns whether the BLPOP is over, and the key of
        the token. Raises a ``Fault``."""
        assert self._reply is not None
        until = min(_now() + seconds, self._ends_by)
        await asyncio.wait(
            {self._reply, interrupt}, timeout=max(until - _now(), 0), return_when=asyncio.FIRST_COMPLETED
        )
        if self._reply.done():
            return True, await self._read()
        if _now() >= self._ends_by:
            await self.drop()
            raise ConnectionLost("the blocked connection has been silent for too long")
        return False, None

    async def end(self) -> bytes | None:
        """Ends the BLPOP. Returns the key of a token that came at the last moment. Raises a ``Fault``."""
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
        if connection is not None:
            abort_connection(connection)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


def _now() -> float:
    return asyncio.get_running_loop().time()
