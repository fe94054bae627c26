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
    """The numbers of a shared queue at one moment."""

    queue: str
    """The queue's name."""
    now: datetime
    """The moment of these numbers, by the server's clock."""
    waiting: int
    """Elements of the delayed queue, which are not in the blocking queue yet. They include the overdue ones."""
    overdue: int
    """Elements that are due, but not in the blocking queue yet. If there are more than a few for longer than a second, no process moves them."""
    ready: int
    """Elements in the blocking queue, which consumers can take."""
    poison: int
    """Elements that were set aside, because they could not be decoded."""
    leaving: int
    """Elements that ``migrate_queue`` is moving into a topic."""
    movers: int
    """How many processes of tarry move due elements, or are ready to take over: 2 at most, and 0 if no consumer uses tarry."""
    next_due: datetime | None
    """When the first waiting element is due. In the past if that element is overdue; ``None`` if no element waits."""
    format: str | None = None
    """How Redisson packs the elements: ``"Bc0Lc0"`` (from version 3.21.1) or ``"dLc0"`` (before); ``None`` if it is unknown."""

    @property
    def oldest_overdue(self) -> timedelta:
        """How late the first waiting element is; zero if it is not due yet, or if no element waits."""
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
