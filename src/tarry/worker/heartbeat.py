"""A worker reports itself to the server every ten seconds, and soon after its start: its topics and running jobs (``tarry workers``).

The renewal thread (renewal.py) sends the reports over its connection, after the renewals. A report that fails is skipped, and one follows
the end of an outage at once: meanwhile the server may have forgotten the worker. By the answer it learns that it is asked to be quiet, to
stop, or to work again: within ten seconds, and again until it reports it. Other workers read from the reports which tasks this one knows,
before a job of an unknown task is dead (unknown_tasks.py).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from time import monotonic

from msgspec import UnsetType

from tarry.clients.blocking.client import Client
from tarry.connections.background import failures
from tarry.errors import TarryError, Unavailable
from tarry.values.version import __version__
from tarry.verbs import workers
from tarry.verbs.workers import MOST_REPORTED_JOBS, REPORT_EVERY_S, ReportedJob, WorkerMode, WorkerReport, WorkerTopic
from tarry.worker.targets import Target
from tarry.worker.topic_consumer import TopicConsumer

logger = logging.getLogger("tarry.worker")
LONGEST_HOST = 60
SECOND_REPORT_S = 2.0
"""Pause after the first report, in which no job runs yet."""
UNANSWERED_S, REFUSED_S = 10.0, 60.0
"""Pauses after a report that failed. A server may take long to refuse, and renewals wait meanwhile."""


class WorkerReports:
    """The reports of one worker.

    ``handlers`` are the functions by topic; ``slots`` are those of all topics together. Consumers and handlers may be added.
    """

    def __init__(
        self,
        client: Client,
        name: bytes,
        consumers: Sequence[TopicConsumer],
        handlers: Mapping[str, Sequence[Target]],
        slots: int,
    ) -> None:
        self._client = client
        self._name = name
        self._consumers = consumers
        self._handlers = handlers
        self._slots = slots
        self._next_at = 0.0
        self._pause = SECOND_REPORT_S
        self._since: int | None = None
        self._registered = self._logged = False
        self.stopping = False
        self.mode: WorkerMode = "work"
        self.on_asked: Callable[[WorkerMode], None] = lambda mode: None
        """Called with a mode that somebody asked for, in the thread of the reports."""

    def report_soon(self) -> None:
        """The report has changed: send it with the next call of ``report_if_due``."""
        self._next_at = 0.0

    def report_if_due(self, now: float) -> None:
        """Sends a report when it is time; ``now`` is monotonic."""
        if now < self._next_at:
            return
        self._next_at, self._pause = now + min(self._pause, REPORT_EVERY_S), REPORT_EVERY_S
        self._registered = False
        try:
            self._since, asked = self._client.engine.run(
                workers.report_worker(self._client.namespace, self._name, self._since, self._report())
            )
            self._registered = True
            if asked is not None and asked != self.mode != "stop":
                self.mode = asked
                self.report_soon()
                self.on_asked(asked)
        except TarryError as fault:
            self._next_at = now + (UNANSWERED_S if isinstance(fault, Unavailable) else REFUSED_S)
            self._log_failure(fault)

    def unregister(self) -> None:
        """Removes the worker's record at a clean stop. The record of a killed worker expires."""
        if self._registered:
            try:
                self._client.engine.run(workers.forget_worker(self._client.namespace, self._name))
            except TarryError as fault:
                self._log_failure(fault)

    def _log_failure(self, fault: TarryError) -> None:
        """An outage is logged elsewhere (outage.py); any other error is logged once."""
        passes = isinstance(fault, Unavailable) or self._since is not None  # else it may lack the permission
        level = logging.DEBUG if passes or self._logged else logging.WARNING
        self._logged = self._logged or level == logging.WARNING
        logger.log(level, "✗ tarry workers does not show this one: %s", fault)

    def _report(self) -> WorkerReport:
        running = [(consumer, consumer.jobs_begun) for consumer in list(self._consumers)]
        held = [(job.popped_us, consumer, job) for consumer, jobs in running for job in jobs[:MOST_REPORTED_JOBS]]
        held.sort(key=lambda one: one[0])
        return WorkerReport(
            host=socket.gethostname()[:LONGEST_HOST],
            pid=os.getpid(),
            version=__version__,
            slots=self._slots,
            busy=sum(consumer.busy_slots(len(jobs)) for consumer, jobs in running),
            stopping=self.stopping,
            topics=[
                WorkerTopic(
                    name=consumer.topic.name,
                    handlers=tuple(target.name for target in self._handlers[consumer.topic.name]),
                    slots=consumer.slots,
                    busy=consumer.busy_slots(len(jobs)),
                    overrun=len(consumer.overruns),
                    unknown=consumer.settler.unknown_lines(),
                    unknown_tasks=consumer.settler.unknown_names(),
                    max_attempts=_max_attempts_of(self._handlers[consumer.topic.name]),
                    longest_ms=_longest_of(consumer, self._handlers[consumer.topic.name]),
                    own_slots=consumer.own_slots,
                    takes_any_body=consumer.only_target is not None,
                )
                for consumer, jobs in running
            ],
            jobs=[
                ReportedJob(consumer.topic.name, job.id, job.attempt, taken, job in consumer.overruns)
                for taken, consumer, job in held[:MOST_REPORTED_JOBS]
            ],
            mode="stop" if self.stopping else self.mode,
            restarts=failures.counts,
        )


def _longest_of(consumer: TopicConsumer, targets: Sequence[Target]) -> dict[str, int]:
    longest = consumer.longest.in_ms(monotonic())
    return {target.name: longest[target.name] for target in targets if target.name in longest}


def _max_attempts_of(targets: Sequence[Target]) -> dict[str, int | None]:
    return {target.name: most for target in targets if not isinstance(most := target.max_attempts, UnsetType)}
