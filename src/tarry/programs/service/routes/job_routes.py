"""Routes for jobs: add, pop, settle, and verbs by id, of one job or of many (one request, and a script for each thousand).

The nonce of a job that is added is made of the ``Idempotency-Key``, so a repeated request adds nothing while the job exists.
Once the job was finished or deleted its nonce is gone, and the request adds it again; of one that says ``once`` the nonce is found in the
record of the finished job, too, as long as the topic keeps it.

key, no id      the id is made of the key: the same key finds the same job
key and id      the id is the caller's; the nonce distinguishes a repeated request from another caller's job
many            each job's nonce and id are made of the key and the job's position in the request
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tarry import Added, AsyncTopic, NewJob
from tarry.errors import BadInput, BodyError
from tarry.internal import JSON, RAW, JobOptions, on_behalf_of, perform, server_verbs
from tarry.programs.service.redisson.queue_elements import wait_seconds
from tarry.programs.serving import idempotency
from tarry.programs.serving.problems import UnknownJob, WrongMedia
from tarry.programs.serving.responses import PlainResponse, Response
from tarry.programs.serving.router import RouteTable
from tarry.wire import bodies
from tarry.wire import job_models as models
from tarry.wire.endpoints import by_id_endpoints as by_id
from tarry.wire.endpoints import job_endpoints as jobs
from tarry.wire.endpoints import settle_endpoints as settle

if TYPE_CHECKING:
    from tarry import AsyncJob, JobInfo
    from tarry.internal import Operation
    from tarry.programs.serving.request import ServiceRequest
    from tarry.types import State

table = RouteTable("jobs")
many = RouteTable("many")
_FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
_FIELD = re.compile(r"[!-~\xa1-\xff]([\t -~\xa0-\xff]*[!-~\xa1-\xff])?")
MOST_BYTES = 64 << 20
"""The most bytes of the bodies in one answer, also of a job that is asked for several times."""
READ_FIRST, STEP_BYTES, MOST_READ = 16, 4 << 20, 64
"""How many jobs are read first; then about how many bytes at a time, if the jobs are of one size; and the most jobs at a time."""
FOREIGN_BODY_HEADERS = ((b"x-content-type-options", b"nosniff"), (b"content-security-policy", b"sandbox"))
"""A body is foreign content: no browser may run it in the origin of this service."""


@table.handles(jobs.ADD)
async def add(request: ServiceRequest) -> Added | Response:
    """Adds a job, to be handed out after a delay or at a moment.

    A body of any other type than JSON is the job's body itself, stored with its type; its options are in the query.
    With the header `Idempotency-Key` a repeated request adds nothing as long as the job exists, in whatever state, and is
    answered like the first, with 201. Another request with the same key is refused as `key_reused`, unless it
    says `keep`, `once`, `replace` or `update`. Once the job was finished or deleted, the request adds it again; one that
    says `once` does not while the topic keeps the job's end. A key belongs to its token.
    """
    payload: models.Add | models.AddQuery
    headers: Mapping[str, str] | None
    is_plain = b"content-type" in request.headers and request.headers[b"content-type"] == b"application/json"
    media = "" if is_plain else request.media()
    if media == "application/json" or not media:
        if request.query_model is not request.route.empty_query and request.query_model != models.AddQuery():
            raise BadInput("query: put the options of a JSON request into its body.")
        if not is_plain:
            request.check_charset()
        job: models.Add = request.route.decode(await request.read())
        payload, body, headers = job, bodies.body_of(job.body, job.body_base64, job.coded), job.headers
    elif media in _FORM_TYPES:
        raise WrongMedia
    else:
        body, payload = (await request.read(), RAW), request.query_model
        headers = {bodies.MEDIA: request.headers[b"content-type"].decode("latin-1")}
    if request.credential is not None:
        request.app.authorizer.count_jobs(request.credential, 1)
    topic = request.topic
    ids = idempotency.id_source(request, (payload, body, headers)) if idempotency.HEADER in request.headers else None
    given: dict[str, Any] = {**models.given_options(payload), "headers": headers}
    if ids is None:
        added = await topic.add(body, id=payload.id, **given)
    else:
        verbs, id = server_verbs(topic).on_behalf_of(ids=ids), payload.id
        operation = verbs.add(body, JobOptions(**given), ids.id(0) if id is None and payload.latest is None else id)
        with idempotency.refusing_other_requests(ids):
            added = await perform(topic, operation, registers=True)
    return added if added.is_new else Response(added, 200)


@many.handles(jobs.ADD_MANY)
async def add_many(request: ServiceRequest) -> list[Added]:
    """Adds many jobs, in scripts of at most 1,000 jobs (250 if some have keys) or 1 MB, each all or nothing.

    All are checked before the first is written. A problem has `done`: how many were added before. `atomic` refuses more
    than one script takes. The header `Idempotency-Key` works for each job as for one that is added alone, by its position
    in the request.
    """
    topic = request.topic
    ids = idempotency.id_source(request, request.payload)
    flow = _add_many_flow(topic, request.payload, ids)
    with idempotency.refusing_other_requests(ids):
        return await perform(topic, flow, registers=True)


def _add_many_flow(
    topic: AsyncTopic[bodies.Body], payload: models.AddMany, ids: idempotency.KeyedIds | None
) -> Operation[list[Added]]:
    """The flow that adds many. Raises ``BadInput``."""
    verbs = server_verbs(topic) if ids is None else server_verbs(topic).on_behalf_of(ids=ids)
    made_ids = (
        ids if payload.latest is None else None
    )  # with `latest` each job needs an id of its own, and is refused without
    jobs = [_new_job(job, made_ids, index) for index, job in enumerate(payload.jobs)]
    return verbs.add_many(jobs, JobOptions(**models.given_options(payload)), atomic=payload.atomic)


def _new_job(job: models.OneOfMany, ids: idempotency.KeyedIds | None, index: int) -> Any:
    try:
        body = bodies.body_of(job.body, job.body_base64, job.coded)
    except BadInput as fault:
        raise BadInput(f"job {index}: {fault}") from None
    own, id = models.given_options(job), job.id
    if ids is not None and id is None:
        id = ids.id(index)
    return body if id is None and not own else NewJob(body, id=id, **own)


@table.handles(jobs.POP)
async def pop(request: ServiceRequest) -> AsyncJob[bodies.Body] | None:
    """Pops the job that has been due for longest, reserved for its time to run; waits up to 60 s for one.

    A client that disconnects while it waits pops nothing.
    """
    seconds = wait_seconds(request.payload.wait)
    work = on_behalf_of(request.topic, holder=request.payload.holder).pop_many(1, wait=seconds, ttr=request.payload.ttr)
    popped = await request.pop_or_give_back(work, waits=bool(seconds))
    return popped[0] if popped else None


@many.handles(jobs.POP_MANY)
async def pop_many(request: ServiceRequest) -> list[AsyncJob[bodies.Body]]:
    """Pops up to `limit` jobs (and 4 MB of bodies); waits up to 60 s for the first."""
    seconds = wait_seconds(request.payload.wait)
    work = on_behalf_of(request.topic, holder=request.payload.holder).pop_many(
        request.payload.limit, wait=seconds, ttr=request.payload.ttr
    )
    return await request.pop_or_give_back(work, waits=bool(seconds))


@many.handles(jobs.POP_FROM_ANY)
async def pop_from_any(request: ServiceRequest) -> list[AsyncJob[bodies.Body]]:
    """Pops jobs of the first topic, in the order given, that has any ready; waits up to 60 s for one."""
    seconds = wait_seconds(request.payload.wait)
    chosen = [on_behalf_of(request.topic_named(name), holder=request.payload.holder) for name in request.payload.topics]
    work = request.client.pop_many(*chosen, limit=request.payload.limit, wait=seconds, ttr=request.payload.ttr)
    return await request.pop_or_give_back(work, waits=bool(seconds))


# ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _settle_routes(endpoints: settle.SettleEndpoints) -> None:
    """Makes the routes of a verb that needs receipts."""

    async def settle_one(request: ServiceRequest) -> None:
        body = request.payload
        held = settle.OneHeld(body.receipt, request.path["id"])
        await _settle(request, [held])

    async def settle_many(request: ServiceRequest) -> None:
        await _settle(request, request.payload.jobs)

    async def _settle(request: ServiceRequest, jobs: Sequence[settle.OneHeld]) -> None:
        topic = request.topic
        await perform(topic, server_verbs(topic).settle(endpoints.verb, jobs, **endpoints.options_of(request.payload)))

    name, (of_one, of_many) = endpoints.verb.name, endpoints.descriptions
    table.handles(endpoints.one, name=name, description=of_one)(settle_one)
    many.handles(endpoints.many, name=name, description=of_many)(settle_many)


for _endpoints in settle.ENDPOINTS.values():
    _settle_routes(_endpoints)


@table.handles(settle.KEEP_STEP)
async def keep_step(request: ServiceRequest) -> Raw:
    """Keeps the result of a step with the job, which is answered with the job when it is handed out again. A name keeps its first result,
    so the call is safe to repeat."""
    held = settle.OneHeld(request.payload.receipt, request.path["id"])
    payload, topic = request.payload, request.topic
    result = bodies.text(bytes(payload.result), "result")
    kept: bytes = await perform(topic, server_verbs(topic).keep_step(held, payload.name, result))
    return Raw(kept)


# ── by id ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@table.handles(by_id.GET)
async def get(request: ServiceRequest) -> JobInfo[bodies.Body]:
    """The job as it is now; with `wait` when it is finished or dead, or at the end of that time. A finished job is there as long as
    the topic or the task keeps it."""
    id, seconds = request.path["id"], wait_seconds(request.query_model.wait)
    if seconds:
        job = await request.run_while_wanted(request.topic.get(id, wait=seconds))
    else:
        job = await request.topic.get(id)
    if job is None:
        raise UnknownJob
    return job


@many.handles(by_id.GET_MANY)
async def get_many(request: ServiceRequest) -> list[JobInfo[bodies.Body] | None]:
    """Jobs as they are now. The bodies of one answer have 64 MiB at most."""
    found: dict[str, JobInfo[bodies.Body] | None] = {}
    times, size, step = Counter(request.payload.ids), 0, READ_FIRST
    ids = list(times)
    while len(found) < len(ids):
        some = ids[len(found) : len(found) + step]
        for id, job in zip(some, await request.topic.get_many(some), strict=True):
            found[id] = job
            size += times[id] * _size(job)
        if size > MOST_BYTES:
            raise BadInput(
                f"ids: the bodies of these jobs have more than {MOST_BYTES >> 20} MiB; ask for fewer at a time."
            )
        step = min(max(STEP_BYTES * len(found) // max(size, 1), READ_FIRST), MOST_READ)
    return [found[id] for id in request.payload.ids]


def _size(job: JobInfo[bodies.Body] | None) -> int:
    """The bytes of a job's body; none if its record is damaged."""
    try:
        return 0 if job is None else len(job.raw)
    except BodyError:
        return 0


