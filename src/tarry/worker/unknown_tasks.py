"""Jobs of tasks that this worker does not know: put back, and dead when no worker has known them for a day.

    popped ──▶ put back, the attempt not counted: after 0.1 s, later after the time that it has waited already, at most ten
           │   minutes, or one while a live worker knows the task
           └─▶ dead, when no live worker has known its task for ``unknown_tasks_die_after``

    a worker that knows the task starts ──▶ due now

The job's own note says since when nobody has known it and where its task was last seen, so all workers of a topic agree and a
restart forgets nothing. Its failure stays what it was. A hand-out whose job is put back does not count, neither as popped and
released nor in the lateness (lua/lib/put_backs.lua).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Container
from datetime import datetime
from typing import Any

from tarry.clients.awaited.topic import AsyncTopic
from tarry.errors import BodyError, TarryError
from tarry.values.durations import LAST_MOMENT_US, MILLISECOND, SECOND, as_datetime, as_text
from tarry.verbs.jobs.job_values import BaseJob, JobInfo
from tarry.verbs.workers import WorkerInfo, list_workers
from tarry.worker.settler import Settler
from tarry.worker.tasks import parse_envelope
from tarry.worker.verdicts import Verdict

logger = logging.getLogger("tarry.worker")
FIRST_PAUSE_US, LONGEST_PAUSE_US, LONGEST_WHILE_KNOWN_US = 100 * MILLISECOND, 600 * SECOND, 60 * SECOND
SLACK_US = 5 * SECOND
"""How long a worker may take to put a job back."""
MOST_PAGES = 20
ASK_AGAIN_S = 10.0
"""The shortest time between two requests for the live workers."""
SHOWN_S, MOST_SHOWN = 150.0, 5
"""A report of the worker contains each line for this time, and this many at most, the newest."""
MOST_LOGGED = 1000
"""A process logs so many unknown tasks of a topic, each once. A producer chooses the names of its tasks."""
NOBODY_KNOWS, NOBODY_SEEN = "nobody here knows task", "no worker that knows it was seen"
# The state is kept in the note's text, which people read too: change both together.
_NOTE = re.compile(rf"{NOBODY_KNOWS} .* since (\S+); (?:{NOBODY_SEEN}|last seen in (.*) at (\S+))$")


class UnknownTasks:
    """The unknown tasks of one topic. ``die_after_us`` is ``None`` if their jobs wait forever."""

    def __init__(self, settler: Settler, die_after_us: int | None) -> None:
        self._settler = settler
        self._die_after_us = die_after_us
        self._live: list[WorkerInfo] = []
        self._asked_at = -ASK_AGAIN_S
        self._lines: dict[str, tuple[str, float]] = {}
        self._logged: set[str] = set()

    async def put_back(self, job: BaseJob[Any], task: str) -> None:
        """Releases a job whose task nobody here knows, to wait for a worker that does; buries it once it has waited too long."""
        try:
            await self._put_back(job, task, await self._settler.read(job))
        except TarryError as fault:
            self._settler.unsettled(fault)
        job.settled = True  # it is not done, whatever came of it

    async def _put_back(self, job: BaseJob[Any], task: str, before: JobInfo[Any] | None) -> None:
        since, seen = _parse_note(before) or (job.popped_us, None)
        if (worker := await self._knows(task)) is not None:
            seen = (f"{worker.host} (process {worker.pid})", _us(worker.now))
        last = NOBODY_SEEN if seen is None else f"last seen in {seen[0]}"
        self._note(task, f"{NOBODY_KNOWS} {task!r}; {last}")
        at = "" if seen is None else f" at {as_datetime(seen[1]).isoformat()}"
        note = f"{NOBODY_KNOWS} {task!r} since {as_datetime(since).isoformat()}; {last}{at}"
        reason, error = (before and before.reason) or "", (before and before.error) or ""
        unknown_us = job.popped_us - max(since, seen[1] if seen else 0)
        if self._die_after_us is not None and unknown_us >= self._die_after_us:
            death = f"nobody has known task {task!r} for {as_text(self._die_after_us)}; {last}"
            verdict = Verdict(None, True, death, f"{reason}\n{error}".strip("\n"), note=note)
            fault = BodyError(death)
        else:
            longest = LONGEST_PAUSE_US if worker is None else LONGEST_WHILE_KNOWN_US
            pause = min(max(job.popped_us - since, FIRST_PAUSE_US), longest)
            verdict = Verdict(pause, False, reason, error, seen=False, note=note)
            fault = BodyError(note)
        await self._settler.apply(job, verdict, fault)

    def lines(self) -> tuple[str, ...]:
        """The lines of the last minutes, for the worker's report."""
        return tuple(line for _, line in self._recent())

    def names(self) -> tuple[str, ...]:
        """The tasks that the lines are about."""
        return tuple(task for task, _ in self._recent())

    def _recent(self) -> list[tuple[str, str]]:
        now = time.monotonic()
        return [(task, line) for task, (line, at) in list(self._lines.items()) if now - at < SHOWN_S]

    def _note(self, task: str, line: str) -> None:
        self._lines.pop(task, None)
        self._lines[task] = (line, time.monotonic())
        if len(self._lines) > MOST_SHOWN:
            del self._lines[next(iter(self._lines))]
        if task not in self._logged and len(self._logged) < MOST_LOGGED:
            self._logged.add(task)
            topic = self._settler.topic.name
            then = (
                "" if self._die_after_us is None else f", and dead after {as_text(self._die_after_us)} unknown to all"
            )
            logger.warning(
                "✗ %s: %s. Its jobs are put back%s.", topic, line, then, extra={"tarry": {"topic": topic, "task": task}}
            )

    async def _knows(self, task: str) -> WorkerInfo | None:
        """A live worker that has this task in this topic."""
        if time.monotonic() - self._asked_at >= ASK_AGAIN_S:
            self._asked_at = time.monotonic()
            engine = self._settler.topic.engine
            try:
                self._live = await engine.run(list_workers(engine.config.namespace))
            except TarryError:
                self._live = []  # a user without the permission: then nobody is known to know it
        topic = self._settler.topic.name
        for worker in self._live:
            if any(one.name == topic and task in one.handlers for one in worker.topics):
                return worker
        return None


