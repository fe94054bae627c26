"""Jobs by their id alone: these dialects have one pool of ids for all topics, so all topics are asked, in one pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec

from tarry.clients.http.bodies import Body
from tarry.errors import BadInput
from tarry.verbs.codecs import JSON

if TYPE_CHECKING:
    from tarry.clients.aio.topic import AsyncTopic
    from tarry.programs.service.exchange import Exchange
    from tarry.verbs.jobs.shapes import Added, JobInfo

FOR_EVER = None
"""These systems hand a job out again and again, until somebody finishes it."""


async def topics(x: Exchange) -> list[AsyncTopic[Body]]:
    """All topics of the namespace."""
    return [x.another(name) for name in await x.client.topics()]


async def put(x: Exchange, topic: str, id: str, text: Any, **options: Any) -> Added:
    """Puts a job in, in the place of any other with this id, in whatever topic.

    In first, then out of the others: if this process dies between the two, the caller, who has no answer, asks again.
    """
    place = x.another(topic)
    body = (msgspec.json.encode(text), JSON)
    added = await place.add(body, id=id, if_exists="replace", max_attempts=FOR_EVER, **options)
    others = [other for other in await topics(x) if other.name != topic]
    await asyncio.gather(*[other.delete(id) for other in others])
    return added


async def delete(x: Exchange, id: str) -> bool:
    """The job is gone, wherever and whatever it was. Answers whether it was there."""
    return any(await asyncio.gather(*[topic.delete(id) for topic in await topics(x)]))


async def get(x: Exchange, id: str) -> JobInfo[Body] | None:
    """The job, wherever it is."""
    found = await asyncio.gather(*[topic.get(id) for topic in await topics(x)])
    return next((job for job in found if job is not None), None)


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


def header_number(headers: Mapping[str, str], name: str) -> int:
    """A number that an add of the same dialect kept with the job; 0 for a job of another origin."""
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def fields(text: str) -> dict[str, str]:
    """A form, or a query. Raises ``BadInput``."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError as fault:
        raise BadInput(f"form: it cannot be read: {fault}.") from None
