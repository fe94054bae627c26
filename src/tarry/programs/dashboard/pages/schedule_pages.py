"""The pages of schedules: next occurrence, origin, delays; and running one now, pausing, resuming, deleting it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tarry import Schedule, Stats
from tarry.errors import BadInput
from tarry.internal import RAW, JobOptions, head_of
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.page_request import NotFound, PageRequest, view_known
from tarry.programs.dashboard.pages.job_page import body, headers
from tarry.programs.dashboard.row_lists import list_page
from tarry.programs.dashboard.sections import Action, Section
from tarry.programs.serving.conditions import LATE_AFTER

SHOWN, AHEAD = 100, 5
MISSED = {"skip": "skipped", "once": "only the latest adds a job", "all": "each adds a job"}
DAMAGED = "It cannot be read: it is damaged, or a newer version wrote it. Store it again, or delete it."
DONE = {"pause": "is paused", "resume": "is resumed", "delete": "is deleted; its jobs stay"}


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule, and the stats of its topic."""

    schedule: Schedule
    stats: Stats

    @property
    def recurrence(self) -> str:
        one = self.schedule
        return f"every {filters.exact_span(one.every)}" if one.every else one.cron or ""

    @property
    def topic_paused(self) -> bool:
        """Whether its topic is paused: then it makes no jobs."""
        return self.stats.paused_until is not None

    @property
    def topic_full(self) -> bool:
        """Whether it waits for room in its topic."""
        return self.stats.full and self.schedule.next is not None and self.schedule.next <= self.stats.now

    @property
    def overdue(self) -> bool:
        """Whether it should have made a job by now."""
        return self.schedule.next is not None and self.stats.now - self.schedule.next > LATE_AFTER


async def view(visit: PageRequest) -> dict[str, Any]:
    """All schedules, or those of a topic, by their next occurrence, damaged ones included."""
    topic_name = visit.query.get("topic", "")
    topic = visit.topic() if topic_name else None
    names = [topic_name] if topic else await visit.client.topics()
    lists = asyncio.gather(*[visit.client.schedules.list(name) for name in names])
    listed = await (view_known(topic, lists) if topic else lists)
    found = [one for some in listed for one in some]
    only = visit.parameter("only")
    if only not in ONLY:
        raise BadInput(f"only: {only[:40]!r} is unknown; it is one of {', '.join(name for name in ONLY if name)}.")
    chosen = [one for one in found if not only or getattr(one, only)]
    page = list_page(visit, chosen, size=SHOWN, text_of=_text_of, sorts=SORTS)
    topics = sorted({one.topic for one in page.shown})
    found_stats = await asyncio.gather(*[visit.client.topic(name).stats() for name in topics])
    stats = dict(zip(topics, found_stats, strict=True))
    return {
        "topic": topic_name,
        "rows": [ScheduleRow(one, stats[one.topic]) for one in page.shown],
        "count": len(found),
        "orphans": sum(one.orphaned for one in found),
        "paused": sum(one.paused for one in found),
        "page": page,
        "only": only,
        "states": ONLY,
    }


def _order(one: Schedule) -> tuple[Any, ...]:
    return one.next is None, one.next, one.topic, one.id


def _text_of(one: Schedule) -> str:
    return f"{one.id} {one.topic} {one.cron or ''}"


ONLY = ("", "paused", "orphaned", "damaged")
"""The states that the list can be limited to."""
SORTS: dict[str, Callable[[Schedule], Any]] = {
    "next": _order,
    "id": lambda one: (one.id, one.topic),
    "topic": lambda one: (one.topic, one.id),
    "last": lambda one: (one.last is None, -one.last.timestamp() if one.last else 0, one.topic, one.id),
    "jobs": lambda one: (-one.fired, one.topic, one.id),
}
"""The orders of the schedules, the default first."""


async def one(visit: PageRequest) -> dict[str, Any]:
    """One schedule: its next occurrences, its last job, its jobs' body."""
    topic = visit.topic()
    found, stats = await asyncio.gather(_get(visit, topic.name, visit.query.get("name", "")), topic.stats())
    row = ScheduleRow(found, stats)
    last = None
    if found.last is not None:
        last = await topic.get(f"{found.id}@{_stamp(found.last)}")
    try:
        ahead, unknown = found.following(AHEAD, stats.now), ""
    except BadInput as fault:
        ahead, unknown = [], str(fault)
    return {
        "topic": topic.name,
        "row": row,
        "schedule": found,
        "now": stats.now,
        "verdict": verdict(row),
        "why": explain_source(row),
        "ahead": ahead,
        "unknown": unknown,
        "last": last,
        "missed": MISSED,
        "body": body(found),
        "headers": headers(found),
    }


async def _get(visit: PageRequest, topic: str, name: str) -> Schedule:
    found = await visit.client.schedules.get(topic, name)
    if found is None:
        raise NotFound(f"{filters.plain(topic)} has no schedule {filters.plain(name)}.")
    return found


