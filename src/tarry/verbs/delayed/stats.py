"""What a shared queue tells of itself, and which of it is worth a metric.

waiting ──(due: overdue until it is moved)──▶ ready ──▶ whoever takes it         poison, leaving: beside the way
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tarry.core.requests import Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.durations import MILLISECOND, as_datetime
from tarry.values.keys import QUEUE_PARTS, leaving_key
from tarry.verbs.delayed.context import QueueContext

STATS = Script("delayed/stats", keys=(*QUEUE_PARTS, "leaving"), read_only=True)


@dataclass(frozen=True, slots=True)
class QueueStats:
    """A shared queue at one moment, by the server's clock."""

    queue: str
    now: datetime
    waiting: int
    """Elements that are not moved yet, overdue ones among them."""
    overdue: int
    """Those that are due and not moved: more than a few for longer than a second mean that nobody moves."""
    ready: int
    """Elements that may be taken."""
    poison: int
    """What could not be read or handled and was set aside."""
    leaving: int
    """Elements on their way into a topic."""
    movers: int
    """Processes that have promised to look: the mover and its deputy. 0: nobody consumes it with tarry."""
    next_due: datetime | None
    """When the first element is due, or was."""
    format: str | None = None
    """Of its elements, as it is remembered: ``"Bc0Lc0"`` (Redisson from 3.21.1) or ``"dLc0"``; ``None``: nobody knows."""

    @property
    def oldest_overdue(self) -> timedelta:
        """How late the first element is; nothing if none is."""
        return max(self.now - self.next_due, timedelta()) if self.next_due is not None else timedelta()


GAUGES: dict[str, tuple[str, Callable[[QueueStats], float]]] = {
    "tarry_queue_waiting": ("Elements of a shared queue that are not moved yet.", lambda now: now.waiting),
    "tarry_queue_overdue": ("Elements that are due and not moved.", lambda now: now.overdue),
    "tarry_queue_ready": ("Elements that may be taken.", lambda now: now.ready),
    "tarry_queue_poison": ("What could not be read or handled and was set aside.", lambda now: now.poison),
    "tarry_queue_leaving": ("Elements on their way into a topic.", lambda now: now.leaving),
    "tarry_queue_movers": ("Processes that have promised to look: two at most.", lambda now: now.movers),
    "tarry_queue_oldest_overdue_seconds": (
        "How late the first element is that is not moved; 0 without one.",
        lambda now: now.oldest_overdue.total_seconds(),
    ),
}
"""The metrics of a shared queue: name, help, value. Each has the label ``queue``."""


def queue_stats(context: QueueContext[Any]) -> ScriptCall[QueueStats]:
    def decode(reply: Reply) -> QueueStats:
        now, waiting, overdue, ready, poison, leaving, movers, head, format = reply
        known = None if format is None else format.decode("ascii", "replace").split(" ")[0]
        due = None if head is None else as_datetime(round(float(head)) * MILLISECOND)
        return QueueStats(context.name, as_datetime(now), waiting, overdue, ready, poison, leaving, movers, due, known)

    return ScriptCall(STATS, (*context.keys, leaving_key(context.keys)), (), decode)
