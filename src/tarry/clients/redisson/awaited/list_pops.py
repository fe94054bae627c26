"""Taking from ready lists, awaiting: BLPOP in windows, on connections that do nothing else.

An element that arrives for a cancelled caller goes back to the head of its list before the cancellation continues. On a Cluster
lists may lie in several slots: then a task waits for each, and an element that comes to a second task meanwhile goes back.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from tarry.clients.awaited.interfaces import SharedPartHost
from tarry.clients.config import UNANSWERED
from tarry.clients.redisson.queue_waits import SILENT, Pair, Windows, blpop, ready_keys
from tarry.connections.awaited import Server, read_in_background, send
from tarry.connections.faults import CONNECTION_ERRORS, ConnectionLost, Fault, ServerRefused, fault_of
from tarry.connections.pipelined import abort_connection
from tarry.connections.resp import DRAIN_TIMEOUT_S
from tarry.errors import Unavailable
from tarry.values.keys import QueueKeys


class PopConnection:
    """One connection on which one task waits."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._connection: Any = None
        self._id = b""
        self._reply: asyncio.Task[Any] | None = None
        self._ended = False

    async def pop(self, keys: tuple[bytes, ...], seconds: float) -> Pair | None:
        """The first payload that comes within the time. Raises a ``Fault``. After a cancellation call
        ``put_back``."""
        try:
            if self._connection is None:
                self._connection = await self.server.connect()
                await self._send((b"CLIENT", b"ID"))
                async with asyncio.timeout(self.server.answer_timeout_s):
                    self._id = b"%d" % await read_reply(self._connection)
            if self._ended:
                raise ConnectionLost("the client was closed")
            await self._send(blpop(keys, seconds))
            self._reply = read_in_background(read_reply(self._connection))
            await asyncio.wait({self._reply}, timeout=seconds + self.server.answer_timeout_s)
            if not self._reply.done():
                raise ConnectionLost(SILENT)
            reply = self._reply.result()
        except (TimeoutError, *CONNECTION_ERRORS) as error:
            await self.close()
            raise fault_of(error) from error
        self._reply = None
        return reply and (reply[0], reply[1])

    async def _send(self, command: tuple[bytes, ...]) -> None:
        await send(self._connection, [command])

    async def end(self) -> None:
        """Ends the wait of another task, which gets the element that has come, if there is one."""
        self._ended = True
        reply = self._reply
        if reply is not None and not reply.done():
            with suppress(Fault):
                await self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])
                await asyncio.wait({reply}, timeout=DRAIN_TIMEOUT_S)

    async def put_back(self) -> None:
        """After a cancellation: ends the wait, and puts back an element that came."""
        try:
            with suppress(TimeoutError, *CONNECTION_ERRORS):
                if self._reply is not None:
                    if not self._reply.done():
                        await self.server.exchange([(b"CLIENT", b"UNBLOCK", self._id)])
                    async with asyncio.timeout(DRAIN_TIMEOUT_S):
                        reply = await self._reply
                    if reply:
                        await self.server.exchange([(b"LPUSH", reply[0], reply[1])])
        finally:
            await self.close()

    async def close(self) -> None:
        task, self._reply, connection, self._connection = self._reply, None, self._connection, None
        if connection is not None:
            abort_connection(connection)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


class ListPops:
    """All tasks of a client that wait for payloads."""

    def __init__(self, engine: SharedPartHost) -> None:
        self._runner = engine.runner
        self._idle: deque[PopConnection] = deque()
        self._borrowed: set[PopConnection] = set()
        self._closed = False

    async def take(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, in their order, or the first that comes. Raises a ``TarryError``."""
        loop = asyncio.get_running_loop()
        groups = ready_keys(queues, self._runner.group_of)
        windows = Windows(loop.time(), seconds)
        while (window := windows.next(loop.time())) is not None:
            try:
                pair = await (self._race(groups, window) if len(groups) > 1 else self._window(groups[0], window))
            except Fault as fault:
                await asyncio.sleep(windows.pause_after(fault, loop.time()))
                if windows.needs_refresh:
                    with suppress(Unavailable, Fault):  # no server yet
                        await self._runner.refresh()
            else:
                windows.answered()
                if pair is not None:
                    return pair
        windows.raise_fault(self._runner.shown)
        return None

    async def _window(self, keys: tuple[bytes, ...], seconds: float) -> Pair | None:
        server = await self._runner.server_of(keys[0])
        if self._closed:
            raise ServerRefused(Unavailable(UNANSWERED))
        connection = self._borrow(server)
        self._borrowed.add(connection)
        try:
            pair = await connection.pop(keys, seconds)
        except Fault:
            raise
        except BaseException:
            await _finish_uncancelled(connection.put_back())
            raise
        finally:
            self._borrowed.discard(connection)
        await self._give_back(connection)
        return pair

    async def _race(self, groups: Sequence[tuple[bytes, ...]], seconds: float) -> Pair | None:
        """Returns the element that comes first to one of several windows. Raises a ``Fault``."""
        waits = [asyncio.ensure_future(self._window(keys, seconds)) for keys in groups]
        winner: asyncio.Task[Pair | None] | None = None
        cancelled = False
        try:
            pending = set(waits)
            while pending and winner is None:
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                winner = next((task for task in waits if task.done() and (task.exception() or task.result())), None)
        except asyncio.CancelledError:
            cancelled = True
        cancelled |= await _finish_uncancelled(self._withdraw([task for task in waits if task is not winner]))
        if cancelled:
            await _finish_uncancelled(self._withdraw([] if winner is None else [winner]))
            raise asyncio.CancelledError
        return None if winner is None else winner.result()

    async def _withdraw(self, waits: Sequence[asyncio.Task[Pair | None]]) -> None:
        """Ends the waits, and puts back the elements that came."""
        for task in waits:
            task.cancel()
        if waits:
            await asyncio.wait(waits)
        for task in waits:
            pair = None if task.cancelled() or task.exception() else task.result()
            if pair is not None:
                with suppress(Unavailable, *CONNECTION_ERRORS):
                    server = await self._runner.server_of(pair[0])
                    await server.exchange([(b"LPUSH", *pair)])

    def _borrow(self, server: Server) -> PopConnection:
        for connection in list(self._idle):
            if connection.server is server:
                self._idle.remove(connection)
                return connection
        return PopConnection(server)

    async def _give_back(self, connection: PopConnection) -> None:
        self._idle.append(connection)
        if self._closed:  # while it waited
            await connection.close()

    async def close(self) -> None:
        """Ends the waits: an element that has come is its caller's, and the others get an error."""
        self._closed = True
        for connection in list(self._borrowed):
            await connection.end()
        while self._idle:
            await self._idle.pop().close()


async def read_reply(connection: Any) -> Any:
    return await connection.read_response(timeout=math.inf, disconnect_on_error=False)


async def _finish_uncancelled(work: Coroutine[Any, Any, None]) -> bool:
    """Completes ``work``, also when this task is cancelled meanwhile. Returns whether it was."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
