"""Jobs by their id alone: in these dialects an id is unique over all topics, so all topics are searched, in one pipeline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tarry.errors import BodyError
from tarry.internal import perform, server_verbs

if TYPE_CHECKING:
    from tarry import AsyncTopic, JobInfo
    from tarry.internal import StoredJob
    from tarry.programs.serving.request import ServiceRequest
    from tarry.wire.bodies import Body


async def topics(request: ServiceRequest) -> list[AsyncTopic[Body]]:
    """All topics of the namespace."""
    return [request.topic_named(name) for name in await request.client.topics()]


async def delete(request: ServiceRequest, id: str) -> bool:
    """Deletes the job in whatever topic and state. Returns whether it was there."""
    return any(await asyncio.gather(*[topic.delete(id) for topic in await topics(request)]))


async def get(request: ServiceRequest, id: str) -> JobInfo[Body] | None:
    """The job, in whatever topic."""
    return next((job for _, job in await find_everywhere(request, id)), None)


async def find_everywhere(request: ServiceRequest, id: str) -> list[tuple[AsyncTopic[Body], JobInfo[Body]]]:
    """The jobs with this id, and their topics. More than one only while others add the same id."""
    searched = await topics(request)
    found = await asyncio.gather(
        *[perform(topic, server_verbs(topic).get([id])) for topic in searched]
    )  # never from a replica
    return [(topic, job) for topic, (job,) in zip(searched, found, strict=True) if job is not None]


def header_number(job: StoredJob[Body], name: str) -> int:
    """A number in a header that the dialect's add has stored; 0 for another job, or damaged headers."""
    try:
        text = job.headers.get(name, "")
    except BodyError:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
