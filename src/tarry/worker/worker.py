"""The worker: its settings, and how it is started and stopped. One run is in run.py.

first signal    no new jobs; running ones get the grace period; those that still run then are released, uncounted
second signal   no grace
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.blocking.client import Client
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import MILLISECOND, SECOND, Duration, duration_us
from tarry.values.topic_patterns import is_pattern, matches
from tarry.verbs.jobs.pop import ttr_of
from tarry.worker import process_functions
from tarry.worker import worker_clients as clients
from tarry.worker.handlers import QueueRoute
from tarry.worker.registry import Registrations, Registry, TopicRoute, check_slots
from tarry.worker.run import WorkerRun, WorkerSettings
from tarry.worker.signals import handle_signals
from tarry.worker.targets import Middleware

logger = logging.getLogger("tarry.worker")
TTR: Duration = 15
"""Short, because reservations are renewed: the jobs of a dead worker come back after this time."""
GRACE: Duration = 10
WARN_BLOCKED_AFTER: Duration = 1
UNKNOWN_TASKS_DIE_AFTER: Duration = "1d"


class Worker(Registry):
    """Calls your functions when jobs are due: pops, runs, finishes. A job whose handler raises is released with back-off.

    ``name``         the application's name, which is also the topic of its tasks; a worker without a name has handlers (``on``) and no tasks
    ``url``, ``namespace``  those of ``Client``
    ``client``       instead of both: a ``Client`` or an ``AsyncClient`` whose server, namespace and settings it uses
    ``concurrency``  slots that all topics share, by weight; without it each topic has slots of its own
    ``ttr``          after what time the jobs of a worker that is cut off come back; running jobs are renewed well before this time is over
    ``release_on_disconnect``  a killed worker's jobs go to another running worker within two seconds if the server sees its connection end,
                     otherwise after their time to run; ``False``: always after their time to run
    ``grace``        how long running handlers may go on after ``stop``
    ``unknown_tasks_die_after``  a job is set aside as dead when no worker has known its task for this time; with ``None`` it waits forever
    ``warn_blocked_after``  a handler that blocks the event loop for longer is named in the log
    ``max_jobs_per_child``  after how many jobs a child process, of ``tarry worker`` or of ``run="process"``, is replaced
    """

    _naming = 'tarry.Worker("shop")'
    """How it is given a name, for an error."""

    def __init__(
        self,
        name: str | None = None,
        *,
        url: str | None = None,
        client: Client | AsyncClient | None = None,
        namespace: str | None = None,
        concurrency: int | None = None,
        ttr: Duration = TTR,
        grace: Duration = GRACE,
        warn_blocked_after: Duration = WARN_BLOCKED_AFTER,
        unknown_tasks_die_after: Duration | None = UNKNOWN_TASKS_DIE_AFTER,
        max_jobs_per_child: int | None = None,
        release_on_disconnect: bool = True,
    ) -> None:
        super().__init__()
        self.registered = WorkerRegistrations(self, self._naming)
        self.name: str | None = None if name is None else _check_name(name)
        """The application's name; ``None`` without one."""
        module = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001  # Python's own, documented
        given = clients.WorkerClients(_check_server(url, client, namespace), namespace)
        ttr_of(ttr)
        self.inner = WorkerSettings(
            module=module,
            clients=given,
            slots=None if concurrency is None else check_slots(concurrency),
            ttr=ttr,
            grace_s=duration_us(grace, "grace") / SECOND,
            warn_blocked_after_s=duration_us(warn_blocked_after, "warn_blocked_after", minimum=10 * MILLISECOND)
            / SECOND,
            unknown_tasks_die_after_us=None
            if unknown_tasks_die_after is None
            else duration_us(unknown_tasks_die_after, "unknown_tasks_die_after"),
            max_jobs_per_child=None if max_jobs_per_child is None else _check_jobs(max_jobs_per_child),
            release_on_disconnect=release_on_disconnect,
        )
        self._stopping = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._task: asyncio.Task[int] | None = None
        self._idle = False
        self._runs = False

    # ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def async_client(self) -> AsyncClient:
        """Its awaited client, for ``await task.add_async`` and for async handlers."""
        return self.inner.clients.awaited

    @property
    def client(self) -> Client:
        """Its blocking client, for ``task.add`` and for handlers in threads."""
        return self.inner.clients.blocking

    @contextmanager
    def using(
        self, server: str | Client | AsyncClient, *, namespace: str | None = None, start: bool = True
    ) -> Generator[Worker]:
        """A block in which the worker works on another server, and its tasks add their jobs there: for tests.

        Give ``namespace`` only with a URL, because a client has a namespace of its own. With ``start=False``, ``async with worker`` does not start
        the worker; call ``run_until_idle`` yourself.
        """
        before = self.inner.clients, self._idle
        self.inner.clients, self._idle = clients.WorkerClients(server, namespace), not start
        try:
            yield self
        finally:
            self.inner.clients, self._idle = before

    async def close(self) -> None:
        """Closes the worker's clients, even one that it was given. The next use of the worker opens them again."""
        await self.inner.clients.close(given=True)

    # ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────

    def keep_moving(self, *queues: str) -> None:
        """While the worker runs, it also moves due elements of these queues, for consumers in Java (see
        ``Client.keep_moving``)."""
        self.inner.moved_queues = (*self.inner.moved_queues, *queues)

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Takes no new jobs; ``run`` returns when the running ones have ended. A second call ends their grace period."""
        if self._stopping.is_set():
            self._stop_now.set()
        self._stopping.set()

    async def run(self, *, signals: bool = True) -> int:
        """Works until ``stop`` is called, or, with ``signals``, until SIGTERM or SIGINT arrives. Returns how many running
        jobs had to be released.

        The worker waits for a server that does not answer. Once it has served a topic, it also waits if the server refuses writes,
        because of a full disk or a changed password. Cancelling the call releases the running jobs at once, and counts no attempt. A client
        that the worker was given stays open.

        Raises ``ServerUnfit`` or ``BadInput`` if the worker cannot start, and ``ServerUnfit`` if its work in the background fails ten
        times within a minute.
        """
        return await self._execute(signals=signals, until_idle=False)

    async def run_until_idle(self) -> int:
        """Works until nothing is due and nothing runs: for tests, and for programs that run now and then.

        The worker also does the jobs that become due meanwhile: those that a handler adds, and retries. Jobs that a rate or a pause holds
        back are left. Cancelling the call releases the running jobs at once, and counts no attempt.
        """
        return await self._execute(signals=False, until_idle=True)

    async def _execute(self, *, signals: bool, until_idle: bool) -> int:
        if process_functions.entries is not None:
            raise BadInput(
                "run: a child process imports this script for a function with run='process', and must not start a second "
                'worker; start yours under `if __name__ == "__main__":`.'
            )
        self._refuse_second_run()
        clients = self.inner.clients
        run = WorkerRun(self, clients, until_idle=until_idle)
        unregister: Callable[[], None] = lambda: None  # noqa: E731  # nothing to unregister
        if signals:
            unregister = handle_signals(self.stop, self._stopping.is_set, is_child=self.inner.is_child)
        self._runs = True
        try:
            return await run.execute(self._stopping, self._stop_now)
        finally:
            self._runs = False
            unregister()
            self._stopping, self._stop_now = asyncio.Event(), asyncio.Event()  # the next run may be in another loop
            await clients.close(given=False)

    def _refuse_second_run(self) -> None:
        if self._runs or (
            self._task is not None and not self._task.done() and self._task is not asyncio.current_task()
        ):
            raise BadInput(
                "worker: it runs already, and a second run would share its state; `async with` it once, where the application starts. "
                "More work at a time is concurrency=, and more processes are `tarry worker … --processes N`."
            )

    # ── beside an application ────────────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Worker:
        """Works beside the block's code, in the same event loop; the application handles signals.

        Leaving the block calls ``stop`` and waits for the running jobs; cancelling that wait ends their grace period. An
        error that ends the worker is logged at once, and raised when the block is left.
        """
        if self._idle:
            return self
        self._refuse_second_run()
        self._task = asyncio.create_task(self.run(signals=False))
        self._task.add_done_callback(_log_failure)
        await asyncio.sleep(0)
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        run, self._task = self._task, None
        if run is None:
            return
        if not run.done():
            self.stop()
        try:
            await asyncio.shield(run)
        except asyncio.CancelledError:
            if not run.done():
                self.stop()  # the second call: running jobs are released now
                await run
            raise


class WorkerRegistrations(Registrations):
    """The registrations of a worker, and of the registries that it includes."""

    def __init__(self, worker: Worker, naming: str) -> None:
        super().__init__()
        self.worker = worker
        self._naming = naming

    def including_worker(self) -> Worker:
        """This worker; a registry asks the worker that includes it."""
        return self.worker

    @property
    def tasks_topic(self) -> str:
        """The topic of tasks that are given none: that of its name. Raises ``BadInput`` when it has no name."""
        if self.worker.name is None:
            raise BadInput(f"task: give the worker the application's name: {self._naming}.")
        return self.worker.name

    @property
    def ttr(self) -> Duration:
        """How long its jobs are reserved, where their handler does not say."""
        return self.worker.inner.ttr

    def routes(self, outer: tuple[Middleware, ...] = ()) -> list[TopicRoute]:
        """The topics that it consumes."""
        routes, only = super().routes(outer), self.worker.inner.only
        if only is None:
            return routes
        chosen = [route for route in routes if route.topic in only]
        for route in routes:  # those that were named, and match a pattern
            named = sorted(topic for topic in only if route not in chosen and _matches(route, topic))
            chosen += [replace(route, topic=topic, is_pattern=False) for topic in named]
        return chosen

    def queue_routes(self) -> list[QueueRoute]:
        """The queues shared with Java that it consumes."""
        only = self.worker.inner.only
        return [route for route in super().queue_routes() if only is None or route.queue in only]


def topics_of(worker: Worker, known: Callable[[], Iterable[str]] = tuple) -> list[str]:
    """The topics that it consumes; of its patterns those among the known ones."""
    routes = worker.registered.routes()
    topics = [route.topic for route in routes if not route.is_pattern]
    patterns = [route for route in routes if route.is_pattern]
    return topics + [
        topic for topic in (known() if patterns else ()) if any(matches(one.topic, topic) for one in patterns)
    ]


def _matches(route: TopicRoute, topic: str) -> bool:
    """Whether it is a topic of the route's pattern, and no pattern itself."""
    return route.is_pattern and not is_pattern(topic) and matches(route.topic, topic)


