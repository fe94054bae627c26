"""The processes that use tarry and write down what they did and saw: ``python clients.py '{"role": "producer", …}'``.

    producer   adds, one by one or in batches, with delays                     SIGTERM       stop
    consumer   pops, and finishes, releases, buries, touches, comes late,      a file calm   no more mishaps:
               or forgets                                                                    finish all
    manager     adds, and deletes, reschedules and kicks
    pusher, poller, locker     guarded queues and locks, under ZooKeeper

Each is one telling: awaited clients await it, blocking ones are called through ``Blocking``, and nothing ever waits there but
the call itself. Only what both versions have is used, for an older one runs the same roles.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import tarry
from chaos.history import (
    ADD,
    BURY,
    DELETE,
    EXISTS,
    FINISH,
    HANDED,
    KICK,
    LOCKED,
    MAYBE,
    OK,
    POLL,
    POLLED,
    PUSH,
    REFUSED,
    RELEASE,
    RESCHEDULE,
    TOUCH,
    History,
    clock,
    key_of,
)

EPOCH, US = datetime(1970, 1, 1, tzinfo=timezone.utc), timedelta(microseconds=1)
ENOUGH_READY = 20_000
BODY = {"text": "x" * 60}


def us(moment: datetime) -> int:
    return (moment - EPOCH) // US


def handed_row(job: Any) -> tuple[int, ...]:
    due = us(job.due)
    return (
        int(job.id, 16), job.receipt, job.attempt, due, due + job.lateness // US, us(job.created), job.ttr // US,
    )  # fmt: skip


class Blocking:
    """A blocking handle that can be awaited: the awaiting task blocks, as in a program without a loop."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        verb = getattr(self._handle, name)

        async def call(*given: Any, **named: Any) -> Any:
            return verb(*given, **named)

        return call


