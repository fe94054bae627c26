"""The search: a topic by its name, a job by its id in any topic."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.errors import BadInput
from tarry.programs.dashboard.sections import Section
from tarry.programs.dashboard.visit import Visit
from tarry.values import names

AT_ONCE = 200


async def view(visit: Visit) -> dict[str, Any]:
    wanted = visit.parameter("q")
    known = await visit.client.topics()
    topics = [name for name in known if wanted and wanted.lower() in name.lower()]
    jobs = []
    if _may_be_an_id(wanted):
        for at in range(0, len(known), AT_ONCE):
            requests = [visit.client.topic(name).get(wanted) for name in known[at : at + AT_ONCE]]
            jobs += [job for job in await asyncio.gather(*requests) if job is not None]
    found: dict[str, Any] = {"wanted": wanted, "topics": topics[:AT_ONCE], "jobs": jobs}
    if len(jobs) == 1 and not topics:
        found["redirect"] = visit.url("/job", topic=jobs[0].topic, id=jobs[0].id)
    elif wanted in topics and not jobs:
        found["redirect"] = visit.url("/topic", topic=wanted)
    return found


def _may_be_an_id(text: str) -> bool:
    try:
        names.check_name(text, "id")
    except BadInput:
        return False
    return True


SECTIONS = (Section("/find", "find.html", view, every_s=10.0),)
