"""Routes for many jobs at once: one request, and a script for each thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tarry.clients.awaited.topic import pop_first
from tarry.clients.http.wire import answers, models
from tarry.programs.service import add_jobs, idempotency
from tarry.programs.service.router import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Example, RouteTable, count_items, count_n
from tarry.programs.service.routes.jobs import _DUE, _POPPED, PATH, on_behalf_of
from tarry.programs.service.shared_queues import wait_seconds
from tarry.verbs.jobs.models import Added

if TYPE_CHECKING:
    from tarry.clients.awaited.job import AsyncJob
    from tarry.clients.http.wire.bodies import Body
    from tarry.programs.service.request import ServiceRequest
    from tarry.verbs.jobs.models import JobInfo, State

table = RouteTable("many")
MANY = "/v1/topics/{topic}/many"
_HELD = [models.OneHeld(1800000000000000, "7")]


@table.route(
    "POST",
    MANY + "/add",
    new_names=("topic",),
    scopes=PRODUCE,
    body_model=models.AddMany,
    gives=answers.ADDED_JOBS,
    jobs=count_items("jobs"),
    problem_codes=("job_exists", "too_large", "unconfirmed"),
    example=Example(
        models.AddMany(
            jobs=[
                models.OneOfMany(body=msgspec.Raw(b'{"order": 7}'), id="7"),
                models.OneOfMany(body=msgspec.Raw(b'{"order": 8}'), delay="1h"),
            ],
            delay="30m",
        ),
        [Added("7", True, "delayed", _DUE)],
        PATH,
    ),
)
async def add(request: ServiceRequest) -> list[Added]:
    """Adds many jobs, in scripts of at most 1,000 jobs or 1 MB, each all or nothing.

    All are checked before the first is written. A problem has `done`: how many were added before. `atomic` refuses more
    than one script takes. The header `Idempotency-Key` works for each job as for one that is added alone, by its position
    in the request.
    """
    topic = request.topic
    flow = add_jobs.add_many_flow(topic, request.payload, idempotency.id_source(request.headers))
    await topic.engine.register_topic(topic.name)
    return await topic.engine.run(flow)


@table.route(
    "POST",
    MANY + "/pop",
    scopes=CONSUME,
    body_model=models.PopMany,
    gives=answers.POPPED_JOBS,
    jobs=count_n,
    example=Example(models.PopMany(n=10, wait="30s"), answers.PoppedJobs([_POPPED]), PATH),
)
async def pop(request: ServiceRequest) -> list[AsyncJob[Body]]:
    """Pops up to `n` jobs (and 4 MB of bodies); waits up to 60 s for the first."""
    seconds = wait_seconds(request.payload.wait)
    work = on_behalf_of(request.topic, request.payload.holder).pop_many(
        request.payload.n, wait=seconds, ttr=request.payload.ttr
    )
    return await request.pop_or_give_back(work, waits=bool(seconds))


@table.route(
    "POST",
    "/v1/pop",
    scopes=CONSUME,
    body_model=models.PopFromAny,
    gives=answers.POPPED_JOBS,
    jobs=count_n,
    example=Example(models.PopFromAny(topics=["urgent", "orders"], wait="30s"), answers.PoppedJobs([_POPPED])),
)
async def pop_from_any(request: ServiceRequest) -> list[AsyncJob[Body]]:
    """Pops jobs of the first topic, in the order given, that has any ready; waits up to 60 s for one."""
    seconds = wait_seconds(request.payload.wait)
    chosen = [on_behalf_of(request.topic_named(name), request.payload.holder) for name in request.payload.topics]
    work = pop_first(chosen[0].engine, chosen, request.payload.n, seconds, request.payload.ttr)
    return await request.pop_or_give_back(work, waits=bool(seconds))


@table.route(
    "POST",
    MANY + "/finish",
    scopes=CONSUME,
    body_model=models.FinishMany,
    problem_codes=("stale_receipt",),
    example=Example(models.FinishMany(_HELD), path=PATH),
)
async def finish(request: ServiceRequest) -> None:
    """Finishes the jobs whose receipts are valid; the problem names all others."""
    await request.topic.finish_many(request.payload.jobs)


@table.route(
    "POST",
    MANY + "/touch",
    scopes=CONSUME,
    body_model=models.TouchMany,
    problem_codes=("stale_receipt",),
    example=Example(models.TouchMany(_HELD, "1m"), path=PATH),
)
async def touch(request: ServiceRequest) -> None:
    """Renews the reservations of many jobs."""
    await request.topic.touch_many(request.payload.jobs, request.payload.ttr)


@table.route(
    "POST",
    MANY + "/release",
    scopes=CONSUME,
    body_model=models.ReleaseMany,
    problem_codes=("stale_receipt",),
    example=Example(models.ReleaseMany(_HELD, delay="10s"), path=PATH),
)
async def release(request: ServiceRequest) -> None:
    """Gives many jobs back; without `delay` each needs its `attempt`."""
    payload = request.payload
    await request.topic.release_many(payload.jobs, payload.delay, count=payload.count, reason=payload.reason)


@table.route(
    "POST",
    MANY + "/bury",
    scopes=CONSUME,
    body_model=models.BuryMany,
    problem_codes=("stale_receipt",),
    example=Example(models.BuryMany(_HELD, "No such order"), path=PATH),
)
async def bury(request: ServiceRequest) -> None:
    """Sets many jobs aside as dead."""
    await request.topic.bury_many(request.payload.jobs, request.payload.reason)


@table.route(
    "POST",
    MANY + "/get",
    scopes=ANY_SCOPE,
    body_model=models.Several,
    gives=answers.JOBS,
    example=Example(models.Several(["7"]), [None], PATH),
)
async def get(request: ServiceRequest) -> list[JobInfo[Body] | None]:
    """Jobs as they are now."""
    return await request.topic.get_many(request.payload.ids)


@table.route(
    "POST",
    MANY + "/delete",
    scopes=PRODUCE,
    body_model=models.Several,
    gives=answers.WERE_MANY,
    example=Example(models.Several(["7"]), ["delayed"], PATH),
)
async def delete(request: ServiceRequest) -> list[State | None]:
    """Deletes many jobs."""
    return list(await request.topic.delete_many(request.payload.ids))


@table.route(
    "POST",
    MANY + "/kick",
    scopes=PRODUCE,
    body_model=models.Several,
    gives=answers.WERE_MANY,
    example=Example(models.Several(["7"]), ["dead"], PATH),
)
async def kick(request: ServiceRequest) -> list[State | None]:
    """Makes many dead jobs ready again."""
    return list(await request.topic.kick_many(request.payload.ids))


@table.route(
    "POST",
    MANY + "/reschedule",
    scopes=PRODUCE,
    body_model=models.RescheduleMany,
    gives=answers.WERE_MANY,
    example=Example(models.RescheduleMany(ids=["7"], delay="1h"), ["delayed"], PATH),
)
async def reschedule(request: ServiceRequest) -> list[State | None]:
    """Gives many jobs another due time."""
    payload = request.payload
    return list(await request.topic.reschedule_many(payload.ids, delay=payload.delay, at=payload.at))


# ── the jobs of one holder ──────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = "/v1/topics/{topic}/holders/{holder}"
_WHO = {"topic": "orders", "holder": "worker-3"}


@table.route(
    "POST",
    HOLDER + "/release",
    scopes=ADMIN,
    body_model=models.HolderRelease,
    gives=answers.COUNT,
    example=Example(models.HolderRelease(), 3, _WHO),
)
async def release_holder(request: ServiceRequest) -> int:
    """Gives back at once all jobs of a process that is certainly dead (`holder` is a field of `get`)."""
    return await request.topic.release_holder(
        request.path["holder"], count=request.payload.count, limit=request.payload.limit
    )


@table.route(
    "POST",
    HOLDER + "/touch",
    scopes=ADMIN,
    body_model=models.HolderTouch,
    gives=answers.COUNT,
    example=Example(models.HolderTouch("1m"), 3, _WHO),
)
async def touch_holder(request: ServiceRequest) -> int:
    """Renews the reservations of a process that is alive but cannot do it itself."""
    return await request.topic.touch_holder(request.path["holder"], request.payload.ttr)