def verdict(row: ScheduleRow) -> tuple[str, str]:
    """The state of a schedule: ``good``, ``bad`` or ``calm``, and a sentence."""
    one, now = row.schedule, row.stats.now
    if one.damaged:
        return "bad", DAMAGED
    if one.paused:
        return "calm", "Paused: no more jobs until it is resumed."
    if one.next is None:
        return "bad", "It has no next occurrence."
    if row.topic_paused:
        return "calm", "Its topic is paused: no more jobs until the topic is resumed."
    if row.topic_full:
        return (
            "calm",
            f"Due {filters.span(now - one.next)} ago. It waits, because its topic is full, and tries again every five seconds.",
        )
    if row.overdue:
        return (
            "bad",
            f"Due {filters.span(now - one.next)} ago, but no consumer of its topic has popped since. The next pop adds its job.",
        )
    return "good", f"The next job comes {_until(one.next, now)}."


def _until(at: datetime, now: datetime) -> str:
    return f"in {filters.span(at - now)}" if at > now else "now"


def explain_source(row: ScheduleRow) -> str:
    """Where the schedule comes from, and why it is orphaned."""
    one, now = row.schedule, row.stats.now
    if not one.from_code or one.declared is None:
        return "A client added it; no worker's code declares it."
    age = f"{filters.span(max(now - one.declared, timedelta()))} ago"
    if one.orphaned:
        return (
            f"Orphaned: the code of the workers no longer declares it. Version {one.version} did, last {age}. It goes on adding jobs "
            "until it is deleted."
        )
    return f"A worker's code declares it: version {one.version}, last declared {age}."


def _plans(action: str) -> Callable[[PageRequest, Form], Awaitable[ActionPlan]]:
    async def plan(visit: PageRequest, form: Form) -> ActionPlan:
        topic, name = form.values.get("topic", ""), form.value("name")
        shown = f"{filters.plain(name)} of {filters.plain(topic)}"
        note = "It adds no more jobs; the jobs that it has added stay."
        found = await _get(visit, topic, name)
        if found.damaged and action != "delete":
            return ActionPlan(f"{shown}: {DAMAGED}", "", nothing_to_do=True)
        if found.paused == (action == "pause") and action != "delete":
            return ActionPlan(
                f"{shown} {'is paused already' if found.paused else 'is not paused'}.", "", nothing_to_do=True
            )
        if found.from_code and not found.orphaned:
            note += " A worker's code declares it, so it comes back within a minute while that worker runs. To stop it, pause it."
        return ActionPlan(f"{action.capitalize()} {shown}?", f"{action.capitalize()} it", note)

    return plan


def _action(action: str) -> Callable[[PageRequest, Form], Awaitable[str]]:
    async def do(visit: PageRequest, form: Form) -> str:
        topic, name = form.values.get("topic", ""), form.value("name")
        verbs = visit.client.schedules
        perform = {"pause": verbs.pause, "resume": verbs.resume, "delete": verbs.delete}[action]
        there = await perform(topic, name)
        return f"{filters.plain(name)} {DONE[action] if there else 'was gone by then'}."

    return do


def _stamp(at: datetime) -> str:
    """An occurrence as it is in its job's id: ``2026-03-29T07:00:00Z``."""
    return at.isoformat().replace("+00:00", "Z")


async def _plan_run(visit: PageRequest, form: Form) -> ActionPlan:
    topic, name = form.values.get("topic", ""), form.value("name")
    found = await _get(visit, topic, name)
    shown = f"{filters.plain(name)} of {filters.plain(topic)}"
    if found.damaged:
        return ActionPlan(f"{shown}: {DAMAGED}", "", nothing_to_do=True)
    return ActionPlan(f"Run {shown} now?", "Run it now")


async def _run(visit: PageRequest, form: Form) -> str:
    """Adds a job as the schedule does, besides its occurrences. A second press in the same second adds no second one."""
    topic = visit.client.topic(form.values.get("topic", ""))
    found, stats = await asyncio.gather(_get(visit, topic.name, form.value("name")), topic.stats())
    raw, head = found.raw, head_of(found)
    options = msgspec.structs.replace(JobOptions.of(head), if_exists="keep")
    added = await topic.add(
        raw if head.flags == RAW else msgspec.Raw(raw),
        id=f"{found.id}@now:{_stamp(stats.now.replace(microsecond=0))}",
        **msgspec.structs.asdict(options),
    )
    done = "was added" if added.is_new else "was added already"
    return f"Job {filters.plain(added.id)} {done}. The next occurrence stays as it is."


SECTIONS = (
    Section("/schedules", "schedules.html", view, title="Schedules"),
    Section("/schedule", "schedule.html", one),
)
ACTIONS = (
    Action("run-schedule", "Run now", _plan_run, _run),
    *[
        Action(f"{action}-schedule", action.capitalize(), _plans(action), _action(action), destroys=action == "delete")
        for action in DONE
    ],
)
