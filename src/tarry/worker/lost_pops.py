"""Pops of a worker whose answers were lost: what they reserved is released, for nobody has it.

    pop ──▶ sent ──▶ answered, with its receipt
              └────▶ lost: its connection ended ── 2 s ──▶ last receipt of the topic ──▶ release_lost
                                                            when the pops that were sent until then have ended

The worker does not know the receipts of lost pops. They are above the last one that was answered before, up to that last receipt of
the topic, and none that was answered since: a pop that is still under way, or that is sent later, is never among them. If the
server performs a lost request even later, its jobs come back after their TTR.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.deliveries import Delivery, Pipeline
from tarry.connections.background import failures
from tarry.connections.faults import ConnectionLost, Fault
from tarry.errors import TarryError, Unavailable
from tarry.values.keys import TopicKeys
from tarry.verbs.jobs.holders import last_receipt, release_lost
from tarry.verbs.jobs.pop import POP, POP_BY_ID, PopReply

logger = logging.getLogger("tarry.worker")
WORK = "tarry lost pops"
AFTER_S = 2.0
"""How long after the end of its connection a pop counts as lost for good."""
MOST_ANSWERED = 10_000
"""The number of further pops after which it is too late: the jobs come back after their TTR."""


@dataclass(slots=True)
class Sweep:
    """Which receipts are lost: those above ``after``, up to ``up_to``, that were not ``answered``."""

    after: int
    up_to: int
    answered: frozenset[int]


@dataclass(slots=True)
class PopLedger:
    """The pops of one topic or partition. It does no I/O, and is told the time."""

    in_flight: set[Hashable] = field(default_factory=set)
    _last: int = 0
    """The highest receipt that was answered."""
    _after: int | None = None
    """The same when the first pop was lost that is not dealt with."""
    _answered: set[int] = field(default_factory=set)
    """The receipts since then."""
    _lost_at: float = -math.inf
    _bound: int | None = None
    _awaited: set[Hashable] = field(default_factory=set)
    """The pops that may still answer with a receipt up to the bound."""

    def sent(self, pop: Hashable) -> None:
        self.in_flight.add(pop)

    def answered(self, pop: Hashable, receipt: int | None) -> None:
        """``None``: it was refused, or handed out nothing."""
        self._end(pop)
        if receipt is not None:
            self._last = max(self._last, receipt)
            if self._after is not None:
                self._answered.add(receipt)

    def lost(self, pop: Hashable, now: float) -> None:
        self._end(pop)
        if self._after is None:
            self._after = self._last
        self._lost_at, self._bound = now, None

    def _end(self, pop: Hashable) -> None:
        self.in_flight.discard(pop)
        self._awaited.discard(pop)

    @property
    def has_lost(self) -> bool:
        return self._after is not None

    def asks_at(self) -> float | None:
        """When to ask for the topic's last receipt, if that is to be asked."""
        return self._lost_at + AFTER_S if self._after is not None and self._bound is None else None

    def told_last(self, receipt: int, asked_at: float) -> None:
        """The topic's last receipt, unless a pop was lost since it was asked for."""
        if self._after is not None and asked_at >= self._lost_at + AFTER_S:
            self._bound, self._awaited = receipt, set(self.in_flight)

    def sweep(self) -> Sweep | None:
        """The lost receipts, once no pop that is under way can have one of them."""
        if self._after is None or self._bound is None or self._awaited:
            return None
        answered = frozenset(receipt for receipt in self._answered if receipt <= self._bound)
        return Sweep(self._after, self._bound, answered)

    def give_up(self) -> None:
        """All that was lost until now comes back after its TTR."""
        self._after = self._bound = None
        self._answered.clear()

    def swept(self, done: Sweep) -> None:
        """A lost pop was released, or is left to its TTR. A loss since then is dealt with next."""
        self._answered = {receipt for receipt in self._answered if receipt > done.up_to}
        if self._bound == done.up_to:
            self.give_up()
        else:
            self._after = done.up_to


class LostPops:
    """All pops of one worker's client, in its event loop."""

    def __init__(self, client: AsyncClient, holder: bytes) -> None:
        self._runner: Any = client.engine.runner
        self._holder = holder
        self._ledgers: dict[TopicKeys, PopLedger] = {}
        self._tasks: dict[TopicKeys, asyncio.Task[None]] = {}
        self._ended = asyncio.Event()
        self._runner.listener = self

    def sent(self, pipeline: Pipeline) -> None:
        for delivery in pipeline.deliveries:
            if (keys := self._popped_keys(delivery)) is not None:
                self._ledgers.setdefault(keys, PopLedger()).sent(delivery)

    def ended(self, pipeline: Pipeline, failed: Sequence[tuple[Delivery, Fault]]) -> None:
        faults = dict(failed)
        for delivery in pipeline.deliveries:
            if (keys := self._popped_keys(delivery)) is None:
                continue
            ledger = self._ledgers[keys]
            if isinstance(faults.get(delivery), ConnectionLost):
                ledger.lost(delivery, asyncio.get_running_loop().time())
                if keys not in self._tasks:
                    self._tasks[keys] = asyncio.create_task(self._release(keys, ledger))
                    failures.watch_task(WORK, self._tasks[keys])
            else:
                ledger.answered(delivery, _receipt_of(delivery))
        self._ended.set()

    def _popped_keys(self, delivery: Delivery) -> TopicKeys | None:
        request: Any = delivery.request
        script = getattr(request, "script", None)
        if (script is not POP and script is not POP_BY_ID) or self._holder not in request.args:
            return None
        return TopicKeys(*request.keys[: len(TopicKeys._fields)])

    async def _release(self, keys: TopicKeys, ledger: PopLedger) -> None:
        """Until nothing is lost any more."""
        try:
            while ledger.has_lost:
                try:
                    await self._advance(keys, ledger)
                except Unavailable:
                    await asyncio.sleep(AFTER_S)
        except TarryError as fault:
            logger.debug("The jobs of lost pops of %s come back after their TTR: %s", keys.due, fault)
            ledger.give_up()
        finally:
            del self._tasks[keys]

    async def _advance(self, keys: TopicKeys, ledger: PopLedger) -> None:
        """Waits for the next step, and does it."""
        loop = asyncio.get_running_loop()
        asks_at = ledger.asks_at()
        if asks_at is None:
            if (sweep := ledger.sweep()) is None:
                self._ended.clear()
                await self._ended.wait()
            else:
                await self._sweep(keys, sweep)
                ledger.swept(sweep)
        elif asks_at > loop.time():
            await asyncio.sleep(asks_at - loop.time())
        else:
            asked_at = loop.time()
            ledger.told_last(await self._runner.perform(last_receipt(keys)), asked_at)

    async def _sweep(self, keys: TopicKeys, sweep: Sweep) -> None:
        if len(sweep.answered) > MOST_ANSWERED:
            return
        flow = release_lost(keys, self._holder, sweep.after, sweep.up_to, sorted(sweep.answered))
        released = await self._runner.run(flow)
        if released:
            logger.info("↻ %d jobs released whose handing out never arrived here: a connection broke", released)

    async def stop(self) -> None:
        self._runner.listener = None
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _receipt_of(delivery: Delivery) -> int | None:
    """Of the jobs that it has brought to somebody; the sender releases what was not wanted any more."""
    result: asyncio.Future[PopReply | None] = delivery.result
    if not result.done() or result.cancelled() or result.exception() is not None:
        return None
    found = result.result()
    return found.receipt if found is not None and found.jobs else None
