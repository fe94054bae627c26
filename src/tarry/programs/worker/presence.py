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
from tarry.programs.worker.lane import Lane
from tarry.verbs import workers
from tarry.verbs.workers import MOST_REPORTED_JOBS, REPORT_EVERY_S, ReportedJob, WorkerReport, WorkerTopic

logger = logging.getLogger("tarry.worker")
LONGEST_HOST = 60
FIRST_S = 2.0
"""After the first report, when it had nothing in hand yet."""
LATER_S = 60.0
"""After a report that failed: its server may take long to refuse, and renewals wait behind it."""


class Presence:
    """What one worker says of itself.

    ``handlers`` are named by topic; ``slots`` are those that its topics share, ``None``: each has its own.
    """

    def __init__(
        self,
        client: Client,
        name: bytes,
        lanes: Sequence[Lane],
        handlers: Mapping[str, tuple[str, ...]],
        slots: int | None,
    ) -> None:
        self._client = client
        self._name = name
        self._lanes = lanes
        self._handlers = handlers
        self._slots = sum(lane.slots for lane in lanes) if slots is None else slots
        self._next = 0.0
        self._pause = FIRST_S
        self._since: int | None = None
        self._known = self._told = False
        self.stopping = False

    def hurry(self) -> None:
        """What it says has changed: the next look tells it."""
        self._next = 0.0

    def look(self, now: float) -> None:
        """Says it when it is time; ``now`` is monotonic."""
        if now < self._next:
            return
        self._next, self._pause = now + min(self._pause, REPORT_EVERY_S), REPORT_EVERY_S
        self._known = False
        try:
            self._since = self._client.engine.run(
                workers.report_worker(self._client.namespace, self._name, self._since, self._report())
            )
            self._known = True
        except TarryError as fault:
            self._next = now + LATER_S
            self._tell(fault)

    def leave(self) -> None:
        """A clean stop. Whoever is not heard any more is forgotten soon enough."""
        if self._known:
            try:
                self._client.engine.run(workers.forget_worker(self._client.namespace, self._name))
            except TarryError as fault:
                self._tell(fault)

    def _tell(self, fault: TarryError) -> None:
        """An outage is told of by those whom it hurts; what else is wrong is said once."""
        passes = isinstance(fault, Unavailable) or self._since is not None  # else it may never have been allowed to
        level = logging.DEBUG if passes or self._told else logging.WARNING
        self._told = self._told or level == logging.WARNING
        logger.log(level, "✗ tarry workers does not show this one: %s", fault)

    def _report(self) -> WorkerReport:
        running = [(lane, list(lane.running)) for lane in self._lanes]  # each one step of the interpreter
        held = [(job._now, lane.topic.name, job) for lane, jobs in running for job in jobs[:MOST_REPORTED_JOBS]]
        held.sort(key=lambda one: one[0])
        return WorkerReport(
            host=socket.gethostname()[:LONGEST_HOST],
            pid=os.getpid(),
            version=__version__,
            slots=self._slots,
            busy=sum(len(jobs) for _, jobs in running),
            stopping=self.stopping,
            topics=[
                WorkerTopic(lane.topic.name, self._handlers[lane.topic.name], lane.slots, len(jobs))
                for lane, jobs in running
            ],
            jobs=[ReportedJob(topic, job.id, job.attempt, taken) for taken, topic, job in held[:MOST_REPORTED_JOBS]],
        )
