"""The same verbs over many jobs: one request, and a script for each thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tarry.clients.http.wire import answers, models
from tarry.programs.service import add_jobs, idempotency
from tarry.programs.service.router import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Example, RouteTable, count_items, count_n
from tarry.programs.service.routes.jobs import _DUE, _POPPED, PATH, on_behalf_of
from tarry.programs.service.shared_queues import wait_seconds

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("many")
MANY = "/v1/topics/{topic}/many"
_HELD = [models.OneHeld(1800000000000000, "7")]


@table.route(
    "POST",
    MANY + "/add",
    makes=("topic",),
    scopes=PRODUCE,
    body_model=models.AddMany,
    answer_model=answers.AddedJobs,
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
        answers.AddedJobs([answers.AddedJob("7", True, "delayed", _DUE)]),
        PATH,
    ),
)
async def add(x: ServiceRequest) -> answers.AddedJobs:
    """Puts many jobs in, in scripts of at most 1,000 jobs or 1 MB, each all or nothing.

    All are checked before the first is written. A problem carries `done`: how many went in before. `atomic` refuses more
    than one script takes. The header `Idempotency-Key` holds for each job as for one that is added alone, by its place in
    the request.
    """
    topic = x.topic
    flow = add_jobs.add_many_flow(topic, x.payload, idempotency.id_source(x.headers))
    await topic.engine.register_topic(topic.name)
    added = await topic.engine.run(flow)
    return answers.AddedJobs([answers.added_job(job) for job in added])


@table.route(
    "POST",
    MANY + "/pop",
    scopes=CONSUME,
    body_model=models.PopMany,
    answer_model=answers.PoppedJobs,
    jobs=count_n,
    example=Example(models.PopMany(n=10, wait="30s"), answers.PoppedJobs([_POPPED]), PATH),
)
async def pop(x: ServiceRequest) -> answers.PoppedJobs:
    """Up to `n` jobs (and 4 MB of bodies), as soon as there is one; waits up to 60 s."""
    seconds = wait_seconds(x.payload.wait)
    work = on_behalf_of(x.topic, x.payload.holder).pop_many(x.payload.n, wait=seconds, ttr=x.payload.ttr)
    return answers.PoppedJobs([answers.popped_job(job) for job in await x.pop_or_return(work, waits=bool(seconds))])


@table.route(
    "POST",
    "/v1/pop",
    scopes=CONSUME,
    body_model=models.PopFromAny,
    answer_model=answers.PoppedJobs,
    jobs=count_n,
    example=Example(models.PopFromAny(topics=["urgent", "orders"], wait="30s"), answers.PoppedJobs([_POPPED])),
)
async def pop_from_any(x: ServiceRequest) -> answers.PoppedJobs:
    """Jobs of the first topic, in the order given, that has any ready; waits up to 60 s for one of them."""
    seconds = wait_seconds(x.payload.wait)
    chosen = [on_behalf_of(x.topic_named(name), x.payload.holder) for name in x.payload.topics]
    work = chosen[0].engine.take(chosen, x.payload.n, seconds, x.payload.ttr)
    return answers.PoppedJobs([answers.popped_job(job) for job in await x.pop_or_return(work, waits=bool(seconds))])


@table.route(
    "POST",
    MANY + "/finish",
    scopes=CONSUME,
    body_model=models.FinishMany,
    problem_codes=("stale_receipt",),
    example=Example(models.FinishMany(_HELD), path=PATH),
)
async def finish(x: ServiceRequest) -> None:
    """Finishes those whose receipts hold; the problem names all that do not."""
    await x.topic.finish_many(x.payload.jobs)


@table.route(
    "POST",
    MANY + "/touch",
    scopes=CONSUME,
    body_model=models.TouchMany,
    problem_codes=("stale_receipt",),
    example=Example(models.TouchMany(_HELD, "1m"), path=PATH),
)
async def touch(x: ServiceRequest) -> None:
    """More time for many."""
    await x.topic.touch_many(x.payload.jobs, x.payload.ttr)


@table.route(
    "POST",
    MANY + "/release",
    scopes=CONSUME,
    body_model=models.ReleaseMany,
    problem_codes=("stale_receipt",),
    example=Example(models.ReleaseMany(_HELD, delay="10s"), path=PATH),
)
async def release(x: ServiceRequest) -> None:
    """Back with many; without `delay` each needs its `attempt`."""
    payload = x.payload
    await x.topic.release_many(payload.jobs, payload.delay, count=payload.count, reason=payload.reason)


@table.route(
    "POST",
    MANY + "/bury",
    scopes=CONSUME,
    body_model=models.BuryMany,
    problem_codes=("stale_receipt",),
    example=Example(models.BuryMany(_HELD, "No such order"), path=PATH),
)
async def bury(x: ServiceRequest) -> None:
    """Sets many aside."""
    await x.topic.bury_many(x.payload.jobs, x.payload.reason)


@table.route(
    "POST",
    MANY + "/get",
    scopes=ANY_SCOPE,
    body_model=models.Several,
    answer_model=answers.JobsShown,
    example=Example(models.Several(["7"]), answers.JobsShown([None]), PATH),
)
async def get(x: ServiceRequest) -> answers.JobsShown:
    """Jobs as they are now."""
    found = await x.topic.get_many(x.payload.ids)
    return answers.JobsShown([None if job is None else answers.job_shown(job) for job in found])


@table.route(
    "POST",
    MANY + "/delete",
    scopes=PRODUCE,
    body_model=models.Several,
    answer_model=answers.WereMany,
    example=Example(models.Several(["7"]), answers.WereMany(["delayed"]), PATH),
)
async def delete(x: ServiceRequest) -> answers.WereMany:
    """Deletes many."""
    return answers.WereMany(list(await x.topic.delete_many(x.payload.ids)))


@table.route(
    "POST",
    MANY + "/kick",
    scopes=PRODUCE,
    body_model=models.Several,
    answer_model=answers.WereMany,
    example=Example(models.Several(["7"]), answers.WereMany(["dead"]), PATH),
)
async def kick(x: ServiceRequest) -> answers.WereMany:
    """Makes many dead jobs ready again."""
    return answers.WereMany(list(await x.topic.kick_many(x.payload.ids)))


@table.route(
    "POST",
    MANY + "/reschedule",
    scopes=PRODUCE,
    body_model=models.RescheduleMany,
    answer_model=answers.WereMany,
    example=Example(models.RescheduleMany(ids=["7"], delay="1h"), answers.WereMany(["delayed"]), PATH),
)
async def reschedule(x: ServiceRequest) -> answers.WereMany:
    """Another due time for many."""
    payload = x.payload
    return answers.WereMany(list(await x.topic.reschedule_many(payload.ids, delay=payload.delay, at=payload.at)))


# ── what a process held ──────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = "/v1/topics/{topic}/holders/{holder}"
_WHO = {"topic": "orders", "holder": "worker-3"}


@table.route(
    "POST",
    HOLDER + "/release",
    scopes=ADMIN,
    body_model=models.HolderRelease,
    answer_model=answers.Count,
    example=Example(models.HolderRelease(), answers.Count(3), _WHO),
)
async def release_holder(x: ServiceRequest) -> answers.Count:
    """Gives back at once all jobs of a process that is certainly dead (`holder` is what `get` shows of a job)."""
    return answers.Count(await x.topic.release_holder(x.path["holder"], count=x.payload.count, limit=x.payload.limit))


@table.route(
    "POST",
    HOLDER + "/touch",
    scopes=ADMIN,
    body_model=models.HolderTouch,
    answer_model=answers.Count,
    example=Example(models.HolderTouch("1m"), answers.Count(3), _WHO),
)
async def touch_holder(x: ServiceRequest) -> answers.Count:
    """Renews all jobs of a process that lives and cannot do it itself."""
    return answers.Count(await x.topic.touch_holder(x.path["holder"], x.payload.ttr))
