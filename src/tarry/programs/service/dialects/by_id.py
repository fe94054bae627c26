"""Jobs by their id alone: these dialects have one pool of ids for all topics, so all topics are asked, in one pipeline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from tarry.clients.http.wire.bodies import Body
from tarry.errors import BodyError
from tarry.verbs.codecs import JSON

if TYPE_CHECKING:
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.programs.service.request import ServiceRequest
    from tarry.verbs.jobs.models import JobInfo, StoredJob


async def topics(x: ServiceRequest) -> list[AsyncTopic[Body]]:
    """All topics of the namespace."""
    return [x.topic_named(name) for name in await x.client.topics()]


async def delete(x: ServiceRequest, id: str) -> bool:
    """The job is gone, wherever and whatever it was. Answers whether it was there."""
    return any(await asyncio.gather(*[topic.delete(id) for topic in await topics(x)]))


async def get(x: ServiceRequest, id: str) -> JobInfo[Body] | None:
    """The job, wherever it is."""
    return next((job for _, job in await find_everywhere(x, id)), None)


async def find_everywhere(x: ServiceRequest, id: str) -> list[tuple[AsyncTopic[Body], JobInfo[Body]]]:
    """The jobs with this id, and where they are. One at most, unless somebody is putting them in just now."""
    asked = await topics(x)
    found = await asyncio.gather(*[topic.engine.run(topic.verbs.get([id])) for topic in asked])  # no view
    return [(topic, job) for topic, (job,) in zip(asked, found, strict=True) if job is not None]


def text_of(body: Body) -> str:
    """A body as the text that these clients know."""
    raw, flag = body
    if flag == JSON:
        try:
            decoded = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
        else:
            return decoded if isinstance(decoded, str) else raw.decode()
    return raw.decode("utf-8", "replace")


def header_number(job: StoredJob[Body], name: str) -> int:
    """A number that an add of the same dialect kept with the job; 0 for a job of another origin, or with damaged headers."""
    try:
        text = job.headers.get(name, "")
    except BodyError:
        return 0
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
