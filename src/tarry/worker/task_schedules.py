"""Schedules of tasks, declared in code.

    @worker.every("5m")
    async def tidy() -> None: ...

    @worker.cron("0 9 * * 1-5", tz="Europe/Berlin", args={"kind": "short"})
    async def report(kind: str) -> None: ...

Each worker declares the schedules of its code when it starts, and every minute. The server keeps those of the newest
version that is alive (docs/decisions/0020-schedules-without-a-leader.md), and shows the others as orphaned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Never

from msgspec import UNSET, UnsetType, structs

from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.config import server_verbs
from tarry.clients.schedule_verbs import declare_schedules, schedule_definition
from tarry.connections.background import failures
from tarry.errors import BadInput, TarryError
from tarry.values.durations import Duration
from tarry.values.other_words import MISSING, OF_HANDLERS, hide_others, refuse_others
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.schedule_info import Timing
from tarry.verbs.schedules import definitions, recurrences
from tarry.verbs.schedules.records import Missed, id_of, missed_of
from tarry.worker import handlers
from tarry.worker.outage import Outage, ServerHealth
from tarry.worker.tasks import Task, TaskDecorator

REDECLARE_S = 60.0
"""How often code is declared; lua/schedules/declare.lua takes its schedules for gone after 2.5 times as long."""
RETRY_S = 5.0
MOST_AT_ONCE = 100
"""So many topics' schedules are declared at the same time."""
logger = logging.getLogger("tarry.worker")


@dataclass(frozen=True, slots=True)
class TaskSchedule:
    """One schedule of a task."""

    task: Task[..., Any, Any]
    id: str
    timing: Timing
    body: Any
    options: JobOptions

    @property
    def key(self) -> tuple[str, str]:
        """Its topic and its id."""
        return self.task.inner.known_topic, self.id

    def definition(self, topic: AsyncTopic[Any]) -> definitions.ScheduleDefinition:
        return schedule_definition(topic.verbs.context, self.id, self.body, self.timing, self.options)


class ScheduleDecorators:
    """The decorators of schedules: a registry has them."""

    @hide_others
    def every(
        self,
        period: Duration,
        *others: Never,
        args: Mapping[str, Any] | None = None,
        id: str | None = None,
        missed: Missed = "once",
        topic: str | None = None,
        ttr: Duration | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        headers: Mapping[str, str] | None = None,
        max_lateness: Duration | None = None,
        priority: int = 0,
        key: str | None = None,
        **words: Never,
    ) -> TaskDecorator:
        """Adds a job of the decorated task once in each period, with the arguments ``args``. A function that is no task yet becomes one.

        The worker declares this schedule when it starts. The schedule's id is ``id``, or else the task's name. Give ids if a task has
        several schedules. ``missed`` says what happens to occurrences at which no worker ran: ``"skip"`` adds no job, ``"once"`` one
        job for the last occurrence, ``"all"`` a job for each. Raises ``BadInput``.
        """
        if others or words or period is MISSING:
            refuse_others(ScheduleDecorators.every, self, OF_HANDLERS, others, words)
        handlers.refuse_bare(period, '@worker.every("5m")')
        options = JobOptions(
            ttr=ttr, max_attempts=max_attempts, headers=headers, max_lateness=max_lateness, priority=priority, key=key
        )
        return self._schedule(topic, id, args, Timing(every=period, missed=missed), options)

    @hide_others
    def cron(
        self,
        expression: str,
        *others: Never,
        tz: str = "UTC",
        args: Mapping[str, Any] | None = None,
        id: str | None = None,
        missed: Missed = "once",
        topic: str | None = None,
        ttr: Duration | None = None,
        max_attempts: int | UnsetType | None = UNSET,
        headers: Mapping[str, str] | None = None,
        max_lateness: Duration | None = None,
        priority: int = 0,
        key: str | None = None,
        **words: Never,
    ) -> TaskDecorator:
        """Adds a job of the decorated task at the times of a cron expression: minute, hour, day, month and weekday, in the time zone ``tz``.
        The other options are those of ``every``."""
        if others or words or expression is MISSING:
            refuse_others(ScheduleDecorators.cron, self, OF_HANDLERS, others, words)
        handlers.refuse_bare(expression, '@worker.cron("0 9 * * 1-5")')
        options = JobOptions(
            ttr=ttr, max_attempts=max_attempts, headers=headers, max_lateness=max_lateness, priority=priority, key=key
        )
        return self._schedule(topic, id, args, Timing(cron=expression, tz=tz, missed=missed), options)

    def _schedule(
        self,
        topic: str | None,
        id: str | None,
        args: Mapping[str, Any] | None,
        timing: Timing,
        options: JobOptions,
    ) -> TaskDecorator:
        missed_of(timing.missed)
        options.encode()

        def register(function: Callable[..., Any]) -> Any:
            task: Task[..., Any, Any] = function if isinstance(function, Task) else self._as_task(function, topic)
            if topic is not None and topic != task.inner.known_topic:
                place = f"in {task.inner.known_topic!r}" if task.inner.known_topic else "in the topic of its worker"
                raise BadInput(f"topic: the task {task.name} is {place}; give topic= to @task.")
            body, of_job = task.inner.checked_body(args or {}), options
            if of_job.key is None:
                of_job = structs.replace(options, key=task.inner.key(**(args or {})))
            schedule = TaskSchedule(task, id or task.name, timing, body, of_job)
            id_of(schedule.id)
            recurrences.make_recurrence(timing.every, timing.cron, timing.tz)
            self._add_schedule(schedule)
            return task

        return register

    def _as_task(self, function: Callable[..., Any], topic: str | None) -> Task[..., Any, Any]:
        raise NotImplementedError

    def _add_schedule(self, schedule: TaskSchedule) -> None:
        raise NotImplementedError


