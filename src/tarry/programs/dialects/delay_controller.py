"""``DelayController`` of Youzan's delay queue in Spring Boot: times in milliseconds, ids are whole numbers, and ``jodId`` is its spelling."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tarry.errors import BadInput
from tarry.internal import LONGEST_TTR_MS, duration_us
from tarry.programs.dialects import forms, replacement
from tarry.programs.dialects import verbs_by_id as by_id
from tarry.programs.serving.authorization import refuse_unknown_page
from tarry.programs.serving.responses import PlainResponse
from tarry.programs.serving.router import RouteTable
from tarry.wire.bodies import text_of
from tarry.wire.endpoint import CONSUME, PRODUCE, Example
from tarry.wire.types import Name

if TYPE_CHECKING:
    from tarry.programs.serving.request import ServiceRequest

Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Millis = Annotated[int, Meta(ge=0, le=2**63 - 1)]
TtrMillis = Annotated[int, Meta(ge=0, le=2**63 - 1, extra_json_schema={"allOf": [{"maximum": LONGEST_TTR_MS}]})]
TEXTS = ("topic", "message")
SUCCESS = PlainResponse(b"success", "text/plain;charset=UTF-8")
_MS = timedelta(milliseconds=1)
_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")


class DelayAdd(Struct):
    """A job; other fields of the original's class are ignored."""

    id: Long
    topic: Name
    delayTime: Millis = 0  # noqa: N815  # the original's
    ttrTime: TtrMillis = 0  # noqa: N815
    message: str | None = None


class DelayJob(Struct):
    """The answer of add: when the job is due, in milliseconds since 1970."""

    delayDate: int  # noqa: N815
    jodId: int  # noqa: N815
    topic: str


class DelayAddQuery(Struct):
    """The fields of ``DelayAdd``, given in the query."""

    id: Long | None = None
    topic: Name | None = None
    delayTime: Millis = 0  # noqa: N815
    ttrTime: TtrMillis = 0  # noqa: N815
    message: str | None = None


class DelayPop(Struct):
    """The topic to pop from."""

    topic: Name


class DelayId(Struct):
    """The job's id."""

    jobId: Long  # noqa: N815


class ReservedJob(Struct):
    """A job that was popped."""

    delayTime: int  # noqa: N815
    id: int | str
    message: str | None
    retryCount: int  # noqa: N815
    status: str
    topic: str
    ttrTime: int  # noqa: N815


def routes_of(namespace: str) -> RouteTable:
    """The routes, for jobs of a namespace."""
    table = RouteTable("delay")

    @table.route(
        "POST",
        "/delay/add",
        scopes=PRODUCE,
        body_model=DelayAdd,
        reads_body=True,
        forms=True,
        query_model=DelayAddQuery,
        returns=DelayJob,
        namespace=namespace,
        problem_codes=("wrong_media", "too_large"),
        example=Example(DelayAdd(3, "test", 10_000, 10_000, "tag:testid:3"), DelayJob(1_565_616_106_609, 3, "test")),
    )
    async def add(request: ServiceRequest) -> DelayJob:
        """Youzan's delay queue in Spring Boot: adds a job. Its fields are in the query, a form or JSON; a job with the same id is replaced."""
        payload = await _parse(request)
        request.app.authorizer.count_jobs(request.credential, 1)
        added = await replacement.replace_job(
            request,
            payload.topic,
            str(payload.id),
            payload.message,
            delay=_span(payload.delayTime, "delayTime"),
            ttr=_span(payload.ttrTime, "ttrTime") if payload.ttrTime else None,
            headers={"delayTime": str(payload.delayTime)} if payload.delayTime else {},
        )
        return DelayJob(int(added.due.timestamp() * 1000), payload.id, payload.topic)

    @table.route(
        "GET",
        "/delay/pop",
        scopes=CONSUME,
        query_model=DelayPop,
        returns=ReservedJob,
        or_null=True,
        namespace=namespace,
        answers_head=False,
        example=Example(
            answer=ReservedJob(
                delayTime=10_000,
                id=3,
                message="tag:testid:3",
                retryCount=0,
                status="RESERVED",
                topic="test",
                ttrTime=10_000,
            )
        ),
    )
    async def pop(request: ServiceRequest) -> ReservedJob | PlainResponse:
        """Youzan's delay queue in Spring Boot: pops a job that is due, or answers `null`."""
        refuse_unknown_page("GET", request.headers, request.credential)
        request.app.authorizer.count_jobs(request.credential, 1)
        jobs = await request.pop_or_give_back(request.topic_named(request.query_model.topic).pop_many(1), waits=False)
        if not jobs:
            return PlainResponse(b"null", "application/json")
        job = jobs[0]
        message = None if job.body[0] == b"null" else text_of(job.body)
        delay = by_id.header_number(job, "delayTime")
        return ReservedJob(
            delayTime=delay,
            id=_number(job.id),
            message=message,
            retryCount=job.attempt - 1,
            status="RESERVED",
            topic=job.topic,
            ttrTime=round(job.ttr / _MS),
        )

    @table.route(
        "DELETE",
        "/delay/finish",
        scopes=CONSUME,
        query_model=DelayId,
        returns=str,
        media="text/plain",
        namespace=namespace,
    )
    async def finish(request: ServiceRequest) -> PlainResponse:
        """Youzan's delay queue in Spring Boot: finishes the job, whatever worker has it now."""
        await by_id.delete(request, str(request.query_model.jobId))
        return SUCCESS

    @table.route(
        "DELETE",
        "/delay/delete",
        scopes=PRODUCE,
        query_model=DelayId,
        returns=str,
        media="text/plain",
        namespace=namespace,
    )
    async def delete(request: ServiceRequest) -> PlainResponse:
        """Youzan's delay queue in Spring Boot: deletes the job."""
        await by_id.delete(request, str(request.query_model.jobId))
        return SUCCESS

    return table


async def _parse(request: ServiceRequest) -> DelayAdd:
    given: dict[str, Any]
    if request.media() == "application/json":
        request.check_charset()
        given = {**forms.query(request), **_parse_json(await request.read())}
    else:
        given = {**await forms.fields(request)}
    return msgspec.convert(given, DelayAdd, strict=False)


def _parse_json(raw: bytes) -> dict[str, Any]:
    """Decodes as Jackson does: a number in a text field becomes text, null in a number field becomes 0."""
    found = msgspec.json.decode(raw or b"{}", type=dict[str, msgspec.Raw])
    given = {name: _text(value) if name in TEXTS else msgspec.json.decode(value) for name, value in found.items()}
    return {name: value for name, value in given.items() if value is not None}


def _text(value: msgspec.Raw) -> Any:
    decoded, text = msgspec.json.decode(value), bytes(value).decode().strip()
    return text if isinstance(decoded, (int, float)) else decoded


def _number(id: str) -> int | str:
    """The id as a number. An id that is not a number, or none that fits into Java's long, stays text."""
    if not _NUMBER.fullmatch(id) or not -(2**63) <= int(id) < 2**63:
        return id
    return int(id)


def _span(ms: int, what: str) -> timedelta:
    try:
        span = timedelta(milliseconds=ms)
        duration_us(span, what)  # an error names the original's field
        return span
    except OverflowError:
        raise BadInput(f"{what}: {ms} ms reach beyond the year 9999.") from None
