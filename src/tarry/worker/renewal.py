"""Renews the reservations of running jobs, in a thread of its own and over a connection of its own.

    age of a job   0 ─────────── ⅓ TTR ──── ½ ─────────────── TTR
                     nothing        ▲ touched, in one call a topic, and again after a third of a TTR

A handler that blocks the event loop, or a thread that computes, so loses no reservation. The thread checks the running
jobs every sixth of a TTR. A job's age counts from the first check that saw it: it is touched after a third of its TTR, and
at half of it at the latest. Younger jobs and finished ones cost no call. The jobs of a batch have the age of its first one: all are
touched in one call.

The same thread watches the event loop: when handlers run and the loop does not answer, it logs which handler blocks it, for
how long, and where. It also sends the worker's reports (heartbeat.py), and looks whether the server has changed (server_changes.py).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tarry.clients.blocking.client import Client
from tarry.clients.config import server_verbs
from tarry.connections.background import failures, supervise
from tarry.connections.fitness import parse_info
from tarry.connections.server_changes import LOOK_EVERY_S, ServerChanges
from tarry.errors import StaleReceipt, TarryError
from tarry.values.durations import SECOND
from tarry.verbs.jobs.job_values import BaseJob
from tarry.verbs.jobs.settle import TOUCH
from tarry.verbs.workers import WorkerMode
from tarry.worker.heartbeat import WorkerReports
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.topic_consumer import TopicConsumer

logger = logging.getLogger("tarry.worker")
WORK = "tarry renewal"
CHECK_PARTS, RENEW_PARTS = 6, 3
"""In fractions of a TTR: the thread checks every sixth; a job older than a third is renewed."""
SHORTEST_INTERVAL_S, LONGEST_INTERVAL_S = 0.01, 5.0
LOG_AGAIN_S = 10.0
FRAMES = 4
"""How many frames of a blocked loop's stack are logged: the outermost of the handler, and the innermost."""
OWN_FOLDER = str(Path(__file__).parent)


