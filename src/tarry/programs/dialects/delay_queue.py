"""The Go implementation of Youzan's design (ouqiang/delay-queue): JSON in and out, always 200, by any method, seconds.

{"code": 0, "message": "操作成功", "data": …}       0: done, 1: not; the messages are the original's
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tarry.errors import BadInput
from tarry.internal import JSON_FAULTS
from tarry.programs.dialects import replacement
from tarry.programs.dialects import verbs_by_id as by_id
from tarry.programs.serving.router import Handler, RouteTable
from tarry.wire.bodies import text_of
from tarry.wire.endpoint import CONSUME, PRODUCE, Example, Scope

if TYPE_CHECKING:
    from tarry.programs.serving.problems import Problem
    from tarry.programs.serving.request import ServiceRequest

WAIT_S = 178
MOST_TOPICS = 100
"""As many as ``/v1/pop`` takes."""
LONGEST_DELAY_S, LONGEST_TTR_S = 2**31, 86_400
ADDED, DONE, NO_JSON = "添加成功", "操作成功", "解析json失败"
NO_ID, NO_TOPIC = "job id不能为空", "topic不能为空"
WRONG_DELAY, WRONG_TTR = "delay 取值范围1 - (2^31 - 1)", "ttr 取值范围1 - 86400"


class Push(Struct):
    """A job."""

    topic: str | None = None
    id: str | None = None
    delay: int | None = None
    ttr: int | None = None
    body: str | None = None


class PopTopics(Struct):
    """Topics, separated by commas."""

    topic: str | None = None


class JobId(Struct):
    """The job's id."""

    id: str | None = None


class NoQuery(Struct):
    """The query, which is ignored."""


class Reply(Struct):
    """``code``: 0 done, 1 not."""

    code: int
    message: str
    data: Any = None


async def push(request: ServiceRequest, payload: Push) -> Reply:
    """Youzan's design in Go: adds a job, and replaces any other with this id, in whatever topic."""
    id, topic = _trimmed(payload.id, NO_ID), _trimmed(payload.topic, NO_TOPIC)
    delay, ttr = payload.delay or 0, payload.ttr or 0
    if not 1 <= delay <= LONGEST_DELAY_S:
        return Reply(1, WRONG_DELAY)
    if not 1 <= ttr <= LONGEST_TTR_S:
        return Reply(1, WRONG_TTR)
    request.app.authorizer.count_jobs(request.credential, 1)
    await replacement.replace_job(
        request, topic, id, (payload.body or "").strip(), delay=delay, ttr=ttr, headers={"delay": str(delay)}
    )
    return Reply(0, ADDED)


async def pop(request: ServiceRequest, payload: PopTopics) -> Reply:
    """Youzan's design in Go: pops the first job of these topics; waits up to 178 s for one."""
    names = [name.strip() for name in _trimmed(payload.topic, NO_TOPIC).split(",") if name.strip()]
    if not names:
        return Reply(1, NO_TOPIC)
    if len(names) > MOST_TOPICS:
        return Reply(1, f"topic: {len(names):,} names; give at most {MOST_TOPICS}.")
    request.app.authorizer.count_jobs(request.credential, 1)
    chosen = [request.topic_named(name) for name in names]
    jobs = await request.pop_or_give_back(request.client.pop_many(*chosen, limit=1, wait=WAIT_S), waits=True)
    return Reply(0, DONE, {"id": jobs[0].id, "body": text_of(jobs[0].body)} if jobs else None)


async def finish(request: ServiceRequest, payload: JobId) -> Reply:
    """Youzan's design in Go: finishes the job, whatever worker has it now."""
    await by_id.delete(request, _trimmed(payload.id, NO_ID))
    return Reply(0, DONE)


async def delete(request: ServiceRequest, payload: JobId) -> Reply:
    """Youzan's design in Go: deletes the job."""
    await by_id.delete(request, _trimmed(payload.id, NO_ID))
    return Reply(0, DONE)


async def get(request: ServiceRequest, payload: JobId) -> Reply:
    """Youzan's design in Go: the job as it was pushed; `delay` is the second since 1970 at which it is due."""
    job = await by_id.get(request, _trimmed(payload.id, NO_ID))
    if job is None:
        return Reply(0, DONE)
    due = int(job.created.timestamp()) + by_id.header_number(job, "delay")
    ttr = round(job.ttr.total_seconds()) if job.ttr is not None else 0
    data = {"topic": job.topic, "id": job.id, "delay": due, "ttr": ttr, "body": text_of(job.body)}
    return Reply(0, DONE, data)


def routes_of(namespace: str) -> RouteTable:
    """The routes, for jobs of a namespace."""
    table, number = RouteTable("delay_queue"), "15702398321"
    kept = {"topic": "order", "id": number, "delay": 1498661265, "ttr": 120, "body": "{}"}
    routes: list[tuple[Any, frozenset[Scope], Struct, Reply]] = [
        (push, PRODUCE, Push("order", number, 3600, 120, '{"uid": 10829378}'), Reply(0, ADDED)),
        (pop, CONSUME, PopTopics("order"), Reply(0, DONE, {"id": number, "body": "{}"})),
        (finish, CONSUME, JobId(number), Reply(0, DONE)),
        (delete, PRODUCE, JobId(number), Reply(0, DONE)),
        (get, PRODUCE | CONSUME, JobId(number), Reply(0, DONE, kept)),
    ]
    for handler, may, request, answer in routes:
        table.route(
            "POST",
            f"/{handler.__name__}",
            scopes=may,
            body_model=type(request),
            reads_body=True,
            query_model=NoQuery,
            returns=Reply,
            any_method=True,
            problem_answer=_error_reply,
            namespace=namespace,
            example=Example(request, answer),
        )(_with_body(handler, type(request)))
    return table


def _error_reply(problem: Problem) -> Reply:
    """A problem as this dialect's reply: its clients accept no other status than 200."""
    return Reply(1, problem.detail)


def _with_body(handler: Any, model: type[Struct]) -> Handler:
    @wraps(handler)
    async def given(request: ServiceRequest) -> Reply:
        reply: Reply = await handler(request, _read(await request.read(), model))
        return reply

    return given


def _read(raw: bytes, model: Any) -> Any:
    """Decodes as Go does: names in any case; unknown ones are ignored."""
    try:
        found = msgspec.json.decode(raw, type=dict[str, Any])
        return msgspec.convert({name.lower(): value for name, value in found.items()}, model)
    except JSON_FAULTS:
        raise BadInput(NO_JSON) from None


def _trimmed(text: str | None, missing: str) -> str:
    found = (text or "").strip()
    if not found:
        raise BadInput(missing)
    return found
