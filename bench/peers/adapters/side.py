"""What all adapters share: the program that the bench runs. Only the standard library, for it runs in each peer's venv.

    python with_rq.py work URL SLOTS REPORT      the worker process; runs until it is killed
    python with_rq.py produce URL                reads a command a line from stdin, and answers each with a line of JSON

An adapter gives ``produce(url)``, which returns an ``Adder``, and ``work(url, slots)``, whose handler calls ``ran`` (or
``await ran_async``) with each job's body. ``slots`` is 0 for what the peer's documentation advises, else that many jobs at once.

The body is text of 200 bytes: number, due time, a word. The worker appends number, due and the time of each run to the file
REPORT with one ``write``, which costs every peer the same.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

SIZE = 200
HOLD = "hold"
"""The word of a job that is never done: its worker is to be killed."""
HOLD_S = 3600
DAY_S = 86_400
CHUNK = 1000
TASKS = 64
REPORT, URL = "PEERS_REPORT", "PEERS_URL"
Command = dict[str, Any]


def make_body(number: int, due: float, word: str = "done") -> str:
    return f"{number:08d} {due:.6f} {word} ".ljust(SIZE, "x")


class Adder:
    """Adds jobs. ``add`` and ``add_many`` may be coroutine functions."""

    def add(self, body: str, due: float) -> Any:
        raise NotImplementedError

    add_many: Callable[[list[str], float], Any] | None = None
    """A call of the peer's own for many; ``None`` if it has none."""
    add_burst: Callable[[list[str], float], Any] | None = None
    """Makes many due at exactly one time, if a peer needs more for that than its usual calls."""
    add_in_task: Callable[[str, float], Awaitable[Any]] | None = None
    """Used by the 64 tasks, if ``add`` is blocking and the peer has an asyncio client too."""


_file = -1


def report(body: str) -> bool:
    """Records that a job runs; answers whether the handler is to hold it."""
    global _file
    if _file < 0:
        _file = os.open(os.environ[REPORT], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(_file, f"{body[:26]} {time.time():.6f}\n".encode())
    return body[27:31] == HOLD


def ran(body: str) -> None:
    """The handler of a peer with blocking handlers."""
    if report(body):
        time.sleep(HOLD_S)


async def ran_async(body: str) -> None:
    """The handler of a peer with asyncio handlers."""
    if report(body):
        await asyncio.sleep(HOLD_S)


async def done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Producer:
    """Performs the commands that the bench sends."""

    def __init__(self, url: str, adder: Adder, another: Callable[[str], Adder]) -> None:
        self.url, self.adder, self.another = url, adder, another

    async def perform(self, command: Command) -> dict[str, Any]:
        perform = getattr(self, "do_" + command["do"])
        found: dict[str, Any] | None = await perform(command)
        return found or {}

    async def do_add(self, command: Command) -> dict[str, Any]:
        """One by one, until the count or the time is reached."""
        due, stop_at = time.time() + command["due_in"], time.monotonic() + command["within_s"]
        bodies = [
            make_body(number, due, command.get("word", "done"))
            for number in range(command["first"], command["first"] + command["count"])
        ]
        add, count = self.adder.add, 0
        cpu, began = time.process_time(), time.perf_counter()
        if inspect.iscoroutinefunction(add):
            for body in bodies:
                await add(body, due)
                count += 1
                if not count % 16 and time.monotonic() > stop_at:
                    break
        else:
            for body in bodies:
                add(body, due)
                count += 1
                if not count % 16 and time.monotonic() > stop_at:
                    break
        return {"jobs": count, "wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}

    async def do_many(self, command: Command) -> dict[str, Any]:
        """In bulk, a thousand a call; answers no jobs if the peer has no such call."""
        if self.adder.add_many is None:
            return {"jobs": 0, "wall_s": 0.0, "cpu_s": 0.0}
        due, stop_at = time.time() + command["due_in"], time.monotonic() + command["within_s"]
        count = 0
        cpu, began = time.process_time(), time.perf_counter()
        while count < command["count"] and time.monotonic() < stop_at:
            size = min(CHUNK, command["count"] - count)
            bodies = [make_body(command["first"] + count + number, due) for number in range(size)]
            await done(self.adder.add_many(bodies, due))
            count += size
        return {"jobs": count, "wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}

    async def do_burst(self, command: Command) -> dict[str, Any]:
        """Many that are due at one time, by the fastest call that there is."""
        if self.adder.add_burst is not None:
            due, began = time.time() + command["due_in"], time.perf_counter()
            bodies = [make_body(command["first"] + number, due) for number in range(command["count"])]
            await done(self.adder.add_burst(bodies, due))
            return {"jobs": len(bodies), "wall_s": time.perf_counter() - began, "cpu_s": 0.0}
        return await (self.do_add if self.adder.add_many is None else self.do_many)(command)

    async def do_tasks(self, command: Command) -> dict[str, Any]:
        """One by one from 64 asyncio tasks; from 64 threads if the client is blocking."""
        due, stop_at = time.time() + command["due_in"], time.monotonic() + command["within_s"]
        left = iter([make_body(number, due) for number in range(command["first"], command["first"] + command["count"])])
        add, count = self.adder.add_in_task or self.adder.add, 0

        async def run_task() -> None:
            nonlocal count
            for body in left:
                await add(body, due)
                count += 1
                if time.monotonic() > stop_at:
                    return

        guard = threading.Lock()
        adders: list[Adder] = []

        def run_thread(adder: Adder) -> None:
            nonlocal count
            while True:
                with guard:
                    body = next(left, None)
                if body is None or time.monotonic() > stop_at:
                    return
                adder.add(body, due)
                with guard:
                    count += 1

        if not inspect.iscoroutinefunction(add):
            adders = [self.another(self.url) for _ in range(TASKS)]
        cpu, began = time.process_time(), time.perf_counter()
        if adders:
            with ThreadPoolExecutor(TASKS) as threads:
                list(threads.map(run_thread, adders))
        else:
            await asyncio.gather(*(run_task() for _ in range(TASKS)))
        return {"jobs": count, "wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}

    async def do_paced(self, command: Command) -> dict[str, Any]:
        """At a pace, each with a delay of its own."""
        rng, count = random.Random(7), 0
        began = time.monotonic()
        low, high = command["delays_s"]
        for number in range(command["count"]):
            at = began + number / command["rate"]
            if (wait := at - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            elif wait < -command["behind_s"]:
                break
            due = time.time() + rng.uniform(low, high)
            await done(self.adder.add(make_body(command["first"] + number, due), due))
            count += 1
        return {"jobs": count, "wall_s": time.monotonic() - began, "cpu_s": 0.0}


async def _serve(produce: Callable[[str], Any], url: str) -> None:
    """Commands come from a thread: a blocking read of stdin would stop the loop of an asyncio client."""
    producer = Producer(url, await done(produce(url)), produce)
    print(json.dumps({"ready": True}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            answer = await producer.perform(json.loads(line))
        except Exception as error:  # noqa: BLE001  # the bench shows it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def main(produce: Callable[[str], Any], work: Callable[[str, int], None]) -> None:
    role, url, *rest = sys.argv[1:]
    if role == "work":
        work(url, int(rest[0]))
    else:
        asyncio.run(_serve(produce, url))
        os._exit(0)  # a client's threads are of no interest any more
