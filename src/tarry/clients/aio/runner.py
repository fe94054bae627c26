"""Performs requests and flows, awaiting. Calls made in the same turn of the loop leave in one pipeline.

    perform ─▶ outbox ──turn ends──▶ parcels: calls of one kind become one script ──▶ one exchange a server
       ▲                                                                                    │
       └───────────────────────── futures ◀── each its share of the reply ──────────────────┘

Who stops waiting (cancelled, timed out) does not stop the exchange; an answer that hands out and that nobody takes any
more is given back.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from tarry.clients.aio.parcels import Errand, Parcel, fail, packed
from tarry.clients.answers import given_up, key_of, shares, spelled_out, tell_of_patience, words_of
from tarry.clients.sync.runner import announce
from tarry.errors import BadInput, TarryError, Unavailable
from tarry.idea.calls import Call, Command, Flow
from tarry.idea.patience import Patience
from tarry.links import fitness
from tarry.links.address import Address
from tarry.links.awaiting import Server
from tarry.links.faults import Elsewhere, Fault, Later, Lost, NoScript
from tarry.links.topology import Topology

T = TypeVar("T")
R = TypeVar("R")
CLOSED = "The client was closed before the answer came. The call is safe to repeat."
CLOSING_S = 5.0


class Runner:
    """One client's way to its servers, in whatever event loop it is used."""

    def __init__(self, address: Address, patience: Patience, clock: bytes = b"") -> None:
        self._topology = Topology(address)
        self._patience = patience
        self._home: tuple[asyncio.AbstractEventLoop | None, int] = (None, 0)
        self._opening: asyncio.Task[None] | None = None
        self._opened = False
        self._servers: dict[str, Server] = {}
        self._meetings: dict[str, asyncio.Task[Server]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._outbox: list[Errand] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.clock = clock

    async def perform(self, request: Call[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        loop = asyncio.get_running_loop()
        if self._home[0] is not loop or not self._opened:
            await self.ready()
        future: asyncio.Future[T] = loop.create_future()
        self._post(Errand(request, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.unwanted(request, future.result())  # it came in the very turn in which its caller was cancelled
            raise

    async def perform_all(self, requests: Sequence[Call[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests in one pipeline a server, once; each is answered by its value, or by its error."""
        await self.ready()
        errands = [Errand(request, asyncio.get_running_loop().create_future(), once=True) for request in requests]
        for errand in errands:
            self._post(errand)
        answers = await asyncio.gather(*[errand.future for errand in errands], return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, TarryError):
                raise answer
        return cast("list[T | TarryError]", answers)

    async def run(self, flow: Flow[T]) -> T:
        """Performs a flow, request by request."""
        try:
            request = next(flow)
            while True:
                try:
                    answer = await self.perform(request)
                except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                    request = flow.throw(fault)
                else:
                    request = flow.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def later(self, request: Call[Any]) -> None:
        """Performs a courtesy that nobody waits for."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._post(Errand(request, future))

    # ── from outbox to wire ──────────────────────────────────────────────────────────────────────────────────────────

    def _post(self, errand: Errand) -> None:
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(errand)

    def _flush(self) -> None:
        errands, self._outbox = self._outbox, []
        by_server: dict[str, list[Errand]] = {}
        now = asyncio.get_running_loop().time()
        for errand in errands:
            if errand.future.done():
                continue
            errand.began = errand.began or now
            try:
                url = self._topology.url_of(key_of(errand.request))
            except Exception as fault:  # noqa: BLE001  # whatever it is, who waits is told
                fail(errand.future, fault)
            else:
                by_server.setdefault(url, []).append(errand)
        for url, group in by_server.items():
            self._spawn(self._deliver(url, packed(group)))

    def _spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _deliver(self, url: str, parcels: list[Parcel]) -> None:
        try:
            server = self._servers.get(url) or await self._server(url)
            replies = await server.exchange(
                [(spelled_out if p.spelled else words_of)(p.request, self.clock) for p in parcels]
            )
        except Fault as fault:
            replies = [fault] * len(parcels)
        except BaseException as fault:  # whatever it is, those who wait are told
            stopped = isinstance(fault, asyncio.CancelledError)
            for errand in (errand for parcel in parcels for errand in parcel.errands):
                fail(errand.future, Unavailable(CLOSED) if stopped else fault)
            if not isinstance(fault, Exception):
                raise
            return
        unknown: list[Parcel] = []
        for parcel, reply in zip(parcels, replies, strict=True):
            if isinstance(reply, NoScript) and not parcel.spelled:
                parcel.spelled = True
                unknown.append(parcel)
            elif isinstance(reply, Fault):
                for errand in parcel.errands:
                    self._failed(errand, reply)
            else:
                self._answered(parcel, reply)
        if unknown:
            await self._deliver(url, unknown)

    def _answered(self, parcel: Parcel, reply: Any) -> None:
        errands = parcel.errands
        parts = [reply] if len(errands) == 1 else shares([errand.request for errand in errands], reply)
        for errand, part in zip(errands, parts, strict=True):
            try:
                answer = errand.request.decode(part)
            except Exception as fault:  # noqa: BLE001  # whatever it is, who waits is told
                fail(errand.future, fault)
                continue
            if not errand.future.done():
                errand.future.set_result(answer)
            else:
                self.unwanted(errand.request, answer)

    def unwanted(self, request: Any, answer: Any) -> None:
        """Gives an answer back which nobody takes any more."""
        undo = request.undo(answer) if isinstance(request, Call) and request.undo is not None else None
        if undo is not None:
            self.later(undo)

    def _failed(self, errand: Errand, fault: Fault) -> None:
        """Again after a pause, or an error in words."""
        spent = asyncio.get_running_loop().time() - errand.began
        may = isinstance(fault, (Lost, Later))
        pause = self._patience.pause(errand.tries, spent, random.random()) if may and not errand.once else None
        if errand.once and isinstance(fault, (Lost, Elsewhere)):
            self._look_for_servers()
        if pause is None:
            error = given_up(fault, self._topology.shown, spent)
            error.__cause__ = fault
            fail(errand.future, error)
        elif not errand.future.done():
            if isinstance(fault, Lost) and isinstance(errand.request, Call):
                errand.request = errand.request.repeated()
            tell_of_patience(errand.tries, fault, self._topology.shown, self._patience.bound)
            errand.tries += 1
            self._spawn(self._again(errand, pause, look=errand.tries > 1 or isinstance(fault, Elsewhere)))

    async def _again(self, errand: Errand, pause: float, *, look: bool) -> None:
        try:
            await asyncio.sleep(pause)
            if look:
                with suppress(Unavailable, Fault):  # still nobody there: patience decides
                    await self.refresh()
        except asyncio.CancelledError:
            fail(errand.future, Unavailable(CLOSED))
            raise
        except Exception as fault:  # noqa: BLE001  # whatever it is, who waits is told
            fail(errand.future, fault)
        else:
            self._post(errand)

    # ── servers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ready(self) -> None:
        """Opens the way to the servers, in this loop and this process."""
        home = (asyncio.get_running_loop(), os.getpid())
        if self._home != home:
            loop, pid = self._home
            if loop is not None and loop.is_running() and pid == home[1]:
                raise BadInput("client: another event loop uses it, and runs; make one AsyncClient for each loop.")
            self._home, self._opening, self._refreshing = home, None, None
            self._servers, self._meetings, self._outbox, self._tasks = {}, {}, [], set()
        if not self._opened:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.ensure_future(self._open())
            await asyncio.shield(self._opening)

    async def _open(self) -> None:
        tries, began = 0, asyncio.get_running_loop().time()
        while True:
            try:
                await asyncio.to_thread(self._topology.open)
                break
            except Fault as fault:  # a Cluster, or Sentinels, of which nobody answers
                spent = asyncio.get_running_loop().time() - began
                pause = self._patience.pause(tries, spent, random.random())
                if pause is None:
                    raise given_up(fault, self._topology.shown, spent) from fault
                tell_of_patience(tries, fault, self._topology.shown, self._patience.bound)
                tries += 1
                await asyncio.sleep(pause)
        self._opened = True
        announce(self._topology)

    async def _server(self, url: str) -> Server:
        """A server that may have to be met first: once, for all who ask, in a task that none of them can cancel."""
        server = self._servers.get(url)
        if server is None:
            meeting = self._meetings.get(url)
            if meeting is None or meeting.done():
                meeting = self._meetings[url] = self._spawn(self._meet(url))
            server = await asyncio.shield(meeting)
        return server

    async def _meet(self, url: str) -> Server:
        server = Server(url)
        cluster = self._topology.address.kind == "cluster"
        try:
            fitness.check(await server.exchange(fitness.PROBE), self._topology.shown, cluster=cluster)
        except BaseException:
            await server.close()
            raise
        self._servers[url] = server
        return server

    async def server_of(self, key: bytes) -> Server:
        await self.ready()
        return await self._server(self._topology.url_of(key))

    def group_of(self, key: bytes) -> int:
        return self._topology.group_of(key)

    async def refresh(self) -> None:
        """Looks again for the servers: once, for all who ask."""
        await asyncio.shield(self._look_for_servers())

    def _look_for_servers(self) -> asyncio.Task[None]:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._spawn(asyncio.to_thread(self._topology.refresh))
            self._refreshing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._refreshing

    @property
    def lives_here(self) -> bool:
        """Whether its connections are this loop's and this process's."""
        return self._home == (asyncio.get_running_loop(), os.getpid())

    async def close(self) -> None:
        """Waits for what is on its way, a few seconds at most, then closes."""
        loop = asyncio.get_running_loop()
        if self._home == (loop, os.getpid()):
            try:
                await self._finish_work(loop, loop.time() + CLOSING_S)
            finally:
                for task in self._tasks:
                    task.cancel()
                for server in self._servers.values():
                    await server.close()
        self._servers, self._meetings, self._opened, self._home = {}, {}, False, (None, 0)
        self._topology.close()

    async def _finish_work(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._opening is not None:
            await asyncio.wait({self._opening})
        while (self._tasks or self._outbox) and loop.time() < deadline:
            await asyncio.wait({*self._tasks, loop.create_task(asyncio.sleep(0))}, timeout=deadline - loop.time())
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
