"""The search over all topics: a topic by a part of its name; a job by its id, its task, or a text in its error or body.

ids        asked for in every topic
contents   topic by topic, page by page, until SEARCH_S are over or enough was found; the page links to the rest
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tarry import JobInfo
from tarry.errors import BadInput
from tarry.internal import JobSearch, check_name
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages.jobs_page import fault, preview
from tarry.programs.dashboard.sections import Section

SHOWN, TOPICS_SHOWN, PAGE, ASKED_AT_ONCE = 50, 100, 250, 200
SEARCH_S = 1.5


@dataclass(frozen=True, slots=True)
class MatchedJob:
    """A job that was found; ``where`` is task, error or body."""

    job: JobInfo[Any]
    where: str


@dataclass(frozen=True, slots=True)
class FoundJobs:
    """The jobs that were found so far. ``topic`` and ``cursor`` say where to go on; ``topic`` is ``None`` when all was read."""

    jobs: list[MatchedJob]
    scanned: int
    topic: str | None
    cursor: str | None


async def view(visit: PageRequest) -> dict[str, Any]:
    wanted = visit.parameter("q")
    if not wanted:
        return {"redirect": visit.url("/")}
    searches = {"task": JobSearch(task=wanted), "error": JobSearch(error=wanted), "body": JobSearch(text=wanted)}
    for search in searches.values():
        search.check(None)
    known = sorted(await visit.client.topics())
    at = visit.parameter("at")
    topics, jobs = list[str](), list[JobInfo[Any]]()
    if not at:
        topics = [name for name in known if wanted.lower() in name.lower()]
        jobs = await _jobs_with_id(visit, known, wanted)
    found: dict[str, Any] = {
        "wanted": wanted,
        "topics": topics[:TOPICS_SHOWN],
        "topic_count": len(topics),
        "jobs": jobs,
    }
    if len(jobs) == 1 and not topics:
        return {**found, "redirect": visit.url("/job", topic=jobs[0].topic, id=jobs[0].id)}
    if wanted in topics and not jobs:
        return {**found, "redirect": visit.url("/topic", topic=wanted)}
    by_content = await _search(visit, [name for name in known if name >= at], searches)
    return {**found, "by_content": by_content, "fault": fault, "preview": preview, "goes_on": bool(at)}


async def _jobs_with_id(visit: PageRequest, known: Sequence[str], id: str) -> list[JobInfo[Any]]:
    try:
        check_name(id, "id")
    except BadInput:
        return []
    jobs: list[JobInfo[Any]] = []
    for at in range(0, len(known), ASKED_AT_ONCE):
        requests = [visit.client.topic(name).get(id) for name in known[at : at + ASKED_AT_ONCE]]
        jobs += [job for job in await asyncio.gather(*requests) if job is not None]
    return jobs


async def _search(visit: PageRequest, topics: Sequence[str], searches: dict[str, JobSearch]) -> FoundJobs:
    """The jobs whose task is the text, or whose error or body has it, from the query's topic and cursor on."""
    loop, found, scanned, has_read = asyncio.get_running_loop(), list[MatchedJob](), 0, False
    until, cursor = loop.time() + SEARCH_S, visit.parameter("cursor") or None
    for name in topics:
        while True:
            if has_read and (len(found) >= SHOWN or loop.time() > until):
                return FoundJobs(found, scanned, name, cursor)
            page = await visit.client.topic(name).list(limit=PAGE, cursor=cursor)
            scanned, cursor, has_read = scanned + len(page), page.cursor, True
            for job in page:
                where = next((where for where, search in searches.items() if search.matches(job)), None)
                if where is not None:
                    found.append(MatchedJob(job, where))
            if cursor is None:
                break
    return FoundJobs(found, scanned, None, None)


SECTIONS = (Section("/find", "find.html", view, every_s=0),)
