"""Article 004's ``DelayedTaskController``: ``/delayed/message?delay=20&value=AAAA`` offers to a queue shared with Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from tarry.programs.service.dialects import forms
from tarry.programs.service.problems import WrongMethod
from tarry.programs.service.responses import PlainResponse
from tarry.programs.service.router import PRODUCE, Example, RouteTable
from tarry.programs.service.shared_queues import open_queue
from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.elements import format_of

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest


class DelayedMessage(Struct):
    """``delay`` in whole seconds."""

    delay: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    value: str


class DelayedMessageQuery(Struct):
    """The same, where it may stand in a form."""

    delay: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    value: str | None = None


def routes_of(namespace: str, queue: str, codec: str, format: str | None = None) -> RouteTable:
    """The rows, for a queue. A token is one of the service's first namespace."""
    codec_for(codec)  # refuses an unknown one now
    if format is not None:
        format_of(format, "message_format")
    table = RouteTable("delayed")
    path, options = "/delayed/message", {"answer_model": str, "media": "text/plain", "namespace": namespace}

    async def offer(x: ServiceRequest, payload: DelayedMessage) -> PlainResponse:
        x.app.authorizer.count(x, 1)
        await open_queue(x, queue, codec, format).offer(payload.value, payload.delay)
        return PlainResponse(b"", "text/plain;charset=UTF-8")

    @table.route(
        "GET", path, scopes=PRODUCE, query_model=DelayedMessage, answers_head=False, example=Example(), **options
    )
    async def message(x: ServiceRequest) -> PlainResponse:
        """Article 004: offers a text to the delayed queue."""
        return await offer(x, x.query_model)

    @table.route(
        "POST",
        path,
        scopes=PRODUCE,
        query_model=DelayedMessageQuery,
        any_method=True,
        problem_codes=("wrong_media", "too_large"),
        **options,
    )
    async def message_by_post(x: ServiceRequest) -> PlainResponse:
        """Article 004: the same by any other method; its controller asks for none. The fields may stand in a form."""
        if x.scope["method"] == "OPTIONS":  # Spring answers it itself
            raise WrongMethod(allow="DELETE, GET, HEAD, PATCH, POST, PUT")
        return await offer(x, msgspec.convert(await forms.fields(x), DelayedMessage, strict=False))

    return table