@table.handles(by_id.BODY)
async def body(request: ServiceRequest) -> Response:
    """The job's body, with its media type."""
    job = await request.topic.get(request.path["id"])
    if job is None:
        raise UnknownJob
    raw, flag = job.body
    return Response(
        PlainResponse(raw, "application/json" if flag == JSON else _media_of(job)), headers=FOREIGN_BODY_HEADERS
    )


def _media_of(job: JobInfo[bodies.Body]) -> str:
    """The stored media type, if it is a valid HTTP header."""
    try:
        payload = job.headers.get(bodies.MEDIA, "")
    except BodyError:
        payload = ""
    return payload if _FIELD.fullmatch(payload) else "application/octet-stream"


def was(state: State | None) -> State:
    if state is None:
        raise UnknownJob
    return state


@table.handles(by_id.DELETE)
async def delete(request: ServiceRequest) -> State:
    """Deletes the job, whatever its state; its holder learns of it when it settles. Answers the state it was in."""
    return was(await request.topic.delete(request.path["id"]))


@many.handles(by_id.DELETE_MANY)
async def delete_many(request: ServiceRequest) -> list[State | None]:
    """Deletes many jobs. Answers the states they were in; with `state` those in another one stay."""
    payload = request.payload
    return list(await request.topic.delete_many(payload.ids, running=payload.running, state=payload.state))