class ScheduleDeclarer:
    """Declares the code's schedules to the server, again and again."""

    def __init__(self, topics: Sequence[AsyncTopic[Any]], schedules: Sequence[TaskSchedule], outage: Outage) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._definitions = {topic.name: list[definitions.ScheduleDefinition]() for topic in topics}
        for one in schedules:
            if one.task.topic_name in self._topics:
                self._definitions[one.task.topic_name].append(one.definition(self._topics[one.task.topic_name]))
        self._health = ServerHealth(outage)
        self._logged: set[str] = set()

    async def declare_once(self) -> None:
        """For a run that ends when nothing is due: a schedule may make a job that is due."""
        await self._declare()

    async def run(self, *, declared: bool) -> None:
        """Declares forever. A topic that has no schedules from code is declared once."""
        while True:
            try:
                answered = declared or await self._declare()
            except Exception as fault:  # noqa: BLE001  # whatever it is, they are declared again
                failures.note("tarry schedules", fault)
                answered = False
            declared = False
            await asyncio.sleep(REDECLARE_S if answered else RETRY_S)

    async def _declare(self) -> bool:
        """Declares all topics once, those with schedules first. Returns whether the server answered."""
        names = sorted(self._topics, key=lambda name: not self._definitions[name])
        for at in range(0, len(names), MOST_AT_ONCE):
            if not all(await asyncio.gather(*map(self._declare_topic, names[at : at + MOST_AT_ONCE]))):
                return False
        return True

    async def _declare_topic(self, name: str) -> bool:
        topic, schedules = self._topics[name], self._definitions[name]
        try:
            if schedules:
                await topic.engine.register_topic(name)
            found = await topic.engine.run(declare_schedules(server_verbs(topic), schedules))
        except TarryError as fault:
            if self._health.should_retry(fault):
                self._health.failed(fault)
                return False
            self._log_once("schedules of %s: %s", name, str(fault))
        else:
            self._health.succeeded()
            for id in found.conflicting:
                self._log_once(
                    "schedule %s of %s: one with this id was put by hand; delete it, or give id=",
                    id,
                    name,
                )
            for id in found.older:
                self._log_once("schedule %s of %s: a worker with a newer version of it runs; that one counts", id, name)
            if not found.any_from_code:
                del self._topics[name]
        return True

    def _log_once(self, message: str, *args: str) -> None:
        if message % args not in self._logged:
            self._logged.add(message % args)
            logger.warning(message, *args)
