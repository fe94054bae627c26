"""Counts and lateness of each topic, logged every ten seconds at INFO when something happened."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tarry.verbs.jobs.models import BaseJob

logger = logging.getLogger("tarry.worker")
LOG_EVERY_S = 10.0


class Tally:
    """The counters of one topic since its last log line."""

    __slots__ = ("dead", "done", "late_us", "lost", "overrun", "retried", "taken", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._reset()

    def _reset(self) -> None:
        self.taken = self.done = self.retried = self.dead = self.lost = self.overrun = self.late_us = 0

    def add_taken(self, jobs: Sequence[BaseJob[Any]]) -> None:
        self.taken += len(jobs)
        first = jobs[0]  # the one with the earliest due time
        late = first._now - first._due
        if late > self.late_us:
            self.late_us = late

    def log(self, running: int) -> None:
        """Logs the counters and resets them; logs nothing if nothing happened."""
        if not (self.taken or self.done or self.retried or self.dead or self.overrun):
            return
        fields = {
            "topic": self.topic, "taken": self.taken, "done": self.done, "again": self.retried, "dead": self.dead,
            "lost": self.lost, "overrun": self.overrun, "running": running,
            "late_max_ms": self.late_us / 1000,
        }  # fmt: skip
        logger.info(
            "∑ %s: %d taken, %d done, %d again, %d dead%s, %d running, at most %.1f ms late",
            self.topic, self.taken, self.done, self.retried, self.dead,
            f", {self.overrun} overran" if self.overrun else "", running, self.late_us / 1000,
            extra={"tarry": fields},
        )  # fmt: skip
        self._reset()
