"""Routes of schedules: jobs that come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET

from tarry.internal import JSON
from tarry.programs.serving.problems import UnknownSchedule
from tarry.programs.serving.router import RouteTable
from tarry.wire import bodies
from tarry.wire.endpoints import schedule_endpoints as endpoints
from tarry.wire.endpoints import schedule_endpoints as schedules
from tarry.wire.job_models import given_options

if TYPE_CHECKING:
    from tarry import Schedule
    from tarry.programs.serving.request import ServiceRequest

table = RouteTable("schedules")
ALL, SCHEDULE = "/v1/topics/{topic}/schedules", "/v1/topics/{topic}/schedules/{schedule}"


@table.handles(endpoints.LIST_ALL)
async def list_all(request: ServiceRequest) -> list[Schedule]:
    """All schedules of all topics."""
    return await request.client.schedules.list()


@table.handles(endpoints.LIST_OF_TOPIC)
async def list_of_topic(request: ServiceRequest) -> list[Schedule]:
    """All schedules of a topic, by their next occurrence; paused ones last."""
    return await request.client.schedules.list(request.topic)


@table.handles(endpoints.GET)
async def get(request: ServiceRequest) -> Schedule:
    """The schedule's present state."""
    found = await request.client.schedules.get(request.topic, request.path["schedule"])
    if found is None:
        raise UnknownSchedule
    return found


@table.handles(endpoints.PUT)
async def put(request: ServiceRequest) -> Schedule:
    """Stores a schedule, or changes it: jobs with this body at an interval or by calendar. Repeating it changes nothing.

    A change that keeps the interval or calendar also keeps the next occurrence. It is refused if a worker's code declares a
    schedule of this id.
    """
    payload: schedules.PutSchedule = request.payload
    body: bodies.Body = (b"null", JSON)
    if payload.body is not UNSET or payload.body_base64 is not None:
        body = bodies.body_of(payload.body, payload.body_base64, coded=False)
    return await request.client.schedules.put(
        request.topic,
        request.path["schedule"],
        body,
        every=payload.every,
        cron=payload.cron,
        tz=payload.tz,
        first=payload.first,
        missed=payload.missed,
        **given_options(payload),
    )


@table.handles(endpoints.PAUSE)
async def pause(request: ServiceRequest) -> None:
    """Makes no more jobs until `resume`. Pausing a paused one changes nothing."""
    _check_exists(await request.client.schedules.pause(request.topic, request.path["schedule"]))


@table.handles(endpoints.RESUME)
async def resume(request: ServiceRequest) -> None:
    """Goes on with the next occurrence; those during the pause are skipped."""
    _check_exists(await request.client.schedules.resume(request.topic, request.path["schedule"]))


@table.handles(endpoints.DELETE)
async def delete(request: ServiceRequest) -> None:
    """Deletes the schedule; jobs that it has made stay. A schedule that a worker's code declares comes back."""
    _check_exists(await request.client.schedules.delete(request.topic, request.path["schedule"]))


def _check_exists(exists: bool) -> None:
    if not exists:
        raise UnknownSchedule
