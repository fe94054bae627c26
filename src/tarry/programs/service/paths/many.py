"""The same verbs over many jobs: one request, and a script for each thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tarry.clients.http.wire import answers, models
from tarry.programs.service import adding, keyed
from tarry.programs.service.paths.jobs import _DUE, _POPPED, PATH, taking_from
from tarry.programs.service.sharing import waiting
from tarry.programs.service.table import ADMIN, ANY, CONSUME, PRODUCE, Example, Table, each, n_of

if TYPE_CHECKING:
    from tarry.programs.service.exchange import Exchange

table = Table("many")
MANY = "/v1/topics/{topic}/many"
_HELD = [models.OneHeld(1800000000000000, "7")]


@table.row(
    "POST",
    MANY + "/add",
    makes=("topic",),
    may=PRODUCE,
    takes=models.AddMany,
    gives=answers.AddedJobs,
    jobs=each("jobs"),
    refuses=("job_exists", "too_large", "unconfirmed"),
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
async def add(x: Exchange) -> answers.AddedJobs:
    """Puts many jobs in, in scripts of at most 1,000 jobs or 1 MB, each all or nothing.

    All are checked before the first is written. A problem carries `done`: how many went in before. `atomic` refuses more
    than one script takes. The header `Idempotency-Key` holds for each job as for one that is added alone, by its place in
    the request.
    """
    topic = x.topic
    flow = adding.add_many(topic, x.said, keyed.ids_of(x.headers))
    await topic.engine.register_topic(topic.name)
    added = await topic.engine.run(flow)
    return answers.AddedJobs([answers.added_job(job) for job in added])


@table.row(
    "POST",
    MANY + "/pop",
    may=CONSUME,
    takes=models.PopMany,
    gives=answers.PoppedJobs,
    jobs=n_of,
    example=Example(models.PopMany(n=10, wait="30s"), answers.PoppedJobs([_POPPED]), PATH),
)
async def pop(x: Exchange) -> answers.PoppedJobs:
    """Up to `n` jobs (and 4 MB of bodies), as soon as there is one; waits up to 60 s."""
    seconds = waiting(x.said.wait)
    work = taking_from(x.topic, x.said.holder).pop_many(x.said.n, wait=seconds, ttr=x.said.ttr)
    return answers.PoppedJobs([answers.popped_job(job) for job in await x.taken(work, waits=bool(seconds))])


@table.row(
    "POST",
    "/v1/pop",
    may=CONSUME,
    takes=models.PopFromAny,
    gives=answers.PoppedJobs,
    jobs=n_of,
    example=Example(models.PopFromAny(topics=["urgent", "orders"], wait="30s"), answers.PoppedJobs([_POPPED])),
)
async def pop_from_any(x: Exchange) -> answers.PoppedJobs:
    """Jobs of the first topic, in the order given, that has any ready; waits up to 60 s for one of them."""
    seconds = waiting(x.said.wait)
    chosen = [taking_from(x.another(name), x.said.holder) for name in x.said.topics]
    work = chosen[0].engine.take(chosen, x.said.n, seconds, x.said.ttr)
    return answers.PoppedJobs([answers.popped_job(job) for job in await x.taken(work, waits=bool(seconds))])


@table.row(
    "POST",
    MANY + "/finish",
    may=CONSUME,
    takes=models.FinishMany,
    refuses=("stale_receipt",),
    example=Example(models.FinishMany(_HELD), path=PATH),
)
async def finish(x: Exchange) -> None:
    """Finishes those whose receipts hold; the problem names all that do not."""
    await x.topic.finish_many(x.said.jobs)


@table.row(
    "POST",
    MANY + "/touch",
    may=CONSUME,
    takes=models.TouchMany,
    refuses=("stale_receipt",),
    example=Example(models.TouchMany(_HELD, "1m"), path=PATH),
)
async def touch(x: Exchange) -> None:
    """More time for many."""
    await x.topic.touch_many(x.said.jobs, x.said.ttr)


@table.row(
    "POST",
    MANY + "/release",
    may=CONSUME,
    takes=models.ReleaseMany,
    refuses=("stale_receipt",),
    example=Example(models.ReleaseMany(_HELD, delay="10s"), path=PATH),
)
async def release(x: Exchange) -> None:
    """Back with many; without `delay` each needs its `attempt`."""
    said = x.said
    await x.topic.release_many(said.jobs, said.delay, count=said.count, reason=said.reason)


@table.row(
    "POST",
    MANY + "/bury",
    may=CONSUME,
    takes=models.BuryMany,
    refuses=("stale_receipt",),
    example=Example(models.BuryMany(_HELD, "No such order"), path=PATH),
)
async def bury(x: Exchange) -> None:
    """Sets many aside."""
    await x.topic.bury_many(x.said.jobs, x.said.reason)


@table.row(
    "POST",
    MANY + "/get",
    may=ANY,
    takes=models.Several,
    gives=answers.JobsShown,
    example=Example(models.Several(["7"]), answers.JobsShown([None]), PATH),
)
async def get(x: Exchange) -> answers.JobsShown:
    """Jobs as they are now."""
    found = await x.topic.get_many(x.said.ids)
    return answers.JobsShown([None if job is None else answers.job_shown(job) for job in found])


@table.row(
    "POST",
    MANY + "/delete",
    may=PRODUCE,
    takes=models.Several,
    gives=answers.WereMany,
    example=Example(models.Several(["7"]), answers.WereMany(["delayed"]), PATH),
)
async def delete(x: Exchange) -> answers.WereMany:
    """Deletes many."""
    return answers.WereMany(list(await x.topic.delete_many(x.said.ids)))


@table.row(
    "POST",
    MANY + "/kick",
    may=PRODUCE,
    takes=models.Several,
    gives=answers.WereMany,
    example=Example(models.Several(["7"]), answers.WereMany(["dead"]), PATH),
)
async def kick(x: Exchange) -> answers.WereMany:
    """Makes many dead jobs ready again."""
    return answers.WereMany(list(await x.topic.kick_many(x.said.ids)))


@table.row(
    "POST",
    MANY + "/reschedule",
    may=PRODUCE,
    takes=models.RescheduleMany,
    gives=answers.WereMany,
    example=Example(models.RescheduleMany(ids=["7"], delay="1h"), answers.WereMany(["delayed"]), PATH),
)
async def reschedule(x: Exchange) -> answers.WereMany:
    """Another due time for many."""
    said = x.said
    return answers.WereMany(list(await x.topic.reschedule_many(said.ids, delay=said.delay, at=said.at)))


# ── what a process held ──────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = "/v1/topics/{topic}/holders/{holder}"
_WHO = {"topic": "orders", "holder": "worker-3"}


@table.row(
    "POST",
    HOLDER + "/release",
    may=ADMIN,
    takes=models.HolderRelease,
    gives=answers.Count,
    example=Example(models.HolderRelease(), answers.Count(3), _WHO),
)
async def release_holder(x: Exchange) -> answers.Count:
    """Gives back at once all jobs of a process that is certainly dead (`holder` is what `get` shows of a job)."""
    return answers.Count(await x.topic.release_holder(x.path["holder"], count=x.said.count, limit=x.said.limit))


@table.row(
    "POST",
    HOLDER + "/touch",
    may=ADMIN,
    takes=models.HolderTouch,
    gives=answers.Count,
    example=Example(models.HolderTouch("1m"), answers.Count(3), _WHO),
)
async def touch_holder(x: Exchange) -> answers.Count:
    """Renews all jobs of a process that lives and cannot do it itself."""
    return answers.Count(await x.topic.touch_holder(x.path["holder"], x.said.ttr))
