"""The numbers of a shared queue, and its metrics.

waiting ──(due: overdue until it is moved)──▶ ready ──▶ a consumer         set aside: poison; into a topic: leaving
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tarry.core.requests import Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.durations import MILLISECOND, as_datetime
from tarry.values.keys import QUEUE_PARTS, leaving_key
from tarry.verbs.redisson.delayed.queue_context import QueueContext

STATS = Script("redisson/delayed/queue_stats", keys=(*QUEUE_PARTS, "leaving"), read_only=True)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A shared queue at one moment, by the server's clock."""

    queue: str
    """The queue's name."""
    now: datetime
    """The moment of these numbers."""
    waiting: int
    """Elements that are not moved yet, overdue ones among them."""
    overdue: int
    """Due elements that are not moved yet: more than a few for longer than a second mean that there is no mover."""
    ready: int
    """Elements that may be taken."""
    poison: int
    """Elements and payloads that could not be decoded and were set aside."""
    leaving: int
    """Elements on their way into a topic."""
    movers: int
    """How many processes of tarry move the queue or stand by as a deputy: 2 at most, 0 if no consumer uses tarry."""
    next_due: datetime | None
    """When the first element is due, or was."""
    format: str | None = None
    """The stored format of its elements: ``"Bc0Lc0"`` (Redisson from 3.21.1) or ``"dLc0"``; ``None``: unknown."""

    @property
    def oldest_overdue(self) -> timedelta:
        """How late the first element is; zero if none is."""
        return max(self.now - self.next_due, timedelta()) if self.next_due is not None else timedelta()


def queue_stats(context: QueueContext[Any]) -> ScriptCall[QueueStats]:
    def decode(reply: Reply) -> QueueStats:
        now, waiting, overdue, ready, poison, leaving, movers, head, format = reply
        known = None if format is None else format.decode("ascii", "replace").split(" ")[0]
        due = None if head is None else as_datetime(round(float(head)) * MILLISECOND)
        return QueueStats(
            queue=context.name,
            now=as_datetime(now),
            waiting=waiting,
            overdue=overdue,
            ready=ready,
            poison=poison,
            leaving=leaving,
            movers=movers,
            next_due=due,
            format=known,
        )

    return ScriptCall(STATS, (*context.keys, leaving_key(context.keys)), (), decode)
