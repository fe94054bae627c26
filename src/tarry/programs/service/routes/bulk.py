"""Routes for many jobs at once: one request, and a script for each thousand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarry.clients.awaited.topic import pop_first
from tarry.clients.http.wire.endpoints import bulk as endpoints
from tarry.programs.service import add_jobs, idempotency
from tarry.programs.service.router import RouteTable
from tarry.programs.service.routes.jobs import on_behalf_of
from tarry.programs.service.shared_queues import wait_seconds
from tarry.verbs.jobs.models import Added

if TYPE_CHECKING:
    from tarry.clients.awaited.job import AsyncJob
    from tarry.clients.http.wire.bodies import Body
    from tarry.programs.service.request import ServiceRequest
    from tarry.verbs.jobs.models import JobInfo, State

table = RouteTable("many")
MANY = "/v1/topics/{topic}/many"


@table.handles(endpoints.ADD)
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


@table.handles(endpoints.POP)
async def pop(request: ServiceRequest) -> list[AsyncJob[Body]]:
    """Pops up to `n` jobs (and 4 MB of bodies); waits up to 60 s for the first."""
    seconds = wait_seconds(request.payload.wait)
    work = on_behalf_of(request.topic, request.payload.holder).pop_many(
        request.payload.n, wait=seconds, ttr=request.payload.ttr
    )
    return await request.pop_or_give_back(work, waits=bool(seconds))


@table.handles(endpoints.POP_FROM_ANY)
async def pop_from_any(request: ServiceRequest) -> list[AsyncJob[Body]]:
    """Pops jobs of the first topic, in the order given, that has any ready; waits up to 60 s for one."""
    seconds = wait_seconds(request.payload.wait)
    chosen = [on_behalf_of(request.topic_named(name), request.payload.holder) for name in request.payload.topics]
    work = pop_first(chosen[0].engine, chosen, request.payload.n, seconds, request.payload.ttr)
    return await request.pop_or_give_back(work, waits=bool(seconds))


@table.handles(endpoints.FINISH)
async def finish(request: ServiceRequest) -> None:
    """Finishes the jobs whose receipts are valid; the problem names all others."""
    await request.topic.finish_many(request.payload.jobs)


@table.handles(endpoints.TOUCH)
async def touch(request: ServiceRequest) -> None:
    """Renews the reservations of many jobs."""
    await request.topic.touch_many(request.payload.jobs, request.payload.ttr)


@table.handles(endpoints.RELEASE)
async def release(request: ServiceRequest) -> None:
    """Gives many jobs back; without `delay` each needs its `attempt`."""
    payload = request.payload
    await request.topic.release_many(payload.jobs, payload.delay, count=payload.count, reason=payload.reason)


@table.handles(endpoints.BURY)
async def bury(request: ServiceRequest) -> None:
    """Sets many jobs aside as dead."""
    await request.topic.bury_many(request.payload.jobs, request.payload.reason)


@table.handles(endpoints.GET)
async def get(request: ServiceRequest) -> list[JobInfo[Body] | None]:
    """Jobs as they are now."""
    return await request.topic.get_many(request.payload.ids)


@table.handles(endpoints.DELETE)
async def delete(request: ServiceRequest) -> list[State | None]:
    """Deletes many jobs."""
    return list(await request.topic.delete_many(request.payload.ids))


@table.handles(endpoints.KICK)
async def kick(request: ServiceRequest) -> list[State | None]:
    """Makes many dead jobs ready again."""
    return list(await request.topic.kick_many(request.payload.ids))


@table.handles(endpoints.RESCHEDULE)
async def reschedule(request: ServiceRequest) -> list[State | None]:
    """Gives many jobs another due time."""
    payload = request.payload
    return list(await request.topic.reschedule_many(payload.ids, delay=payload.delay, at=payload.at))


# ── the jobs of one holder ──────────────────────────────────────────────────────────────────────────────────────────────

HOLDER = "/v1/topics/{topic}/holders/{holder}"


@table.handles(endpoints.RELEASE_HOLDER)
async def release_holder(request: ServiceRequest) -> int:
    """Gives back at once all jobs of a process that is certainly dead (`holder` is a field of `get`)."""
    return await request.topic.release_holder(
        request.path["holder"], count=request.payload.count, limit=request.payload.limit
    )


@table.handles(endpoints.TOUCH_HOLDER)
async def touch_holder(request: ServiceRequest) -> int:
    """Renews the reservations of a process that is alive but cannot do it itself."""
    return await request.topic.touch_holder(request.path["holder"], request.payload.ttr)
