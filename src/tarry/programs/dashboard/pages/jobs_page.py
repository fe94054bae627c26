"""The list of a topic's jobs, by state and window of due times, in pages."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from tarry import AsyncTopic, JobInfo, JobPage
from tarry.errors import BodyError
from tarry.internal import JobSearch, perform, server_verbs
from tarry.programs.dashboard.explanations import failure
from tarry.programs.dashboard.lifecycle import JOB_ACTIONS, actions_for
from tarry.programs.dashboard.page_request import FILTERS, STATES, PageRequest, parse_moment, view_known
from tarry.programs.dashboard.sections import Section
from tarry.types import StateFilter

SHOWN = 50
PREVIEW = 120
SEARCH_S = 1.0
WITHOUT_DUE = ("reserved", "dead", "finished")
"""The states whose jobs have no due time: a window does not apply to them."""


async def view(visit: PageRequest) -> dict[str, Any]:
    topic, state = visit.topic(), visit.state()
    states = (state,) if state else STATES
    stats = await view_known(topic, topic.stats())
    after, before = (
        parse_moment(visit.parameter("after"), stats.now, "after"),
        parse_moment(visit.parameter("before"), stats.now, "before"),
    )
    has_due, has_window = state not in WITHOUT_DUE, after is not None or before is not None
    is_window_ignored = has_window and not has_due
    if is_window_ignored:
        after, before, has_window = None, None, False
    search = visit.search()
    page = await _read(topic, state, after, before, search, visit.parameter("cursor") or None)
    if search.check(state):
        count = len(page)
    elif has_window:
        count = await perform(visit.client, server_verbs(topic).count_due_between(stats.now, state, after, before))
    else:
        count = sum(stats.finished_kept if name == "finished" else getattr(stats, name) for name in states)
    possible = {action for name in states for action in actions_for(name)}
    if (has_window or search.given()) and state is None:
        possible = {"reschedule", "delete"} if has_window else {"delete"}
    return {
        "topic": topic.name,
        "stats": stats,
        "state": state or "",
        "states": FILTERS,
        "has_due": has_due,
        "is_window_ignored": is_window_ignored,
        "after": visit.parameter("after") if has_due else "",
        "before": visit.parameter("before") if has_due else "",
        "after_at": after,
        "before_at": before,
        "count": count,
        "search": search,
        "given": search.given(),
        "scanned": page.scanned,
        "jobs": page.jobs,
        "preview": preview,
        "fault": fault,
        "has_faults": any(job.reason or job.note for job in page.jobs),
        "cursor": page.cursor,
        "bulk": [action for action in JOB_ACTIONS if action in possible],
    }


async def _read(
    topic: AsyncTopic[Any],
    state: StateFilter | None,
    after: datetime | None,
    before: datetime | None,
    search: JobSearch,
    cursor: str | None,
) -> JobPage[Any]:
    """A page; of a search as many pages as can be read in a moment, until there are enough jobs."""
    loop, found, scanned = asyncio.get_running_loop(), list[JobInfo[Any]](), 0
    until = loop.time() + SEARCH_S
    while True:
        page = await topic.list(
            state, due_after=after, due_before=before, **search.given(), limit=SHOWN - len(found), cursor=cursor
        )
        found, scanned, cursor = [*found, *page], scanned + page.scanned, page.cursor
        if cursor is None or len(found) == SHOWN or not search.given() or loop.time() > until:
            return JobPage(tuple(found), cursor, scanned)


def fault(job: JobInfo[Any]) -> str:
    """The last failure, and the note, in one line."""
    return "; ".join(filter(None, (failure(job) if job.reason else "", job.note)))


def preview(job: JobInfo[Any]) -> str:
    """The beginning of a body."""
    try:
        raw = job.raw[:PREVIEW]
    except BodyError:
        return "(damaged, or of a newer version)"
    try:
        text = raw.decode()
    except UnicodeDecodeError as fault:
        if fault.start < len(raw) - 3:
            return raw[: PREVIEW // 4].hex(" ")
        text = raw[: fault.start].decode()
    return text + "…" if len(job.raw) > PREVIEW else text


SECTIONS = (Section("/jobs", "jobs.html", view, every_s=3.0),)
