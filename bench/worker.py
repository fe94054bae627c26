"""The worker process of the rows about workers: ``python -m bench.worker MODE URL COUNT DUE SLOTS``; prints JSON.

It is ``tarry.Worker`` as users run it, on uvloop where that is installed, as ``tarry worker`` does.

``async`` and ``plain``  handle COUNT jobs that fall due at DUE, with SLOTS slots (for plain ones: threads), 0 for the default
``late``                 prints a line when it has handled one job, so it has started; then handles COUNT jobs as they come,
                         and prints their lateness; beside it the yardstick, in the same loop
``busy``                 the same with as many jobs of the topic ``burst``, SLOTS of them, that fall due at once; only what is due while
                         they drain counts
``many``                 waits on COUNT topics until stdin is closed, and prints after which time the first job ran
``firing``               handles the jobs of COUNT topics until stdin is closed; prints a line when it has started, then a line
                         for each job: its id, when it was added, and when it was handled
``idle``                 prints a line when it has started; waits on COUNT topics until stdin is closed, and prints the processor time that it used
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections import deque
from typing import Any

import tarry
from tarry.worker.signals import run_in_loop

RATE = 50
RATE_IN_A_BURST = 200


class Count:
    """Stops the worker after a number of jobs; from any thread."""

    def __init__(self, worker: tarry.Worker, count: int) -> None:
        self.done = 0
        self._worker, self._count = worker, count
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def one(self) -> None:
        self.done += 1
        if self.done == self._count:
            self._worker.stop()

    def one_in_a_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self.done += 1
            last = self.done == self._count
        if last:
            loop.call_soon_threadsafe(self._worker.stop)


async def burst(url: str, count: int, due: float, slots: int, *, plain: bool) -> dict[str, float]:
    worker = tarry.Worker(url=url)
    counted, loop = Count(worker, count), asyncio.get_running_loop()

    async def handle(job: tarry.AsyncJob[Any]) -> None:
        assert job.body
        counted.one()

    def handle_in_a_thread(job: tarry.Job[Any]) -> None:
        assert job.body
        counted.one_in_a_thread(loop)

    worker.on("orders", concurrency=slots or None)(handle_in_a_thread if plain else handle)
    cpu = time.process_time()
    await worker.run()
    return {"jobs": counted.done, "wall_s": time.time() - due, "cpu_s": time.process_time() - cpu}


async def late(url: str, count: int) -> dict[str, Any]:
    worker = tarry.Worker(url=url)
    counted, lateness_ms, in_hand_ms = Count(worker, 1 + count), list[float](), list[float]()

    @worker.on("orders")
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        if not counted.done:
            print(flush=True)
        else:
            in_hand_ms.append((time.time() - job.due.timestamp()) * 1000)
            lateness_ms.append(job.lateness.total_seconds() * 1000)
        counted.one()

    bare = await Bare.begin(url, RATE)
    await worker.run()
    bare_ms, timer_ms = [ms for _, ms in bare.seen], [ms for _, ms in bare.timer]
    return {"lateness_ms": lateness_ms, "in_hand_ms": in_hand_ms, "bare_ms": bare_ms, "timer_ms": timer_ms}


async def busy(url: str, count: int, size: int) -> dict[str, Any]:
    worker = tarry.Worker(url=url)
    counted = Count(worker, 1 + count + size)
    seen: dict[str, list[tuple[float, float]]] = {"lateness_ms": [], "in_hand_ms": []}
    began, drained, left = 0.0, 0.0, size

    @worker.on("orders")
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        if not counted.done:
            print(flush=True)
        at = job.due.timestamp()
        seen["in_hand_ms"].append((at, (time.time() - at) * 1000))
        seen["lateness_ms"].append((at, job.lateness.total_seconds() * 1000))
        counted.one()

    @worker.on("burst")
    async def drain(job: tarry.AsyncJob[Any]) -> None:
        nonlocal began, drained, left
        began = began or job.due.timestamp()
        left -= 1
        if not left:
            drained = time.time()
        counted.one()

    bare = await Bare.begin(url, RATE_IN_A_BURST)
    seen |= {"bare_ms": bare.seen, "timer_ms": bare.timer}
    await worker.run()
    during = {name: [ms for at, ms in values if began < at < drained] for name, values in seen.items()}
    return {**during, "drained_s": drained - began}


class Bare(asyncio.Protocol):
    """The lower bound for a worker in this loop on this machine: as many moments, a timer and a PING for each."""

    def __init__(self, rate: float) -> None:
        self.seen: list[tuple[float, float]] = []
        """Each moment, and how many milliseconds later its answer came."""
        self.timer: list[tuple[float, float]] = []
        """The same until the PING was sent."""
        self._rate, self._rng, self._due = rate, random.Random(7), time.time()
        self._loop = asyncio.get_running_loop()
        self._asked: deque[float] = deque()
        self._transport: asyncio.Transport

    @classmethod
    async def begin(cls, url: str, rate: float) -> Bare:
        _, bare = await asyncio.get_running_loop().create_unix_connection(
            lambda: cls(rate), url.removeprefix("unix://")
        )
        return bare

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._transport.write(b"PING\r\n")
        self._asked.append(self._due)
        self.timer.append((self._due, (time.time() - self._due) * 1000))
        self._due += self._rng.uniform(0, 2 / self._rate)  # what falls due while the loop is held up counts, too
        self._loop.call_later(self._due - time.time(), self._ask)

    def data_received(self, data: bytes) -> None:
        for _ in range(data.count(b"\n")):
            due = self._asked.popleft()
            self.seen.append((due, (time.time() - due) * 1000))


async def idle(url: str, topics: int) -> dict[str, float]:
    worker = tarry.Worker(url=url)

    async def handle(job: tarry.AsyncJob[Any]) -> None: ...

    for number in range(topics):
        worker.on(f"topic-{number}")(handle)
    async with worker:
        print(flush=True)  # it has started
        await asyncio.to_thread(sys.stdin.readline)  # the measurement begins
        cpu, began = time.process_time(), time.monotonic()
        await asyncio.to_thread(sys.stdin.readline)
        return {"cpu_s": time.process_time() - cpu, "wall_s": time.monotonic() - began}


async def firing(url: str, topics: int) -> None:
    worker, seen = tarry.Worker(url=url), list[tuple[str, float, float]]()

    async def handle(job: tarry.AsyncJob[Any]) -> None:
        seen.append((f"{job.topic}/{job.id}", job.created.timestamp(), time.time()))

    for number in range(topics):
        worker.on(f"topic-{number}")(handle)
    async with worker:
        await asyncio.sleep(1)
        print(flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    for row in seen:
        print(json.dumps(row))


async def many(url: str, topics: int) -> dict[str, float]:
    began, handled = time.monotonic(), asyncio.Event()
    worker = tarry.Worker(url=url)

    async def handle(_job: tarry.AsyncJob[Any]) -> None:
        handled.set()

    for number in range(topics):
        worker.on(f"topic-{number}")(handle)
    async with worker:
        await handled.wait()
        start_s = time.monotonic() - began
        await asyncio.to_thread(sys.stdin.readline)
        return {"start_s": start_s}


def main(mode: str, url: str, count: str, due: str = "0", slots: str = "100") -> None:
    work: Any
    if mode == "busy":
        work = busy(url, int(count), int(slots))
    elif mode == "many":
        work = many(url, int(count))
    elif mode == "firing":
        work = firing(url, int(count))
    elif mode in ("async", "plain"):
        work = burst(url, int(count), float(due), int(slots), plain=mode == "plain")
    else:
        work = late(url, int(count)) if mode == "late" else idle(url, int(count))
    if (result := run_in_loop(work)) is not None:
        print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
