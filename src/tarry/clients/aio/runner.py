"""Performs requests and flows, awaiting. Calls made in the same turn of the loop leave in one pipeline.

    perform ─▶ outbox ──turn ends──▶ parcels: calls of one kind become one script ──▶ one exchange a server
       ▲                                                                                    │
       └───────────────────────── futures ◀── each its share of the reply ──────────────────┘

Who stops waiting (cancelled, timed out) does not stop the exchange; an answer that hands out and that nobody takes any
more is given back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from tarry.clients.aio.parcels import Errand, Parcel, allowed, fail, packed
from tarry.clients.aio.pipelines import Pipelines
from tarry.clients.aio.way import Way
from tarry.clients.answers import (
    confirm,
    given_up,
    key_of,
    refuse_unconfirmable,
    shares,
    spelled_out,
    tell_of_patience,
    with_its_key,
    words_of,
)
from tarry.clients.sync.way import PLAIN
from tarry.connections.address import Address
from tarry.connections.blocking import Replies
from tarry.connections.faults import (
    ConfirmationLost,
    ConnectionLost,
    Fault,
    NoScript,
    TryLater,
    WrongNode,
    with_tls_hint,
)
from tarry.core.patience import Patience, RetryBudget
from tarry.core.requests import Batch, Command, Confirmation, Flow, Request, ScriptCall, Step, Transaction
from tarry.errors import TarryError, Unavailable

T = TypeVar("T")
R = TypeVar("R")
CLOSED = "The client was closed before the answer came. The call is safe to repeat."


class Runner(Way):
    """What one client asks of its servers."""

    def __init__(self, address: Address, patience: Patience, clock: bytes = b"") -> None:
        super().__init__(address, patience)
        self._outbox: list[Errand] = []
        self.clock = clock

    def _at_home(self) -> None:
        self._outbox = []

    def _has_more(self) -> bool:
        return bool(self._outbox)

    async def perform(self, request: ScriptCall[T] | Command[T]) -> T:
        """Sends a request until it is answered, or patience ends. Raises a ``TarryError``."""
        loop = asyncio.get_running_loop()
        budget = self._patience.start(loop.time)
        if self._home[0] is not loop or not self._opened:
            await self.ready(budget)
        future: asyncio.Future[T] = loop.create_future()
        self._post(Errand(request, future, budget))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.unwanted(request, future.result())  # it came in the very turn in which its caller was cancelled
            raise

    async def transact(self, transaction: Transaction[T]) -> T:
        """Performs a transaction of plain commands, also on a server that runs no scripts. Raises a ``TarryError``."""

        async def once(budget: RetryBudget) -> T:
            url = self._topology.url_of(transaction.key)
            server = self._servers.get(url) or self._servers.get(PLAIN + url)
            server = server or await self._meet(url, scripts=False)
            return await server.transact(transaction, budget.exchange_timeout)

        return await self._patiently(once)

    # ── many requests ────────────────────────────────────────────────────────────────────────────────────────────────

    async def perform_all(self, requests: Sequence[ScriptCall[T] | Command[T]]) -> list[T | TarryError]:
        """Sends requests in pipelines, to all servers at the same time, once; each is answered by its value, or its error."""
        answers = await self._all(requests, patient=False)
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, TarryError):
                raise answer
        return answers

    async def together(self, requests: Sequence[Request]) -> list[Any]:
        """The same, each until it is answered, or patience ends."""
        return await self._all(requests, patient=True)

    async def _all(self, requests: Sequence[Request], *, patient: bool) -> list[Any]:
        await self.ready(budget := self._patience.start(asyncio.get_running_loop().time))
        places = [self._topology.url_of(key_of(request)) for request in requests]
        return await Pipelines(self._post, requests, budget, patient=patient).exchange(places)

    # ── flows ────────────────────────────────────────────────────────────────────────────────────────────────────────

    async def answer(self, step: Step) -> Any:
        """What a flow asks."""
        return await (self.together(step.requests) if isinstance(step, Batch) else self.perform(step))

    async def run(self, flow: Flow[T], answer: Callable[[Step], Awaitable[Any]] | None = None) -> T:
        """Performs a flow, step by step; or somebody else does each."""
        answer = answer or self.answer
        try:
            step = next(flow)
            while True:
                try:
                    found = await answer(step)
                except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                    step = flow.throw(fault)
                else:
                    step = flow.send(found)
        except StopIteration as end:
            result: T = end.value
            return result

    def later(self, request: ScriptCall[Any]) -> None:
        """Performs a courtesy that nobody waits for."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._post(Errand(request, future, self._patience.start(loop.time)))

    # ── from outbox to wire ──────────────────────────────────────────────────────────────────────────────────────────

    def _post(self, errand: Errand) -> None:
        if not self._outbox:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outbox.append(errand)

    def _flush(self) -> None:
        errands, self._outbox = self._outbox, []
        by_server: dict[tuple[str, Confirmation | None], list[Errand]] = {}
        for errand in errands:
            if errand.future.done():
                continue
            try:
                url = self._topology.url_of(key_of(errand.request))
            except Exception as fault:  # noqa: BLE001  # whatever it is, who waits is told
                fail(errand.future, fault)
                continue
            then = getattr(errand.request, "then", None)
            # It is met first. A confirmation has a time of its own; what failed before is bounded already, and tells why.
            met = url in self._servers and self._topology.sure
            if not met and then is None and not errand.begun.tries:
                late = ConnectionLost("it was not met in time")
                self._bound(errand, late if self._servers else with_tls_hint(late, url))
            by_server.setdefault((url, then), []).append(errand)
        for (url, then), group in by_server.items():
            self._spawn(self._deliver(url, packed(group), then))

    async def _deliver(self, url: str, parcels: list[Parcel], then: Confirmation | None) -> None:
        more: Replies = []
        confirms: set[bytes] = set()
        try:
            server = await self._surely(url, key_of(parcels[0].request))
            if server.forbidden and not (parcels := allowed(server.forbidden, parcels)):
                return
            commands = [(spelled_out if p.spelled else words_of)(p.request, self.clock) for p in parcels]
            if then is None:
                replies = await server.exchange(commands)
            else:  # it blocks its connection for a while
                confirms = server.confirms
                await self._try(then, url, confirms)
                *replies, last = await self._apart(url).exchange([*commands, then.command])
                more = [last]
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
                    self._failed(errand, with_its_key(reply, errand.request))
            else:
                self._answered(parcel, reply, then, more, confirms)
        if unknown:
            await self._deliver(url, unknown, then)

    async def _try(self, then: Confirmation, url: str, confirms: set[bytes]) -> None:
        """Before a server is first given what it is to confirm. Raises a ``Fault``."""
        if then.command[0] not in confirms:
            refuse_unconfirmable(then, (await self._apart(url).exchange([then.probe]))[0])
            confirms.add(then.command[0])

    def _answered(
        self, parcel: Parcel, reply: Any, then: Confirmation | None, more: Replies, confirms: set[bytes]
    ) -> None:
        errands = parcel.errands
        parts = [reply] if len(errands) == 1 else shares([errand.request for errand in errands], reply)
        for errand, part in zip(errands, parts, strict=True):
            try:
                answer = errand.request.decode(part)
                confirm(then, more, confirms)
            except Fault as fault:
                errand.begun.added |= isinstance(fault, ConfirmationLost)
                self._failed(errand, fault)
                continue
            except Exception as fault:  # noqa: BLE001  # whatever it is, who waits is told
                fail(errand.future, fault)
                continue
            if not errand.future.done():
                errand.future.set_result(answer)
            else:
                self.unwanted(errand.request, answer)

    def unwanted(self, request: Any, answer: Any) -> None:
        """Gives an answer back which nobody takes any more."""
        undo = request.undo(answer) if isinstance(request, ScriptCall) and request.undo is not None else None
        if undo is not None:
            self.later(undo)

    def _failed(self, errand: Errand, fault: Fault) -> None:
        """Again after a pause, or an error in words."""
        budget = errand.begun
        may = isinstance(fault, (ConnectionLost, TryLater)) and not errand.once
        pause = budget.next_delay(random.random()) if may else None
        if errand.once and isinstance(fault, (ConnectionLost, WrongNode)):
            self._look_for_servers()
        if pause is None:
            self._give_up(errand, fault)
        elif not errand.future.done():
            if isinstance(fault, ConnectionLost) and isinstance(errand.request, ScriptCall):
                errand.request = errand.request.as_replay()
            tell_of_patience(budget.tries, fault, self._topology.redacted, self._patience.bound)
            budget.tries += 1
            self._bound(errand, fault)
            self._spawn(self._again(errand, pause, look=budget.tries > 1 or isinstance(fault, WrongNode)))

    def _bound(self, errand: Errand, fault: Fault) -> None:
        """However long the next try takes, who waits is told when patience ends."""
        timer = asyncio.get_running_loop().call_later(errand.begun.remaining, self._give_up, errand, fault)
        errand.future.add_done_callback(lambda _: timer.cancel())

    def _give_up(self, errand: Errand, fault: Fault) -> None:
        fail(errand.future, given_up(fault, self._topology.redacted, errand.begun.elapsed, added=errand.begun.added))

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
