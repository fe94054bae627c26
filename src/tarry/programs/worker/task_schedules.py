"""Tasks that come again, as code declares them.

    @worker.every("5m")
    async def tidy() -> None: ...

    @worker.cron("0 9 * * 1-5", tz="Europe/Berlin", args={"kind": "short"})
    async def report(kind: str) -> None: ...

Each worker says what its code has when it starts, and every minute; the server keeps what the newest version that is alive says
(docs/decisions/0020-schedules-without-a-leader.md). What is no longer said is shown as orphaned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.schedule_verbs import declare_schedules, schedule_definition
from tarry.errors import BadInput, TarryError
from tarry.programs.worker.outage import Outage
from tarry.programs.worker.tasks import Task
from tarry.values.durations import Duration
from tarry.verbs.jobs.options import TOPIC_DEFAULT, JobOptions, job_options
from tarry.verbs.schedules import definitions, recurrences
from tarry.verbs.schedules.records import Missed, missed_of, new_id_of

P = ParamSpec("P")
R = TypeVar("R")
REDECLARE_S = 60.0
"""Code says so often what it has; lua/schedules/declare.lua takes it for gone after 2.5 times as long."""
RETRY_S = 5.0
logger = logging.getLogger("tarry.worker")


@dataclass(frozen=True, slots=True)
class TaskSchedule:
    """One schedule of a task."""

    task: Task[..., Any]
    id: str
    every: Duration | None
    cron: str | None
    tz: str
    missed: Missed
    body: Any
    options: JobOptions

    def definition(self, topic: AsyncTopic[Any]) -> definitions.ScheduleDefinition:
        context = topic.verbs.context
        return schedule_definition(
            context, self.id, self.body, self.every, self.cron, self.tz, None, self.missed, self.options
        )


class ScheduleDecorators:
    """The schedules of a registry, until a worker declares them."""

    def __init__(self) -> None:
        self._schedules: dict[tuple[str, str], TaskSchedule] = {}

    def every(
        self,
        period: Duration,
        *,
        args: Mapping[str, Any] | None = None,
        id: str | None = None,
        missed: Missed = "once",
        topic: str | None = None,
        ttr: Duration | None = None,
        max_attempts: int | None = TOPIC_DEFAULT,
        max_lateness: Duration | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """The task below runs every so long, with ``args``; a plain function becomes a task.

        Its schedule's name is the task's, or ``id``; a task may have several. ``missed`` says what becomes of occurrences that
        nobody was there for: ``"skip"``, ``"once"`` (one job for the last), ``"all"``. What is said here is declared when a
        worker starts. Raises ``BadInput``.
        """
        opts = job_options(0, None, "error", ttr, max_attempts, None, max_lateness)
        return self._add_schedule(topic, id, args, lambda task, name, body: TaskSchedule(
            task, name, period, None, "UTC", missed_of(missed), body, opts
        ))  # fmt: skip

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        args: Mapping[str, Any] | None = None,
        id: str | None = None,
        missed: Missed = "once",
        topic: str | None = None,
        ttr: Duration | None = None,
        max_attempts: int | None = TOPIC_DEFAULT,
        max_lateness: Duration | None = None,
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """The same by calendar: minute, hour, day, month, weekday, in a time zone."""
        opts = job_options(0, None, "error", ttr, max_attempts, None, max_lateness)
        return self._add_schedule(topic, id, args, lambda task, name, body: TaskSchedule(
            task, name, None, expression, tz, missed_of(missed), body, opts
        ))  # fmt: skip

    def _add_schedule(
        self,
        topic: str | None,
        id: str | None,
        args: Mapping[str, Any] | None,
        make: Callable[[Task[..., Any], str, Any], TaskSchedule],
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        def register(function: Callable[P, R]) -> Task[P, R]:
            task: Task[P, R] = function if isinstance(function, Task) else self._as_task(function, topic)
            if topic is not None and topic != task.topic_name:
                raise BadInput(f"topic: the task {task.name} has {task.topic_name!r}; say it there.")
            planned = make(task, id or task.name, task.checked(args or {}))
            new_id_of(planned.id)
            recurrences.make_recurrence(planned.every, planned.cron, planned.tz)
            if (task.topic_name, planned.id) in self.all_schedules():
                raise BadInput(f"schedule: {task.topic_name} has one named {planned.id!r} already; give id=.")
            self._schedules[task.topic_name, planned.id] = planned
            return task

        return register

    def _as_task(self, function: Callable[P, R], topic: str | None) -> Task[P, R]:
        raise NotImplementedError

    def all_schedules(self) -> dict[tuple[str, str], TaskSchedule]:
        """Those of the parts too."""
        raise NotImplementedError


class Declarer:
    """Says to the server what the code has, again and again."""

    def __init__(self, topics: Sequence[AsyncTopic[Any]], schedules: Sequence[TaskSchedule], outage: Outage) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._definitions = {topic.name: list[definitions.ScheduleDefinition]() for topic in topics}
        for one in schedules:
            if one.task.topic_name in self._topics:
                self._definitions[one.task.topic_name].append(one.definition(self._topics[one.task.topic_name]))
        self._server = outage.part()
        self._logged: set[str] = set()

    async def declare_once(self) -> None:
        """Before a run that ends when nothing is due: what it declares is due perhaps."""
        await self._declare()

    async def run(self, *, declared: bool) -> None:
        """For ever; where code has nothing, and had nothing, once is enough."""
        well = declared or await self._declare()
        while True:
            await asyncio.sleep(REDECLARE_S if well else RETRY_S)
            well = await self._declare()

    async def _declare(self) -> bool:
        """Answers whether the server was there."""
        for name, topic in list(self._topics.items()):
            schedules = self._definitions[name]
            try:
                if schedules:
                    await topic.engine.register_topic(name)
                found = await topic.engine.run(declare_schedules(topic.verbs, schedules))
            except TarryError as fault:
                if self._server.may_wait_for(fault):
                    self._server.tell(fault)
                    return False
                self._log_once("schedules of %s: %s", name, str(fault))
            else:
                self._server.over()
                for id in found.conflicting:
                    self._log_once("schedule %s of %s: somebody has put one of this name; delete it", id, name)
                for id in found.older:
                    self._log_once("schedule %s of %s: a newer version of it is about, which counts", id, name)
                if not found.any_from_code:
                    del self._topics[name]
        return True

    def _log_once(self, words: str, *about: str) -> None:
        if words % about not in self._logged:
            self._logged.add(words % about)
            logger.warning(words, *about)
