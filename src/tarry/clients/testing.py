"""Clients whose time is imaginary, on a real server that was started for tests: no test sleeps.

    clock = Clock()
    client = TestClient(url, clock)                 # or TestAsyncClient
    topic.add("tea", delay="30m")
    clock.advance("29m"); topic.pop()               # None
    topic.pop(wait="2m")                            # the tea: waiting makes time pass

Only the clock is imaginary: the scripts, the server and the connections are real. When several consumers have one clock, each
wait passes alone. A TestAsyncClient that was not closed is closed when its event loop ends.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.awaited.engine import Engine as AsyncEngine
from tarry.clients.blocking.client import Client
from tarry.clients.blocking.engine import Engine
from tarry.clients.config import ClientConfig
from tarry.core.requests import Operation
from tarry.core.watch import Caller, Gate, Watch
from tarry.values.durations import SECOND, Duration, as_datetime, duration_us
from tarry.values.keys import QueueKeys
from tarry.verbs.jobs.watch_steps import WaitQueueKey, simulate_wait
from tarry.verbs.redisson.delayed import transfer

T = TypeVar("T")
START_US = 1_800_000_000 * SECOND
"""2027-01-15 08:00:00 UTC."""


class Clock:
    """Imaginary time, in microseconds since 1970; shared by any number of clients."""

    _for_modules = ("advance_to", "drive", "elapsed_us", "pass_until", "seconds", "us")

    def __init__(self, start_us: int = START_US) -> None:
        self.us = self._start = start_us
        self._runners: list[Any] = []

    def drive(self, runner: Any) -> None:
        """From now on the runner's scripts use this clock."""
        self._runners.append(runner)
        self._apply()

    def advance(self, duration: Duration) -> None:
        """Lets time pass."""
        self.advance_to(self.us + duration_us(duration, "duration"))

    def advance_to(self, us: int) -> None:
        """Lets time pass until a moment; it never goes back."""
        self.us = max(self.us, us)
        self._apply()

    @property
    def now(self) -> datetime:
        """The clock's time, in UTC."""
        return as_datetime(self.us)

    @property
    def elapsed_us(self) -> int:
        """The time that has passed by this clock."""
        return self.us - self._start

    def seconds(self) -> float:
        return self.elapsed_us / SECOND

    def pass_until(self, moment: float) -> None:
        self.us = max(self.us, self._start + math.ceil(moment * SECOND))
        if self.seconds() < moment:  # the product was rounded down
            self.us += 1
        self._apply()

    def _apply(self) -> None:
        for runner in self._runners:
            runner.clock = b"%d" % self.us


class _SoleWaiter:
    """Waits for one client, one caller at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watch = Watch(b"test:%d" % id(self))

    def flow(self, max_jobs: int, seconds: float, queue_keys: Sequence[WaitQueueKey], gate: Gate | None) -> Any:
        return simulate_wait(self._watch, max_jobs, seconds, queue_keys, self._clock, gate)


class _Engine(Engine):
    keeps_maps = False

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        super().__init__(config)
        self._clock, self._sole_waiter = clock, _SoleWaiter(clock)
        clock.drive(self.runner)

    def seconds(self) -> float:
        return self._clock.seconds()

    def wait(
        self, max_jobs: int, seconds: float, queue_keys: Sequence[WaitQueueKey], gate: Gate | None = None
    ) -> Caller:
        return _result_of(self.run(self._sole_waiter.flow(max_jobs, seconds, queue_keys, gate)))

    def keep_moving(self, queues: Sequence[QueueKeys]) -> None:
        """Does nothing: the consumer that takes an element moves the queue."""

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
        return self.run(transfer.simulate_take(queues, seconds, self._clock))


class _AsyncEngine(AsyncEngine):
    keeps_maps = False

    def __init__(self, config: ClientConfig, clock: Clock) -> None:
        super().__init__(config)
        self._clock, self._sole_waiter = clock, _SoleWaiter(clock)
        self._loop_guard: tuple[asyncio.AbstractEventLoop, AsyncGenerator[None]] | None = None
        clock.drive(self.runner)

    async def run(self, operation: Operation[T], reader: Any = None) -> T:
        await self._close_with_loop()
        return await super().run(operation, reader)

    async def register_topic(self, topic: str) -> None:
        await self._close_with_loop()
        await super().register_topic(topic)

    async def _close_with_loop(self) -> None:
        """A loop that ends closes its asynchronous generators; one of ours closes this client then."""
        loop = asyncio.get_running_loop()
        if self._loop_guard is None or self._loop_guard[0] is not loop:
            self._loop_guard = loop, _close_at_end(self)
            await anext(self._loop_guard[1])

    def seconds(self) -> float:
        return self._clock.seconds()

    async def wait(
        self, max_jobs: int, seconds: float, queue_keys: Sequence[WaitQueueKey], gate: Gate | None = None
    ) -> Caller:
        return _result_of(await self.run(self._sole_waiter.flow(max_jobs, seconds, queue_keys, gate)))

    async def keep_moving(self, queues: Sequence[QueueKeys]) -> None:
        """Does nothing: the consumer that takes an element moves the queue."""

    async def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
        return await self.run(transfer.simulate_take(queues, seconds, self._clock))


class TestClient(Client):
    """A ``tarry.Client`` whose time is an imaginary clock's."""

    __test__ = False

    def __init__(self, url: str, clock: Clock | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self.clock: Clock = clock or Clock()
        """Its clock."""
        self.engine.config.leases.seconds = self.clock.seconds
        self.engine = _Engine(self.engine.config, self.clock)


class TestAsyncClient(AsyncClient):
    """A ``tarry.AsyncClient`` whose time is an imaginary clock's."""

    __test__ = False

    def __init__(self, url: str, clock: Clock | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self.clock: Clock = clock or Clock()
        """Its clock."""
        self.engine.config.leases.seconds = self.clock.seconds
        self.engine = _AsyncEngine(self.engine.config, self.clock)


async def _close_at_end(engine: AsyncEngine) -> AsyncGenerator[None]:
    try:
        yield
    finally:
        await engine.disconnect()  # the next loop may use a client that its owner has not closed


def _result_of(caller: Caller) -> Caller:
    if caller.fault is not None:
        raise caller.fault
    return caller
