"""The story of the demo, from the first order to the last.

0 s        orders are added, with their due times; two workers wait
0–10 s     customers pay: the order is deleted, if it is not closed yet
4 s        worker 1 is killed while it works on orders; worker 2 gets them when their TTR is over
~13 s      no order is left: the work logs are compared with the orders

The orders are read from examples/orders.jsonl, which a wheel contains beside this module.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tarry import AsyncClient, AsyncTopic, NewJob
from tarry.errors import BadInput
from tarry.internal import Command, NamespaceVerbs, moment_us, perform
from tarry.programs.demo.demo_workers import TOPIC, TTR_S, DemoWorker
from tarry.programs.demo.summary import IN_TIME, Summary, summary
from tarry.types import State

KILL_AT = 0.4
"""When worker 1 is killed, as a fraction of the time."""
PATIENCE_S = 20.0 + TTR_S
"""How long after the last due time the demo waits; an order that is not closed by then counts as lost."""
FRAME_S = 0.1
_HERE = Path(__file__).resolve().parent
PLACES = (_HERE / "orders.jsonl", _HERE.parents[3] / "examples" / "orders.jsonl")
SECONDS = 10.0
"""The time that the file covers."""


class Order(msgspec.Struct, frozen=True):
    """An order that is closed ``due_s`` after the start unless it is paid ``paid_s`` after it."""

    id: str
    customer: str
    items: int
    amount: str
    currency: str
    due_s: float
    paid_s: float | None = None


def read_orders(count: int | None = None, seconds: float = SECONDS) -> list[Order]:
    """The orders, or ``count`` of them, evenly selected; their times are scaled to ``seconds``."""
    path = next((place for place in PLACES if place.exists()), None)
    if path is None:
        raise BadInput(f"demo: {PLACES[0]} is missing; install tarry again.")
    orders = msgspec.json.Decoder(Order).decode_lines(path.read_bytes())
    if count is not None:
        if not 1 <= count <= len(orders):
            raise BadInput(f"jobs: {count}; there are 1 to {len(orders)} orders.")
        orders = [orders[i * len(orders) // count] for i in range(count)]
    factor = seconds / SECONDS
    return [_scaled(order, factor) for order in orders] if factor != 1 else orders


def _scaled(order: Order, by: float) -> Order:
    paid = None if order.paid_s is None else order.paid_s * by
    return msgspec.structs.replace(order, due_s=order.due_s * by, paid_s=paid)


class Story:
    """One run of the demo; the output reads its state."""

    def __init__(self, client: AsyncClient, orders: Sequence[Order], seconds: float) -> None:
        self.orders = orders
        self.seconds = seconds
        self.workers: list[DemoWorker] = []
        self.started_at = 0.0
        self.payments: dict[str, State | None] = {}
        self._client = client
        self._topic: AsyncTopic[Order] = client.topic(TOPIC, type=Order)

    @property
    def now_s(self) -> float:
        """Seconds since the orders went in."""
        return time.monotonic() - self.started_at if self.started_at else 0.0

    @property
    def paid(self) -> int:
        return sum(state in IN_TIME for state in self.payments.values())

    @property
    def closed(self) -> int:
        return len({line.order for worker in self.workers for line in worker.work_log.lines if line.what == "closed"})

    async def run(self, url: str | None, show: Callable[[Story], None]) -> Summary:
        """Runs it from beginning to end; ``show`` is called ten times a second."""
        with tempfile.TemporaryDirectory(prefix="tarry-demo-") as folder:
            await self._topic.stats()  # starts the server before the workers connect
            self.workers = [DemoWorker(n, Path(folder), url, self._client.namespace) for n in (1, 2)]
            showing = asyncio.create_task(self._show(show))
            try:
                await asyncio.gather(*[worker.ready() for worker in self.workers])
                return await self._run()
            finally:
                showing.cancel()
                await asyncio.gather(*[worker.stop() for worker in self.workers])
                show(self)

    async def _run(self) -> Summary:
        self.started_at = time.monotonic()
        added = await self._topic.add_many([NewJob(order, delay=order.due_s, id=order.id) for order in self.orders])
        await asyncio.gather(self._pay(), self._kill_one())
        await self._wait_until_empty()
        took_s = self.now_s
        await asyncio.gather(*[worker.stop() for worker in self.workers])
        check = await self._topic.check()
        found = summary(
            {job.id: moment_us(job.due) for job in added},
            self.payments,
            [worker.work_log.lines for worker in self.workers],
            killed_holding=self.workers[0].held,
            took_s=took_s,
            check=check.faults,
        )
        if found.ok:
            await self._clean_up()
        return found

    async def _pay(self) -> None:
        """Makes each payment at its time."""
        for order in sorted(self.orders, key=_paid_s):
            if order.paid_s is not None:
                await asyncio.sleep(max(order.paid_s - self.now_s, 0))
                self.payments[order.id] = await self._topic.delete(order.id)

    async def _kill_one(self) -> None:
        await asyncio.sleep(KILL_AT * self.seconds - self.now_s)
        await self.workers[0].kill_while_busy(self.seconds * 0.5)

    async def _wait_until_empty(self) -> None:
        while self.now_s < self.seconds + PATIENCE_S:
            stats = await self._topic.stats()
            if not stats.delayed + stats.ready + stats.reserved:
                return
            await asyncio.sleep(FRAME_S)

    async def _show(self, show: Callable[[Story], None]) -> None:
        while True:
            for worker in self.workers:
                worker.work_log.read_new()
            show(self)
            await asyncio.sleep(FRAME_S)

    async def _clean_up(self) -> None:
        """Deletes all keys. A run that failed keeps its topic, for inspection."""
        for key in NamespaceVerbs(self._client.namespace).all_keys(TOPIC):
            await perform(self._client, Command((b"UNLINK", key), int))


def _paid_s(order: Order) -> float:
    return order.paid_s or 0.0


def namespace() -> str:
    """A namespace of its own for each run."""
    return f"demo-{os.getpid():x}-{time.time_ns() // 1_000_000:x}"
