"""How many jobs the consumer of a topic has in hand: those that run, and those that wait here for a slot; and for how long.

    slow handlers   ██████████                 as many as there are slots
    fast handlers   ██████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒   as many as it has handled in the last 50 ms, at most 1000
                    run       wait

Fast handlers would wait for the server if a pop brought no more jobs than there are slots. So while there is a backlog the
consumer takes more, about as many as it handles in 50 ms: no job waits here for long, while another worker could run it. A
``concurrency`` that the user gave is the limit of both (docs/decisions/0076-fast-handlers-take-ahead.md). While another topic
expects a job, a pop brings few: so that job is soon handed out (docs/decisions/0079-small-pops-beside-a-topic-that-waits.md).
"""

from __future__ import annotations

import math
from collections import deque

HANDLED_S = 0.05
"""How long the jobs in hand may last."""
MOST_AT_ONCE = 500
"""One pop takes no more ahead."""
LESS_AT_ONCE = 200
"""Nor more than these if another topic of the worker ever had a job: its jobs wait, on the server and in the loop, for a large pop."""
FEW_AT_ONCE = 50
"""Nor more than these, ahead or not, while another topic expects a job."""
EXPECTED_S = 1.0
"""A topic without a backlog expects another job for this time after its last one."""
FINISH_WITHIN_S = 0.05
"""While jobs wait for a slot, those that are done are finished together after this time, or with the next pop."""
LONGEST_WAIT_S = 1.0
"""Jobs that have waited here for longer are released: the handlers have become slow."""
TTR_PARTS = 4
"""Jobs are released after this fraction of their TTR, if that is sooner."""


LONGEST_TURN_S = 1800.0
"""The longest times are those of this half hour and the one before."""


class LongestTimes:
    """For how long a job of each handler was in hand at most, lately: the forecast of a topic counts with it."""

    def __init__(self) -> None:
        self.now: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self._turned_at = -math.inf

    def in_ms(self, now: float) -> dict[str, int]:
        """The longest times in milliseconds, rounded up. Called in the thread of the reports."""
        if now > self._turned_at + LONGEST_TURN_S:
            self._before, self.now, self._turned_at = self.now, {}, now
        both = (*self._before.copy().items(), *self.now.copy().items())
        found: dict[str, int] = {}
        for name, seconds in both:
            found[name] = max(found.get(name, 0), math.ceil(seconds * 1000))
        return found


class JobsInHand:
    """The limit of a consumer with ``slots``, at most ``most``. Times are monotonic seconds."""

    def __init__(self, slots: int, most: int) -> None:
        self._slots = slots
        self._most = max(slots, most)
        self.ended = 0
        """How many jobs have ended, ever."""
        self._idle_s = 0.0
        self._idle_since: float | None = None
        self._readings: deque[tuple[float, int]] = deque()
        self.came_at = -math.inf
        """When the last jobs came."""

    def became_idle(self, now: float) -> None:
        """Nothing is in hand: the time until the next jobs says nothing about the handlers."""
        self._idle_since = now

    def jobs_came(self, now: float) -> None:
        self.came_at = now
        if self._idle_since is not None:
            self._idle_s += now - self._idle_since
            self._idle_since = None

    def forget(self) -> None:
        """There is no backlog: the next one begins with as many jobs as slots."""
        self._readings.clear()

    def limit(self, now: float) -> int:
        """How many jobs it may have in hand, while there is a backlog."""
        busy_s = (now if self._idle_since is None else self._idle_since) - self._idle_s
        readings = self._readings
        readings.append((busy_s, self.ended))
        while readings[0][0] < busy_s - HANDLED_S:
            readings.popleft()
        return min(max(self._slots, self.ended - readings[0][1]), self._most)