@table.handles(by_id.KICK)
async def kick(request: ServiceRequest) -> State:
    """Makes a dead job ready again, its attempts at 0; one in another state stays as it is. Answers the state it was in."""
    return was(await request.topic.kick(request.path["id"]))


@many.handles(by_id.KICK_MANY)
async def kick_many(request: ServiceRequest) -> list[State | None]:
    """Makes many dead jobs ready again. Answers the states they were in."""
    return list(await request.topic.kick_many(request.payload.ids))


@table.handles(by_id.RESCHEDULE)
async def reschedule(request: ServiceRequest) -> State:
    """Gives a delayed or ready job another due time; reserved and dead ones stay. Answers the state it was in."""
    return was(await request.topic.reschedule(request.path["id"], delay=request.payload.delay, at=request.payload.at))


@many.handles(by_id.RESCHEDULE_MANY)
async def reschedule_many(request: ServiceRequest) -> list[State | None]:
    """Gives many jobs another due time."""
    payload = request.payload
    return list(await request.topic.reschedule_many(payload.ids, delay=payload.delay, at=payload.at))


# ── the jobs of one holder ──────────────────────────────────────────────────────────────────────────────────────────────


@many.handles(settle.RELEASE_HOLDER)
async def release_holder(request: ServiceRequest) -> int:
    """Releases at once all jobs of a process that is certainly dead (`holder` is a field of `get`)."""
    return await request.topic.release_holder(
        request.path["holder"], counted=request.payload.counted, limit=request.payload.limit
    )


@many.handles(settle.TOUCH_HOLDER)
async def touch_holder(request: ServiceRequest) -> int:
    """Renews the reservations of a process that is alive but cannot do it itself."""
    return await request.topic.touch_holder(request.path["holder"], ttr=request.payload.ttr)
