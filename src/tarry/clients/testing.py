"""Clients whose time is imaginary, on a real server that was started for tests: no test sleeps.

    clock = Clock()
    client = TestClient(url, clock)                 # or TestAsyncClient
    topic.add("tea", delay="30m")
    clock.advance("29m"); topic.pop()               # None
    topic.pop(wait="2m")                            # the tea: waiting makes time pass

Everything but the clock is the real thing: the scripts, the server, the links. Of one clock and many consumers, each wait
is lived through alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tarry.clients.aio.client import AsyncClient
from tarry.clients.aio.engine import Engine as AsyncEngine
from tarry.clients.origin import Origin
from tarry.clients.sync.client import Client
from tarry.clients.sync.engine import Engine
from tarry.idea.watch import Caller, Watch
from tarry.verbs.delayed import keeping
from tarry.verbs.jobs.waiting import PostAddress, imaginary
from tarry.words.durations import SECOND, Duration, microseconds
from tarry.words.keys import QueueKeys

START_US = 1_800_000_000 * SECOND
"""2027-01-15 08:00:00 UTC."""


class Clock:
    """Imaginary time, in microseconds since 1970; shared by any number of clients."""

    def __init__(self, start_us: int = START_US) -> None:
        self.us = self._start = start_us
        self._runners: list[Any] = []

    def drive(self, runner: Any) -> None:
        """From now on the runner's scripts go by this clock."""
        self._runners.append(runner)
        self._tell()

    def advance(self, duration: Duration) -> None:
        """Lets time pass."""
        self.us += microseconds(duration, "duration")
        self._tell()

    @property
    def lived_us(self) -> int:
        """How much time has passed here."""
        return self.us - self._start

    def seconds(self) -> float:
        return self.lived_us / SECOND

    def pass_until(self, moment: float) -> None:
        self.us = max(self.us, self._start + math.ceil(moment * SECOND))
        if self.seconds() < moment:  # the product was rounded down
            self.us += 1
        self._tell()

    def _tell(self) -> None:
        for runner in self._runners:
            runner.clock = b"%d" % self.us


class _Alone:
    """Waits for one client, one caller at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watch = Watch(b"test:%d" % id(self))

    def flow(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Any:
        return imaginary(self._watch, want, seconds, posts, self._clock)


class _Engine(Engine):
    def __init__(self, origin: Origin, clock: Clock) -> None:
        super().__init__(origin)
        self._clock, self._alone = clock, _Alone(clock)
        clock.drive(self.runner)

    def wait(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Caller:
        return _served(self.run(self._alone.flow(want, seconds, posts)))

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
        return self.run(keeping.imaginary(queues, seconds, self._clock))


class _AsyncEngine(AsyncEngine):
    def __init__(self, origin: Origin, clock: Clock) -> None:
        super().__init__(origin)
        self._clock, self._alone = clock, _Alone(clock)
        clock.drive(self.runner)

    async def wait(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Caller:
        return _served(await self.run(self._alone.flow(want, seconds, posts)))

    async def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
        return await self.run(keeping.imaginary(queues, seconds, self._clock))


class TestClient(Client):
    """``tarry.Client`` by an imaginary clock."""

    __test__ = False

    def __init__(self, url: str, clock: Clock | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self.clock = clock or Clock()
        self.engine = _Engine(self.engine.origin, self.clock)


class TestAsyncClient(AsyncClient):
    """``tarry.AsyncClient`` by an imaginary clock."""

    __test__ = False

    def __init__(self, url: str, clock: Clock | None = None, **options: Any) -> None:
        super().__init__(url, **options)
        self.clock = clock or Clock()
        self.engine = _AsyncEngine(self.engine.origin, self.clock)


def _served(caller: Caller) -> Caller:
    if caller.fault is not None:
        raise caller.fault
    return caller