async def wake_known(topic: AsyncTopic[Any], tasks: Container[str]) -> None:
    """Makes those jobs of these tasks due that were put back because nobody knew them: a worker that knows them has started. Jobs that
    it does not find come by themselves, at most ten minutes later."""
    try:
        latest_us = _us((await topic.stats()).now) + LONGEST_PAUSE_US + SLACK_US
        before, cursor = as_datetime(min(latest_us, LAST_MOMENT_US)), None
        for _ in range(MOST_PAGES):
            page = await topic.list("delayed", due_before=before, error=NOBODY_KNOWS, cursor=cursor)
            found = [job.id for job in page if _waits_for_its_task(job) and (_task_of(job) or "") in tasks]
            if found:
                await topic.reschedule_many(found, delay=0)
            cursor = page.cursor
            if cursor is None:
                return
    except TarryError as fault:
        logger.debug("✗ %s: jobs of tasks that nobody knew are not looked for: %s", topic.name, fault)


def _task_of(job: JobInfo[Any]) -> str | None:
    try:
        return parse_envelope(job).task
    except BodyError:  # replaced meanwhile
        return None


def _waits_for_its_task(job: JobInfo[Any]) -> bool:
    """Whether it is due when a worker that did not know its task put it back to, and not when somebody rescheduled it to."""
    found = _parse_note(job)
    if found is None or job.due is None or job.receipt is None:
        return False
    paused_us = _us(job.due) - job.receipt
    waited_us = job.receipt - found[0]
    return any(
        pause <= paused_us <= pause + SLACK_US
        for longest in (LONGEST_PAUSE_US, LONGEST_WHILE_KNOWN_US)
        for pause in [min(max(waited_us, FIRST_PAUSE_US), longest)]
    )


def _parse_note(job: JobInfo[Any] | None) -> tuple[int, tuple[str, int] | None] | None:
    """Since when the job's task is unknown, and where it was last seen and when, as the last worker wrote it down."""
    found = _NOTE.match((job and job.note) or "")
    if found is None:
        return None
    try:
        since, where, at = found.groups()
        return _us(datetime.fromisoformat(since)), (where, _us(datetime.fromisoformat(at))) if where else None
    except ValueError:
        return None


def _us(moment: datetime) -> int:
    return round(moment.timestamp() * SECOND)
