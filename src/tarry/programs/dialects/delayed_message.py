"""``DelayedTaskController`` of Spring Boot on Redisson: ``/delayed/message?delay=20&value=AAAA`` offers to a queue shared with Java."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from tarry.internal import NamespaceVerbs
from tarry.programs.dialects import forms
from tarry.programs.serving.authorization import refuse_unknown_page
from tarry.programs.serving.problems import WrongMethod
from tarry.programs.serving.responses import PlainResponse
from tarry.programs.serving.router import RouteTable
from tarry.wire.endpoint import PRODUCE, Example

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest


class DelayedMessage(Struct):
    """``delay`` in whole seconds."""

    delay: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    value: str


class DelayedMessageQuery(Struct):
    """The same fields, optional in the query because a form may have them."""

    delay: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    value: str | None = None


def routes_of(namespace: str, queue: str) -> RouteTable:
    """The routes, for a queue. Tokens are those of the service's first namespace. Raises ``BadInput``."""
    NamespaceVerbs(namespace).check_shared_name(queue, "queue")
    table = RouteTable("delayed")
    path, options = "/delayed/message", {"returns": str, "media": "text/plain", "namespace": namespace}

    async def offer(request: ServiceRequest, payload: DelayedMessage) -> PlainResponse:
        refuse_unknown_page(request.scope["method"], request.headers, request.credential)
        request.app.authorizer.count_jobs(request.credential, 1)
        await request.app.clients[namespace].delayed_queue(queue).offer(payload.value, payload.delay)
        return PlainResponse(b"", "text/plain;charset=UTF-8")

    @table.route(
        "GET", path, scopes=PRODUCE, query_model=DelayedMessage, answers_head=False, example=Example(), **options
    )
    async def message(request: ServiceRequest) -> PlainResponse:
        """A controller of Spring Boot on Redisson: offers a text to the delayed queue."""
        return await offer(request, request.query_model)

    @table.route(
        "POST",
        path,
        scopes=PRODUCE,
        query_model=DelayedMessageQuery,
        any_method=True,
        problem_codes=("wrong_media", "too_large"),
        **options,
    )
    async def message_by_post(request: ServiceRequest) -> PlainResponse:
        """A controller of Spring Boot on Redisson: the same with any other method. The fields may be in a form."""
        if request.scope["method"] == "OPTIONS":  # Spring answers it itself
            raise WrongMethod(allow="DELETE, GET, HEAD, PATCH, POST, PUT")
        return await offer(request, msgspec.convert(await forms.fields(request), DelayedMessage, strict=False))

    return table