class ClientProcess:
    """One process: its history, its topics, its dice."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.history = History(told["folder"])
        self.dice = random.Random(f"{told['seed']}/{told['number']}")
        self.next_id = told["number"] << 24
        self.batch = told.get("batch", 1)
        self.rate = told.get("rate", 0)
        self.ttr_s = told.get("ttr", 3.0)
        self.stopping = False
        self._calm = told["folder"] + "/calm"
        self.topics: list[Any] = []
        self.faults = 0
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopping = True

    @property
    def calm(self) -> bool:
        """No more mishaps."""
        return os.path.exists(self._calm)  # noqa: PTH110  # asked very often

    async def sleep(self, seconds: float) -> None:
        if self.told.get("client_kind") == "async":
            await asyncio.sleep(seconds)
        else:
            select.select(
                (), (), (), seconds
            )  # libfaketime gives time.sleep a moment that the kernel refuses, now and then

    def new_ids(self, n: int) -> range:
        self.next_id += n
        return range(self.next_id - n, self.next_id)

    # ── calls that are written down ──────────────────────────────────────────────────────────────────────────────────

    async def note(self, kind: int, topic: int, rows: Sequence[Sequence[int]], call: Coroutine[Any, Any, Any]) -> Any:
        """What is asked for, then the call, then how it went. Answers what the call answered, ``None`` if it failed."""
        number = self.history.intend(kind, topic, [cell for row in rows for cell in row])
        try:
            answer = await call
        except Exception as fault:  # noqa: BLE001  # all of them are told
            status, but = self.outcome(fault, rows)
            self.history.ended(number, status, but)
            await self.failed(fault)
            return None
        if kind in (DELETE, KICK, RESCHEDULE):
            moved = ("delayed", "ready") if kind == RESCHEDULE else ("dead",) if kind == KICK else None
            states = answer if isinstance(answer, list) else [answer]
            but = [(i, REFUSED) for i, s in enumerate(states) if s is None or (moved and s not in moved)]
            self.history.ended(number, OK, but)
        else:
            self.history.ended(number)
        return answer

    def outcome(self, fault: Exception, rows: Sequence[Sequence[int]]) -> tuple[int, list[tuple[int, int]]]:
        n = len(rows)
        done = 0 if self.told.get("partitions") else min(getattr(fault, "done", 0), n)
        if isinstance(fault, tarry.errors.StaleReceipt):
            stale = {int(id, 16) for id in fault.reasons}
            return OK, [(i, REFUSED) for i, row in enumerate(rows) if row[0] in stale]
        if isinstance(fault, tarry.errors.JobExists):
            taken = int(fault.id, 16)
            return MAYBE, [(i, OK if i < done else EXISTS if row[0] == taken else MAYBE) for i, row in enumerate(rows)]
        if isinstance(fault, tarry.errors.BadInput):
            return REFUSED, []
        return MAYBE, [(i, OK) for i in range(done)]

    async def failed(self, fault: Exception) -> None:
        if not isinstance(fault, tarry.errors.StaleReceipt):
            self.faults += 1
            if self.faults <= 200:
                print(f"{clock()} {type(fault).__name__}: {fault}", file=sys.stderr, flush=True)
            await self.sleep(0.05)

    # ── producing ────────────────────────────────────────────────────────────────────────────────────────────────────

    def delay_us(self) -> int:
        draw = self.dice.random()
        if draw < 0.6:
            return 0
        if draw < 0.9:
            return self.dice.randrange(10_000, 2_000_000)
        if draw < 0.98 or self.told.get("no_far"):
            return self.dice.randrange(2_000_000, 4_000_000)
        return 3_600_000_000

    async def add(self, at: int, delays: Sequence[int]) -> range:
        ids, topic = self.new_ids(len(delays)), self.topics[at]
        rows = [
            (id, delay, self.dice.choice((2, 3)) if self.dice.random() < 0.1 else 0, 0)
            for id, delay in zip(ids, delays, strict=True)
        ]
        keys = self.told.get("keys", 0)
        named = [
            {
                "delay": delay / 1e6,
                "id": f"{id:x}",
                **({"max_attempts": most} if most else {}),
                **({"key": key} if (key := key_of(id, keys)) else {}),
            }
            for id, delay, most, _ in rows
        ]
        if self.batch == 1:
            for row, words in zip(rows, named, strict=True):
                await self.note(ADD, at, [row], topic.add(BODY, **words))
        else:
            jobs = [tarry.NewJob(BODY, **words) for words in named]
            await self.note(ADD, at, rows, topic.add_many(jobs))
        return ids

    async def produce(self) -> None:
        began, added, looked = time.monotonic(), 0, 0.0
        while not self.stopping:
            ahead = added / self.rate - (time.monotonic() - began)
            if ahead > 0:
                await self.sleep(min(ahead, 0.5))
                continue
            if ahead < -1:
                began, added = time.monotonic(), 0
            at = self.dice.randrange(len(self.topics))
            n = 1 if self.batch == 1 else self.dice.randrange(10, self.batch)
            added += len(await self.add(at, [self.delay_us() for _ in range(n)]))
            if time.monotonic() > looked + 1:
                looked = time.monotonic()
                await self.hold_back(at)

    async def hold_back(self, at: int) -> None:
        """Not more than consumers can take."""
        with suppress(Exception):
            while not self.stopping and (await self.topics[at].stats()).ready > ENOUGH_READY:
                await self.sleep(0.5)

    # ── consuming ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def consume(self) -> None:
        late: list[tuple[float, int, Any]] = []
        turn = 0
        while not self.stopping:
            turn += 1
            at = turn % len(self.topics)
            topic, asked = self.topics[at], clock()
            wait = self.told.get("wait", 0.5 if len(self.topics) == 1 else 0.05)
            try:
                if self.batch == 1:
                    job = await topic.pop(wait=wait, ttr=self.ttr_s)
                    jobs = [] if job is None else [job]
                else:
                    jobs = await topic.pop_many(self.dice.randrange(10, self.batch), wait=wait, ttr=self.ttr_s)
            except Exception as fault:  # noqa: BLE001  # told
                await self.failed(fault)
                continue
            if jobs:
                self.history.saw(HANDED, at, asked, [cell for job in jobs for cell in handed_row(job)])
                await self.settle(at, jobs, late)
            while late and late[0][0] < time.monotonic():
                _, where, job = late.pop(0)
                await self.note(FINISH, where, [(int(job.id, 16), job.receipt)], self.topics[where].finish(job))

    async def settle(self, at: int, jobs: Iterable[Any], late: list[tuple[float, int, Any]]) -> None:
        done, back, buried, touched = [], [], [], []
        calm = self.calm
        for job in jobs:
            draw = 1.0 if calm else self.dice.random()
            if draw < 0.01:
                back.append(job)
            elif draw < 0.013:
                buried.append(job)
            elif draw < 0.02:
                touched.append(job)
            elif draw < 0.022:
                late.append((time.monotonic() + self.ttr_s + self.dice.random(), at, job))
            elif draw >= 0.024:  # below: forgotten
                done.append(job)
        topic = self.topics[at]
        if touched:
            rows = [(int(j.id, 16), j.receipt, int(self.ttr_s * 1e6)) for j in touched]
            await self.many(TOUCH, at, topic.touch, topic.touch_many, touched, rows, ttr=self.ttr_s)
            late += [(time.monotonic() + 0.9 * self.ttr_s, at, job) for job in touched]
            late.sort(key=lambda one: one[0])
        if done:
            await self.many(
                FINISH, at, topic.finish, topic.finish_many, done, [(int(j.id, 16), j.receipt) for j in done]
            )
        if back:
            delay, counted = self.dice.choice(((None, 1), (0.1, 1), (0.5, 1), (0, 0)))
            cell = -1 if delay is None else int(delay * 1e6)
            rows = [(int(j.id, 16), j.receipt, cell, counted) for j in back]
            await self.many(
                RELEASE, at, topic.release, topic.release_many, back, rows, delay=delay, counted=bool(counted)
            )
        if buried:
            rows = [(int(j.id, 16), j.receipt) for j in buried]
            await self.many(BURY, at, topic.bury, topic.bury_many, buried, rows, reason="chaos")

    async def many(
        self, kind: int, at: int, one: Any, several: Any, jobs: list[Any], rows: list[tuple[int, ...]], **named: Any
    ) -> None:
        if self.batch > 1:
            await self.note(kind, at, rows, several(jobs, **named))
            return
        for job, row in zip(jobs, rows, strict=True):
            await self.note(kind, at, [row], one(job, **named))

    # ── minding ──────────────────────────────────────────────────────────────────────────────────────────────────────

    async def mind(self) -> None:
        while not self.stopping:
            at = self.dice.randrange(len(self.topics))
            topic = self.topics[at]
            ids = [
                *await self.add(
                    at, [self.dice.randrange(100_000, 1_500_000) for _ in range(self.dice.randrange(5, 40))]
                )
            ]
            await self.sleep(self.dice.random() * 0.7)
            some = self.dice.sample(ids, len(ids) // 3)
            delay = self.dice.choice((0, 0.5, 2))
            words = [f"{id:x}" for id in some]
            rows = [(id, int(delay * 1e6)) for id in some]
            await self.note(RESCHEDULE, at, rows, topic.reschedule_many(words, delay=delay))
            await self.sleep(self.dice.random() * 0.5)
            some = [] if self.told.get("no_deletes") else self.dice.sample(ids, len(ids) // 3)
            for id in some[:2]:
                await self.note(DELETE, at, [(id,)], topic.delete(f"{id:x}"))
            if some[2:]:
                await self.note(
                    DELETE, at, [(id,) for id in some[2:]], topic.delete_many([f"{id:x}" for id in some[2:]])
                )
            if self.dice.random() < 0.2 and not self.calm:
                await self.kick(at)
            await self.sleep(0.02)

    async def kick(self, at: int) -> None:
        try:
            dead = [job.id for job in await self.topics[at].list("dead", limit=50)]
        except Exception as fault:  # noqa: BLE001  # told
            await self.failed(fault)
            return
        if dead:
            await self.note(KICK, at, [(int(id, 16),) for id in dead], self.topics[at].kick_many(dead))

    # ── guarded queues and locks ─────────────────────────────────────────────────────────────────────────────────────

    async def push(self, queue: Any) -> None:
        while not self.stopping:
            ids = self.new_ids(self.dice.randrange(50, self.batch))
            rows = [(id, self.dice.choice((0, 0, 100_000, 1_000_000))) for id in ids]
            await self.note(PUSH, 0, rows, queue.push([(f"{id:x}", delay / 1e6) for id, delay in rows]))
            await self.sleep(len(ids) / self.rate)

    async def poll(self, queue: Any) -> None:
        while not self.stopping:
            number = self.history.intend(POLL, 0, (0, self.batch))
            asked = clock()
            try:
                items = await queue.poll_many(self.batch, wait=0.5)
            except Exception as fault:  # noqa: BLE001  # told
                self.history.ended(number, MAYBE)
                await self.failed(fault)
                continue
            cells = [cell for i in items for cell in (int(i.value, 16), us(i.due), us(i.due) + i.lateness // US)]
            if items:
                self.history.saw(POLLED, 0, asked, cells)
            self.history.ended(number)

    async def lock(self, lock: Any, number: int) -> None:
        while not self.stopping:
            asked = clock()
            try:
                grant = await lock.acquire(wait=1)
                if grant is None:
                    continue
                had, handle = clock(), grant if self.told.get("client_kind") == "async" else Blocking(grant)
                await self.sleep(0.001 * self.dice.randrange(1, 10))
                given, lost = clock(), 0
                try:
                    await handle.release()
                except tarry.errors.TarryError:
                    lost = 1
                self.history.saw(LOCKED, 0, asked, (number, grant.token, had, given, lost))
            except Exception as fault:  # noqa: BLE001  # told
                await self.failed(fault)

    # ── the whole ────────────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, client: Any, wrap: Callable[[Any], Any]) -> None:
        told, role = self.told, self.told["role"]
        extra = {"partitions": told["partitions"]} if told.get("partitions") else {}
        self.topics = [wrap(client.topic(name, **extra)) for name in told.get("topics", ())]
        if "key_concurrency" in told:
            for topic in self.topics:
                with suppress(tarry.errors.TarryError):  # a server that is away was told by others
                    await topic.configure(key_concurrency=told["key_concurrency"], fair=True)
        if role in ("producer", "consumer", "manager"):
            tell = {"producer": self.produce, "consumer": self.consume, "manager": self.mind}[role]
            tasks = told.get("tasks", 1) if told.get("client_kind") == "async" else 1
            await (tell() if tasks == 1 else _together([tell() for _ in range(tasks)]))
            return
        from tarry import zookeeper

        kind = zookeeper.AsyncClient if told.get("client_kind") == "async" else zookeeper.Client
        ensemble = kind(told["zookeeper"], namespace="chaos", session_timeout="2s")
        try:
            if role == "locker":
                await self.lock(wrap(ensemble.lock("alone")), 1)
            else:
                queue = wrap(client.guarded_queue("guarded", guard=ensemble.lock("guard")))
                await (self.push(queue) if role == "pusher" else self.poll(queue))
        finally:
            with suppress(Exception):
                await (ensemble.close() if told.get("client_kind") == "async" else Blocking(ensemble).close())

    async def awaited(self) -> None:
        kind = tarry.AsyncHTTPClient if self.told.get("http") else tarry.AsyncClient
        client = kind(self.told["url"], namespace="chaos")
        try:
            await self.run(client, lambda handle: handle)
        finally:
            with suppress(Exception):
                await client.close()

    def blocking(self) -> None:
        kind = tarry.HTTPClient if self.told.get("http") else tarry.Client
        client = kind(self.told["url"], namespace="chaos")
        try:
            with suppress(StopIteration):
                self.run(client, Blocking).send(None)
        finally:
            with suppress(Exception):
                client.close()


async def _together(tellings: list[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*tellings)


def main(words: str) -> None:
    client = ClientProcess(json.loads(words))
    if client.told.get("client_kind") != "async":
        client.blocking()
    elif client.told.get("uvloop"):
        import uvloop

        uvloop.run(client.awaited())
    else:
        asyncio.run(client.awaited())
    client.history.close()
    os._exit(0)  # a client that still waits for a dead server must not hold the process up


if __name__ == "__main__":
    main(sys.argv[1])
