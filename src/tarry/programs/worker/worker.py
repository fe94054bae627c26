"""A worker: what it is, how it is started and told to stop. What a run consists of is in running.py.

first signal    no new jobs; what runs gets the grace period; what still runs then is given back, uncounted
second signal   no grace
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.blocking.client import Client
from tarry.errors import BadInput
from tarry.programs.worker import clients
from tarry.programs.worker.queue_consumer import QueueRoute
from tarry.programs.worker.registry import Registry, TopicRoute, check_slots
from tarry.programs.worker.run import WorkerRun
from tarry.programs.worker.signals import handle_signals
from tarry.programs.worker.targets import Middleware
from tarry.values.durations import MILLISECOND, SECOND, Duration, duration_us
from tarry.verbs.jobs.pop import ttr_of

logger = logging.getLogger("tarry.worker")
TTR: Duration = 15
"""Short, for it is renewed: what a dead worker held comes back after so long."""
GRACE: Duration = 10
BLOCKED: Duration = 1


class Worker(Registry):
    """Calls your functions when jobs are due: pops, runs, finishes; what raises is released with back-off.

    ``server``       a URL, a ``Client`` or an ``AsyncClient``; nothing means what it means to them
    ``concurrency``  slots that all topics share, by weight; without it each topic has its own
    ``ttr``          how soon the jobs of a killed worker come back; running jobs are renewed well before it is over
    ``grace``        how long running handlers may go on after ``stop``
    ``blocked``      a handler that blocks the event loop for longer is named in the log
    """

    def __init__(
        self,
        server: str | Client | AsyncClient | None = None,
        *,
        namespace: str = "default",
        concurrency: int | None = None,
        ttr: Duration = TTR,
        grace: Duration = GRACE,
        blocked: Duration = BLOCKED,
    ) -> None:
        super().__init__()
        self._clients = clients.WorkerClients(server, namespace)
        self.slots = None if concurrency is None else check_slots(concurrency)
        ttr_of(ttr)
        self.ttr = ttr
        self.grace_s = duration_us(grace, "grace") / SECOND
        self.blocked_s = duration_us(blocked, "blocked", minimum=10 * MILLISECOND) / SECOND
        self._only: frozenset[str] | None = None
        self.moving: tuple[str, ...] = ()
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._current_run: asyncio.Task[int] | None = None
        self._idle = False
        self.holder = b""
        """Its name on the jobs it has in hand; made of host, process and a random word when it starts."""
        self.is_child = False
        """Whether a parent process stops it."""
        self.beat: Callable[[bool], None] = lambda worked: None
        """Called from time to time by a thread of its own, whatever the handlers do; with whether the server ever answered."""

    # ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def client(self) -> AsyncClient:
        """Its awaited client."""
        return self._clients.awaited

    @property
    def blocking(self) -> Client:
        """Its blocking client, for tasks that are added and for handlers in threads."""
        return self._clients.blocking

    @contextmanager
    def using(
        self, server: str | Client | AsyncClient, *, namespace: str = "default", beside: bool = True
    ) -> Generator[Worker]:
        """In this block it works, and its tasks are added, on another server: for tests.

        ``namespace`` goes with a URL; a client has its own. With ``beside=False`` it does not work beside an application
        (``async with worker`` starts nothing): somebody calls ``run_until_idle``.
        """
        before = self._clients, self._idle
        self._clients, self._idle = clients.WorkerClients(server, namespace), not beside
        try:
            yield self
        finally:
            self._clients, self._idle = before

    async def close(self) -> None:
        """Closes its clients, one that it was given too. It may run again: the next verb opens them."""
        await self._clients.close(given=True)

    # ── what it does ─────────────────────────────────────────────────────────────────────────────────────────────────

    def with_overrides(
        self,
        *,
        url: str | None = None,
        namespace: str | None = None,
        topics: Sequence[str] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """What a command line says instead of the application; what is ``None`` stays. Raises ``BadInput``."""
        if topics is not None:
            known = [route.topic for route in self.routes()] + [route.queue for route in self.queue_routes()]
            for topic in topics:
                if topic not in known:
                    raise BadInput(f"topics: no handler for {topic!r}; there are {', '.join(known) or 'none'}.")
            self._only = frozenset(topics)
        if concurrency is not None:
            self.slots = check_slots(concurrency)
        if url is not None or namespace is not None:
            self._clients = self._clients.at(url, namespace)

    def routes(self, outer: tuple[Middleware, ...] = ()) -> list[TopicRoute]:
        """The topics it works on."""
        return [route for route in super().routes(outer) if self._only is None or route.topic in self._only]

    def queue_routes(self) -> list[QueueRoute]:
        """The queues shared with Java that it takes from."""
        return [route for route in super().queue_routes() if self._only is None or route.queue in self._only]

    def keep_moving(self, *queues: str) -> None:
        """Moves what falls due in these queues too while it works, for consumers in Java (see ``Client.keep_moving``)."""
        self.moving = (*self.moving, *queues)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """No new jobs; ``run`` returns when the running ones have ended. A second call gives them no more time."""
        if self._stopping.is_set():
            self._stop_now.set()
        self._stopping.set()

    async def run(self, *, signals: bool = True) -> int:
        """Works until ``stop`` is called or, with ``signals``, SIGTERM or SIGINT arrives.

        A client that it was given stays open; jobs go by connections of the worker's own, closed at the end.
        Answers how many running jobs had to be given back. Raises what makes going on senseless when it begins:
        ``ServerUnfit``, ``BadInput``. An unreachable server is waited for, and once a topic was served whatever the server
        refuses: a full disk, a changed password.
        """
        return await self._execute(signals=signals, idle_s=None)

    async def run_until_idle(self) -> int:
        """Works until nothing is due and nothing runs: for tests, and for programs that run now and then."""
        return await self._execute(signals=False, idle_s=0)

    async def _execute(self, *, signals: bool, idle_s: float | None) -> int:
        clients = self._clients
        run = WorkerRun(self, clients, idle_s)
        forget: Callable[[], None] = lambda: None  # noqa: E731  # nothing to forget
        if signals:
            forget = handle_signals(self.stop, self._stopping.is_set, is_child=self.is_child)
        try:
            return await run.execute(self._stopping, self._stop_now)
        finally:
            forget()
            self._stopping, self._stop_now = asyncio.Event(), asyncio.Event()  # the next run may be in another loop
            await clients.close(given=False)

    # ── beside an application ────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Worker:
        """Works beside what is in the block, in the same loop; signals are left to the application.

        Leaving the block is ``stop``, and waits for what runs; cancelling that wait gives it no more time. What ended the
        worker before is logged then and there, and raised when the block is left.
        """
        if self._idle:
            return self
        self._current_run = asyncio.create_task(self.run(signals=False))
        self._current_run.add_done_callback(_log_failure)
        await asyncio.sleep(0)
        if self._current_run.done():
            self._current_run.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        run, self._current_run = self._current_run, None
        if run is None:
            return
        if not run.done():
            self.stop()
        try:
            await asyncio.shield(run)
        except asyncio.CancelledError:
            if not run.done():
                self.stop()  # the second time: what runs is given back now
                await run
            raise


def _log_failure(run: asyncio.Task[int]) -> None:
    """At once: the application beside it may go on for weeks."""
    if not run.cancelled() and (fault := run.exception()) is not None:
        logger.error("✗ The worker has ended, no job is handled any more: %s", fault)