class Renewal:
    """The renewal thread of one worker."""

    def __init__(
        self,
        client: Client,
        consumers: Sequence[TopicConsumer],
        outage: Outage,
        reports: WorkerReports,
        warn_blocked_after_s: float,
    ) -> None:
        self._client = client
        self._reports = reports
        self._consumers = consumers
        self._health = ServerHealth(outage)
        self._outage = outage
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._renewed: dict[BaseJob[Any], float] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._usual_interval_s = min(
            [LONGEST_INTERVAL_S, *(_interval_of(consumer) / CHECK_PARTS for consumer in consumers)]
        )
        self._interval_s = self._usual_interval_s
        self._warn_blocked_after_s = warn_blocked_after_s
        self._pinged_at: float | None = None
        self._logged_at = -LOG_AGAIN_S
        self._changes = ServerChanges()
        self._look_at = 0.0
        self._blocker = ""
        self._thread = threading.Thread(target=self._run, name=WORK, daemon=True)
        self.on_alive: Callable[[bool], None] = lambda worked: None
        """Called at each check, with whether the server has ever answered; a child sends its parent a heartbeat."""
        self.on_asked: Callable[[WorkerMode], None] = lambda mode: None
        """Called in the event loop with a mode that somebody asked the worker to take."""
        self.on_popped: Callable[[], None] = lambda: None
        """Called in the event loop when there are new jobs, before their handlers start."""
        reports.on_asked = self._asked
        outage.on_over = self._report_again

    def start(self) -> None:
        for consumer in self._consumers:
            self.watch(consumer)
        self._thread.start()

    def watch(self, consumer: TopicConsumer) -> None:
        """Renews the jobs of this one, too, which may have been added to the others later."""
        consumer.on_popped = self._on_popped
        self._usual_interval_s = min(self._usual_interval_s, _interval_of(consumer) / CHECK_PARTS)

    def announce_stop(self) -> None:
        """Reports that the worker stops: it takes no new jobs, and running ones may take a while."""
        if self._has_work():
            self._reports.stopping = True
            self._reports.report_soon()
            self._wake.set()

    async def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        await asyncio.to_thread(self._thread.join)
        self._client.close()

    def _on_popped(self, jobs: Sequence[BaseJob[Any]]) -> None:
        """Shortens the interval when a job has a shorter TTR of its own."""
        self.on_popped()
        shortest = min([job.ttr_us for job in jobs]) / SECOND / CHECK_PARTS
        if shortest < self._interval_s:
            self._interval_s = max(shortest, SHORTEST_INTERVAL_S)
            self._wake.set()

    # ── the thread ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        supervise(WORK, self._keep_renewing, self._stopping.wait)
        with failures.noted(WORK):
            self._reports.unregister()

    def _keep_renewing(self) -> None:
        while not self._stopping.is_set():  # the first check sends the first report
            self.on_alive(self._outage.ever_answered)
            self._renew_due(time.monotonic())
            self._wake.wait(
                min(self._interval_s, self._warn_blocked_after_s / 2 if self._has_work() else self._interval_s)
            )
            self._wake.clear()

    def _asked(self, mode: WorkerMode) -> None:
        self._wake.set()  # the next check reports the new mode
        self._call_in_loop(self.on_asked, mode)

    def _report_again(self) -> None:
        """The server answers again, and may have forgotten the worker meanwhile."""
        self._reports.report_soon()
        self._wake.set()

    def _has_work(self) -> bool:
        return any(consumer.running for consumer in self._consumers)

    def _renew_due(self, now: float) -> None:
        seen: dict[BaseJob[Any], float] = {}
        shortest = self._usual_interval_s
        all_renewed = True
        for consumer in self._consumers:
            old: list[BaseJob[Any]] = []
            for job in list(consumer.running):  # list() is atomic: the event loop changes it meanwhile
                ttr = job.ttr_us / SECOND
                since = seen[job] = self._renewed.get(job, seen.get(consumer.firsts.get(job, job), now))
                shortest = min(shortest, ttr / CHECK_PARTS)
                if now - since >= ttr / RENEW_PARTS and not job.settled:
                    old.append(job)
            timed_out_running = consumer.overruns  # lost for their functions, and renewed as long as these run
            old = [job for job in old if job in consumer.running and (not job.lost or job in timed_out_running)]
            if old and self._touch(consumer, old):
                seen.update(dict.fromkeys(old, time.monotonic()))
            elif old:
                all_renewed = False
        if all_renewed:
            self._health.idle()
        self._renewed = seen
        self._interval_s = max(shortest, SHORTEST_INTERVAL_S)
        self._check_loop(now)
        self._reports.report_if_due(time.monotonic())
        self._look_at_servers_if_due(time.monotonic())

    def _look_at_servers_if_due(self, now: float) -> None:
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY_S
        with suppress(TarryError):  # the next look may succeed; an outage is logged elsewhere
            found = self._client.engine.runner.ask_all(lambda server: parse_info(server.exchange(((b"INFO",),))[0]))
            for shown, info in found.items():
                self._changes.note(shown, info)

    def _touch(self, consumer: TopicConsumer, jobs: Sequence[BaseJob[Any]]) -> bool:
        try:
            self._client.engine.run(consumer.blocking.verbs.settle(TOUCH, jobs, ttr=None, counted=False))
        except StaleReceipt as fault:
            refused = set(fault.reasons)
            gone = [job for job in jobs if job.id in refused and job in consumer.running and not job.settled]
            cancelled = {job for job in gone if self._is_cancelled(consumer, job)}
            for job in gone:
                job.lost = True
            self._call_in_loop(consumer.reservations_lost, gone, cancelled)
            self._count_refusals(consumer, gone)
        except TarryError as fault:
            self._health.failed(fault)
            return False
        self._health.succeeded()
        return True

    def _count_refusals(self, consumer: TopicConsumer, gone: Sequence[BaseJob[Any]]) -> None:
        """Presents the receipts of lost jobs once more, so that the topic counts them as refused. The first time the worker itself might
        have ended the job in the same moment, which is no refusal to count."""
        if gone:
            with suppress(TarryError):
                self._client.engine.run(consumer.blocking.verbs.settle(TOUCH, gone, ttr=None))

    def _is_cancelled(self, consumer: TopicConsumer, job: BaseJob[Any]) -> bool:
        """Whether a run that is no longer reserved was cancelled. If the server does not answer, it only counts as lost."""
        try:
            [found] = self._client.engine.run(server_verbs(consumer.blocking).cancelled(job))
        except TarryError:
            return False
        return found

    def _call_in_loop(self, what: Callable[..., object], *given: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *given)
        except RuntimeError:
            pass  # the loop is closed: there is nothing left to call

    # ── the event loop's watchdog ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _check_loop(self, now: float) -> None:
        if self._pinged_at is None:
            if self._has_work():
                self._pinged_at = now
                self._call_in_loop(self._loop_answered)
            return
        silent = now - self._pinged_at
        if silent >= self._warn_blocked_after_s and now - self._logged_at >= LOG_AGAIN_S:
            self._logged_at = now
            self._blocker = self._running_handler()
            stack = "".join(_stack_of(self._loop_thread)).rstrip()
            logger.warning(
                "✗ %s blocks the event loop for %.1f s now; a plain function would run in a thread.\n%s",
                self._blocker, silent, stack,
                extra={"tarry": {"handler": self._blocker, "blocked_ms": silent * 1000, "stack": stack}},
            )  # fmt: skip

    def _loop_answered(self) -> None:
        """The event loop ran this callback: it is not blocked any more."""
        pinged_at, self._pinged_at = self._pinged_at, None
        if self._blocker and pinged_at is not None:
            logger.warning("✓ %s blocked the event loop for %.1f s.", self._blocker, time.monotonic() - pinged_at)
            self._blocker = ""

    def _running_handler(self) -> str:
        """The name of the handler whose task runs now, and its job."""
        task = asyncio.current_task(self._loop)
        for consumer in self._consumers:
            for job, runs in list(consumer.running.items()):
                if runs is task and task is not None:
                    target = consumer.target_of(job)
                    return f"{target.name} ({job.topic}/{job.id} attempt {job.attempt})"
        return "Something outside of the handlers"


def _interval_of(consumer: TopicConsumer) -> float:
    from tarry.values.durations import duration_us

    return duration_us(consumer.ttr, "ttr") / SECOND


def _stack_of(thread: int) -> list[str]:
    """The thread's stack from the handler on; of a deep stack its beginning and its end."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # Python's own, documented
    if frame is None:
        return []
    stack = list(traceback.extract_stack(frame))
    while (at := next((at for at, one in enumerate(stack) if one.filename.startswith(OWN_FOLDER)), None)) is not None:
        del stack[: at + 1]
    left_out = len(stack) - 2 * FRAMES
    if left_out <= 1:
        return traceback.format_list(stack)
    lines = traceback.format_list(stack[:FRAMES] + stack[-FRAMES:])
    return [*lines[:FRAMES], f"  … {left_out} frames …\n", *lines[FRAMES:]]
