# Made from src/tarry/clients/awaited/schedules.py by tools/blocking.py: change that file, then `make blocking`.
"""Schedules of a client, blocking: the names of their verbs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from tarry.clients.handle_verbs import ScheduleHandleVerbs
from tarry.values.durations import Duration
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.schedule_info import Schedule, Timing
from tarry.verbs.schedules.records import Missed

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine
    from tarry.clients.blocking.topic import Topic


class Schedules:
    """Schedules: jobs that are added again and again. The clients that pop the topic add these jobs: there is no scheduler to run."""

    def __init__(self, engine: HandleEngine, verbs: ScheduleHandleVerbs) -> None:
        self._engine = engine
        self._verbs = verbs

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._engine.config.redacted}>"

    def put(
        self,
        topic: Topic[Any] | str,
        id: str,
        body: Any = None,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str = "UTC",
        first: datetime | None = None,
        missed: Missed = "once",
        ttr: Duration | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        headers: Mapping[str, str] | None = None,
        max_lateness: Duration | None = None,
        priority: int = 0,
        key: str | None = None,
    ) -> Schedule:
        """Stores or changes a schedule, which adds a job with this body every period, or by a calendar.

        ``every``  the period. Each occurrence is one period after the one before, so nothing drifts
        ``first``  when the first occurrence of ``every`` is; by default one period from now
        ``cron``, ``tz``  instead of ``every``: a calendar, such as ``"0 9 * * mon"``, and its time zone
        ``missed``  what happens to occurrences at which no client popped: ``"skip"`` adds no job if it would be more than a minute late,
                 ``"once"`` adds one job for the last of them, ``"all"`` adds one for each of the last 1,000

        The other options are those of its jobs. A job's id contains its occurrence: ``"ID@2026-03-29T07:00:00Z"``. If a change
        does not concern the times, the next occurrence stays as it was. Raises ``BadInput`` for a bad argument, and if a
        worker's code declares a schedule with this id.
        """
        timing = Timing(every=every, cron=cron, tz=tz, first=first, missed=missed)
        options = JobOptions(
            ttr=ttr, max_attempts=max_attempts, headers=headers, max_lateness=max_lateness, priority=priority, key=key
        )
        put = self._verbs.put(topic, id, body, timing, options)
        self._engine.register_topic(self._verbs.context(topic).name)
        return self._engine.run(put)

    def get(self, topic: Topic[Any] | str, id: str) -> Schedule | None:
        """The schedule as it is now, or ``None``."""
        return self._engine.run(self._verbs.get(topic, id))

    def list(self, topic: Topic[Any] | str | None = None) -> list[Schedule]:
        """All schedules of a topic, or of all known topics, sorted by their next occurrence."""
        return self._engine.run(self._verbs.list(topic))

    def pause(self, topic: Topic[Any] | str, id: str) -> bool:
        """Stops the schedule until ``resume``, even if a worker's code declares it meanwhile. Returns whether there is such a
        schedule."""
        return self._engine.run(self._verbs.set_state(topic, id, "pause"))

    def resume(self, topic: Topic[Any] | str, id: str) -> bool:
        """Continues the schedule with the next occurrence. Occurrences during the pause get no job."""
        return self._engine.run(self._verbs.set_state(topic, id, "resume"))

    def delete(self, topic: Topic[Any] | str, id: str) -> bool:
        """Deletes the schedule; its jobs stay. A schedule that a worker's code declares comes back while the worker runs."""
        return self._engine.run(self._verbs.set_state(topic, id, "delete"))
