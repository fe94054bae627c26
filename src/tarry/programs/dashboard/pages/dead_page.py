"""The dead jobs of a topic, grouped by what went wrong; and their export, a line of JSON for each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from tarry import AsyncTopic, JobPage
from tarry.internal import JobSearch
from tarry.programs.dashboard.dead_scans import DeadScans
from tarry.programs.dashboard.page_request import PageRequest, view_known
from tarry.programs.dashboard.sections import Download, Section
from tarry.wire.answers import JOB

SHOWN, EXPORTED_AT_ONCE = 100, 500


async def view(visit: PageRequest) -> dict[str, Any]:
    topic, search = visit.topic(), visit.search()
    search.check("dead")
    stats = await view_known(topic, topic.stats())
    found = await visit.dashboard.shared_part(DeadScans).of(topic, stats.dead, search)
    return {
        "topic": topic.name,
        "stats": stats,
        "search": search,
        "given": search.given(),
        "found": found,
        "shown": SHOWN,
        "matching": sum(group.count for group in found) + found.ungrouped,
    }


async def export(visit: PageRequest) -> Response:
    """The jobs as the HTTP API and ``tarry dead --json --jobs`` show them."""
    topic, search = visit.topic(), visit.search()
    search.check("dead")
    first = await view_known(topic, topic.list("dead", **search.given(), limit=EXPORTED_AT_ONCE))
    return StreamingResponse(
        _lines(topic, search, first),
        media_type="application/jsonl",
        headers={"content-disposition": 'attachment; filename="dead-jobs.jsonl"'},
    )


async def _lines(topic: AsyncTopic[Any], search: JobSearch, page: JobPage[Any]) -> AsyncIterator[bytes]:
    """Page by page; if the server is lost the download breaks off."""
    while True:
        yield b"".join(msgspec.json.encode(JOB.dump(job)) + b"\n" for job in page)
        if page.cursor is None:
            return
        page = await topic.list("dead", **search.given(), limit=EXPORTED_AT_ONCE, cursor=page.cursor)


SECTIONS = (Section("/dead", "dead.html", view, every_s=2.0),)
DOWNLOADS = (Download("/dead.jsonl", export),)