def queues_of(worker: Worker) -> list[str]:
    """The queues shared with Java that it consumes."""
    return [route.queue for route in worker.registered.queue_routes()]


def override(
    worker: Worker,
    *,
    url: str | None = None,
    namespace: str | None = None,
    topics: Sequence[str] | None = None,
    concurrency: int | None = None,
    max_jobs_per_child: int | None = None,
) -> None:
    """Overrides the application's settings with those of a command line; ``None`` keeps a setting. Raises ``BadInput``."""
    routes, settings = worker.registered.routes(), worker.inner
    if topics is not None:
        known = [route.topic for route in routes] + queues_of(worker)
        for topic in topics:
            if topic not in known and not any(_matches(route, topic) for route in routes):
                raise BadInput(f"topics: no handler for {topic!r}; there are {', '.join(known) or 'none'}.")
        settings.only = frozenset(topics)
    if concurrency is not None:
        settings.slots = check_slots(concurrency)
    if max_jobs_per_child is not None:
        settings.max_jobs_per_child = _check_jobs(max_jobs_per_child)
    if url is not None or namespace is not None:
        settings.clients = settings.clients.for_server(url, namespace)


def adopt(worker: Worker, url: str | None, settings: dict[str, Any]) -> None:
    """In a child process: gives it the server and the settings of the worker's own client."""
    worker.inner.clients = clients.WorkerClients(url, settings["namespace"], settings)


