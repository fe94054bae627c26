"""Jobs by their id alone: these dialects have one pool of ids for all topics, so all topics are asked, in one pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import msgspec

from tarry.clients.http.wire.bodies import Body
from tarry.errors import BadInput
from tarry.verbs.codecs import JSON

if TYPE_CHECKING:
    from tarry.clients.aio.topic import AsyncTopic
    from tarry.programs.service.exchange import Exchange
    from tarry.verbs.jobs.shapes import JobInfo

MOST_FIELDS = 100


async def topics(x: Exchange) -> list[AsyncTopic[Body]]:
    """All topics of the namespace."""
    return [x.another(name) for name in await x.client.topics()]


async def delete(x: Exchange, id: str) -> bool:
    """The job is gone, wherever and whatever it was. Answers whether it was there."""
    return any(await asyncio.gather(*[topic.delete(id) for topic in await topics(x)]))


async def get(x: Exchange, id: str) -> JobInfo[Body] | None:
    """The job, wherever it is."""
    return next((job for _, job in await everywhere(x, id)), None)


async def everywhere(x: Exchange, id: str) -> list[tuple[AsyncTopic[Body], JobInfo[Body]]]:
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


def header_number(headers: Mapping[str, str], name: str) -> int:
    """A number that an add of the same dialect kept with the job; 0 for a job of another origin."""
    text = headers.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def fields(text: str) -> dict[str, str]:
    """A form, or a query. Raises ``BadInput``."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
    except ValueError as fault:
        raise BadInput(f"form: it cannot be read: {fault}.") from None


def multipart(content_type: bytes, raw: bytes) -> dict[str, str]:
    """A form of many parts, as ``curl -F`` and browsers send one. Raises ``BadInput``."""
    form = message_from_bytes(b"Content-Type: %s\r\n\r\n%s" % (content_type, raw))
    if not form.is_multipart() or form.defects:
        raise BadInput("form: it cannot be read: its parts do not begin and end as its content-type says.")
    parts = form.get_payload()
    if len(parts) > MOST_FIELDS:
        raise BadInput(f"form: it has more than {MOST_FIELDS} fields.")
    return dict(_field(part) for part in parts if isinstance(part, Message))


def _field(part: Message) -> tuple[str, str]:
    name, text = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
    if not isinstance(name, str) or not isinstance(text, bytes) or part.get_filename() is not None:
        raise BadInput("form: each part is a field with a name and a text.")
    try:
        return name, text.decode()
    except UnicodeDecodeError:
        raise BadInput(f"form: {name[:40]!r} is not UTF-8.") from None
