"""A worker keeps itself known: every ten seconds, and soon after it began, it says what it is and what it has in hand (``tarry workers``).

Called by the thread that renews (renewal.py), over its connection, after what is urgent. Nothing rests on it: a report
that fails is left out, and the next one tells.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence

from tarry import __version__
from tarry.clients.blocking.client import Client
from tarry.errors import TarryError, Unavailable
from tarry.programs.worker.topic_consumer import TopicConsumer
from tarry.verbs import workers
from tarry.verbs.workers import MOST_REPORTED_JOBS, REPORT_EVERY_S, ReportedJob, WorkerReport, WorkerTopic

logger = logging.getLogger("tarry.worker")
LONGEST_HOST = 60
FIRST_S = 2.0
"""After the first report, when it had nothing in hand yet."""
LATER_S = 60.0
"""After a report that failed: its server may take long to refuse, and renewals wait behind it."""


class Heartbeat:
    """What one worker says of itself.

    ``handlers`` are named by topic; ``slots`` are those that its topics share, ``None``: each has its own.
    """

    def __init__(
        self,
        client: Client,
        name: bytes,
        consumers: Sequence[TopicConsumer],
        handlers: Mapping[str, tuple[str, ...]],
        slots: int | None,
    ) -> None:
        self._client = client
        self._name = name
        self._consumers = consumers
        self._handlers = handlers
        self._slots = sum(consumer.slots for consumer in consumers) if slots is None else slots
        self._next_at = 0.0
        self._pause = FIRST_S
        self._since: int | None = None
        self._registered = self._logged = False
        self.stopping = False

    def report_soon(self) -> None:
        """What it says has changed: the next look tells it."""
        self._next_at = 0.0

    def report_if_due(self, now: float) -> None:
        """Says it when it is time; ``now`` is monotonic."""
        if now < self._next_at:
            return
        self._next_at, self._pause = now + min(self._pause, REPORT_EVERY_S), REPORT_EVERY_S
        self._registered = False
        try:
            self._since = self._client.engine.run(
                workers.report_worker(self._client.namespace, self._name, self._since, self._report())
            )
            self._registered = True
        except TarryError as fault:
            self._next_at = now + LATER_S
            self._log_failure(fault)

    def unregister(self) -> None:
        """A clean stop. Whoever is not heard any more is forgotten soon enough."""
        if self._registered:
            try:
                self._client.engine.run(workers.forget_worker(self._client.namespace, self._name))
            except TarryError as fault:
                self._log_failure(fault)

    def _log_failure(self, fault: TarryError) -> None:
        """An outage is told of by those whom it hurts; what else is wrong is said once."""
        passes = isinstance(fault, Unavailable) or self._since is not None  # else it may never have been allowed to
        level = logging.DEBUG if passes or self._logged else logging.WARNING
        self._logged = self._logged or level == logging.WARNING
        logger.log(level, "✗ tarry workers does not show this one: %s", fault)

    def _report(self) -> WorkerReport:
        running = [
            (consumer, list(consumer.running)) for consumer in self._consumers
        ]  # each one step of the interpreter
        held = [(job._now, consumer.topic.name, job) for consumer, jobs in running for job in jobs[:MOST_REPORTED_JOBS]]
        held.sort(key=lambda one: one[0])
        return WorkerReport(
            host=socket.gethostname()[:LONGEST_HOST],
            pid=os.getpid(),
            version=__version__,
            slots=self._slots,
            busy=sum(len(jobs) for _, jobs in running),
            stopping=self.stopping,
            topics=[
                WorkerTopic(consumer.topic.name, self._handlers[consumer.topic.name], consumer.slots, len(jobs))
                for consumer, jobs in running
            ],
            jobs=[ReportedJob(topic, job.id, job.attempt, taken) for taken, topic, job in held[:MOST_REPORTED_JOBS]],
        )