def _check_name(name: str) -> str:
    if isinstance(name, (Client, AsyncClient)):
        raise BadInput('name: that is a client; write tarry.Worker("shop", client=…), with the application\'s name.')
    if isinstance(name, str) and "://" in name:
        raise BadInput('name: that is a URL; write tarry.Worker("shop", url=…), with the application\'s name.')
    names.check_name(name, "name")
    return name


def _check_server(
    url: str | None, client: Client | AsyncClient | None, namespace: str | None
) -> str | Client | AsyncClient | None:
    if url is not None and not isinstance(url, str):
        raise BadInput(f"url: {url!r} is not text; a client is given as client=.")
    if client is None:
        return url
    if not isinstance(client, (Client, AsyncClient)):
        raise BadInput(f"client: a {type(client).__name__}; it is a tarry.Client or tarry.AsyncClient.")
    if url is not None or namespace is not None:
        raise BadInput("client: it has a server and a namespace of its own; give it alone, or url= and namespace=.")
    return client


def _check_jobs(jobs: int) -> int:
    if not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1:
        raise BadInput(f"max_jobs_per_child: {jobs!r}; it is a whole number, at least 1.")
    return jobs


def _log_failure(run: asyncio.Task[int]) -> None:
    """Logs the error at once: the application may leave the block weeks later."""
    if not run.cancelled() and (fault := run.exception()) is not None:
        logger.error("✗ The worker has ended, no job is handled any more: %s", fault)
