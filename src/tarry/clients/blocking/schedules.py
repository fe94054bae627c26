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
    """Schedules, which add jobs again and again. The clients that pop the topic add them: there is no scheduler to run."""

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
        """Stores a schedule, or changes it: a job with this body ``every`` period, or by ``cron`` in the time zone ``tz``.

        The job of an occurrence has the id ``"ID@2026-03-29T07:00:00Z"``. Without ``first`` the first one of ``every`` comes
        after that time; the next is the one before and the period, nothing drifts. ``missed`` says what becomes of
        occurrences at which no client popped: ``"skip"`` (later than a minute), ``"once"`` (one job for the last), ``"all"``
        (each, the last 1,000). A change that leaves the rhythm as it is leaves the next occurrence, too.
        Raises ``BadInput``, also where a worker's code declares a schedule of this id.
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
        """All schedules of a topic, or of all known topics, by their next occurrence."""
        return self._engine.run(self._verbs.list(topic))

    def pause(self, topic: Topic[Any] | str, id: str) -> bool:
        """No more jobs until ``resume``; a deploy leaves it paused. Returns whether there is such a schedule."""
        return self._engine.run(self._verbs.set_state(topic, id, "pause"))

    def resume(self, topic: Topic[Any] | str, id: str) -> bool:
        """Continues with the next occurrence; those during the pause are left out."""
        return self._engine.run(self._verbs.set_state(topic, id, "resume"))

    def delete(self, topic: Topic[Any] | str, id: str) -> bool:
        """Deletes the schedule; its jobs stay. A schedule that a worker's code declares comes back while the worker runs."""
        return self._engine.run(self._verbs.set_state(topic, id, "delete"))
