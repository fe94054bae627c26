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
from typing import Any, TypeVar

from tarry.clients.answers import given_up, merged, shares, spelled_out, words_of
from tarry.clients.sync.runner import announce
from tarry.idea.calls import Call, Command, Flow
from tarry.idea.patience import Patience
from tarry.links import fitness
from tarry.links.address import Address
from tarry.links.awaiting import Server
from tarry.links.faults import Elsewhere, Fault, Later, Lost, NoScript
from tarry.links.topology import Topology

T = TypeVar("T")
MOST_CALLS, MOST_BYTES = 1000, 1_000_000
CLOSING_S = 5.0


class Errand:
    """A request on its way, and who waits for it."""

    __slots__ = ("began", "future", "request", "tries")

    def __init__(self, request: Any, future: asyncio.Future[Any]) -> None:
        self.request = request
        self.future = future
        self.tries = 0
        self.began = 0.0


class Parcel:
    """One command on the wire: one request, or several of one kind."""

    __slots__ = ("errands", "request", "size", "spelled")

    def __init__(self, errand: Errand, size: int = 0) -> None:
        self.errands = [errand]
        self.request = errand.request
        self.size = size
        self.spelled = False


class Runner:
    """One client's way to its servers, in whatever event loop it is used."""

    def __init__(self, address: Address, patience: Patience, clock: bytes = b"") -> None:
        self._topology = Topology(address)
        self._patience = patience
        self._home: tuple[asyncio.AbstractEventLoop | None, int] = (None, 0)
        self._opening: asyncio.Task[None] | None = None
        self._opened = False
        self._servers: dict[str, Server] = {}
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
        for errand in errands:
            if not errand.future.done():
                by_server.setdefault(self._topology.url_of(_key_of(errand.request)), []).append(errand)
        for url, group in by_server.items():
            self._spawn(self._deliver(url, _parcels(group)))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, url: str, parcels: list[Parcel]) -> None:
        try:
            server = self._servers.get(url) or await self._meet(url)
            replies = await server.exchange(
                [(spelled_out if p.spelled else words_of)(p.request, self.clock) for p in parcels]
            )
        except Fault as fault:
            replies = [fault] * len(parcels)
        except Exception as fault:  # noqa: BLE001  # whatever it is, those who wait are told
            for errand in (errand for parcel in parcels for errand in parcel.errands):
                _fail(errand.future, fault)
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
                _fail(errand.future, fault)
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
        now = asyncio.get_running_loop().time()
        errand.began = errand.began or now
        spent = now - errand.began
        pause = self._patience.pause(errand.tries, spent, random.random()) if isinstance(fault, (Lost, Later)) else None
        if pause is None:
            error = given_up(fault, self._topology.shown, spent)
            error.__cause__ = fault
            _fail(errand.future, error)
        elif not errand.future.done():
            if isinstance(fault, Lost) and isinstance(errand.request, Call):
                errand.request = errand.request.repeated()
            errand.tries += 1
            self._spawn(self._again(errand, pause, look=errand.tries > 1 or isinstance(fault, Elsewhere)))

    async def _again(self, errand: Errand, pause: float, *, look: bool) -> None:
        await asyncio.sleep(pause)
        if look:
            try:
                await self.refresh()
            except Exception as fault:  # noqa: BLE001  # whatever it is, who waits is told
                _fail(errand.future, fault)
                return
        self._post(errand)

    # ── servers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def ready(self) -> None:
        """Opens the way to the servers, in this loop and this process."""
        home = (asyncio.get_running_loop(), os.getpid())
        if self._home != home:
            self._home, self._opening, self._servers, self._outbox, self._tasks = home, None, {}, [], set()
        if not self._opened:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.ensure_future(self._open())
            await asyncio.shield(self._opening)

    async def _open(self) -> None:
        await asyncio.to_thread(self._topology.open)
        self._opened = True
        announce(self._topology)

    async def _meet(self, url: str) -> Server:
        server = Server(url)
        cluster = self._topology.address.kind == "cluster"
        fitness.check(await server.exchange(fitness.PROBE), self._topology.shown, cluster=cluster)
        return self._servers.setdefault(url, server)

    async def server_of(self, key: bytes) -> Server:
        await self.ready()
        url = self._topology.url_of(key)
        return self._servers.get(url) or await self._meet(url)

    def group_of(self, key: bytes) -> int:
        return self._topology.group_of(key)

    async def refresh(self) -> None:
        await asyncio.to_thread(self._topology.refresh)

    async def close(self) -> None:
        """Waits for what is on its way, then closes."""
        home = (asyncio.get_running_loop(), os.getpid())
        if self._home == home:
            deadline = home[0].time() + CLOSING_S
            while (self._tasks or self._outbox) and home[0].time() < deadline:
                await asyncio.wait({*self._tasks, asyncio.ensure_future(asyncio.sleep(0))}, timeout=CLOSING_S)
            for task in self._tasks:
                task.cancel()
            for server in self._servers.values():
                await server.close()
        self._servers, self._opened, self._home = {}, False, (None, 0)
        self._topology.close()


def _parcels(errands: list[Errand]) -> list[Parcel]:
    """Calls of one kind as one, as far as one script may go; the rest as they are, in order."""
    parcels: list[Parcel] = []
    kinds: dict[Any, Parcel] = {}
    for errand in errands:
        request = errand.request
        if isinstance(request, Command) or request.alone or not request.items:
            parcels.append(Parcel(errand))
            continue
        kind, size = (request.script, request.keys, request.args), sum(map(len, request.items))
        parcel = kinds.get(kind)
        if parcel is None or len(parcel.errands) >= MOST_CALLS or parcel.size + size > MOST_BYTES:
            parcel = kinds[kind] = Parcel(errand, size)
            parcels.append(parcel)
        else:
            parcel.errands.append(errand)
            parcel.size += size
    for parcel in parcels:
        if len(parcel.errands) > 1:
            parcel.request = merged([errand.request for errand in parcel.errands])
    return parcels


def _key_of(request: Any) -> bytes:
    key: bytes = request.keys[0] if isinstance(request, Call) else request.words[1]
    return key


def _fail(future: asyncio.Future[Any], fault: BaseException) -> None:
    if not future.done():
        future.set_exception(fault)
