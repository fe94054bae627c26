"""Taking jobs as fast as a topic lets them go."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tarry.clients.testing import Clock
from tarry.values.durations import SECOND

MINUTE = timedelta(minutes=1)


async def drain(topic: Any, clock: Clock, span: Any, n: int = 1, finish: bool = True) -> list[int]:
    """Takes whatever there is for so long; answers when each job was handed out."""
    end, moments = clock.us + round(span.total_seconds() * SECOND), []
    while clock.us < end:
        jobs = await topic.pop_many(n, wait=(end - clock.us) / SECOND)
        moments += [clock.us] * len(jobs)
        if finish:
            await topic.finish_many(jobs)
    return moments
