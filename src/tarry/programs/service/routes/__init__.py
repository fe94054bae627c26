"""The routes of the service: those of the API by subject, and those of the dialects that are switched on.

Documents list them in this order. Add a new table of routes here.
"""

from __future__ import annotations

from tarry.programs.service.dialects import delay_controller, delay_queue, delayed_message
from tarry.programs.service.router import Route, RouteTable
from tarry.programs.service.routes import (
    about,
    events,
    guarded,
    jobs,
    locks,
    maps,
    queues,
    schedules,
    topics,
)
from tarry.programs.service.settings import ServiceSettings

_MODULES = (topics, schedules, queues, guarded, maps, locks, events, about)
TABLES = (jobs.table, jobs.many, *(module.table for module in _MODULES))


def routes_of(settings: ServiceSettings) -> list[Route]:
    """The routes of a service: the API, and the dialects that are switched on."""
    tables = [*TABLES, *_dialects(settings)]
    return [route for table in tables for route in table.routes]


def _dialects(settings: ServiceSettings) -> list[RouteTable]:
    spoken, found = settings.dialects, list[RouteTable]()
    if spoken.delay_controller is not None:
        found.append(delay_controller.routes_of(spoken.delay_controller))
    if spoken.delay_queue is not None:
        found.append(delay_queue.routes_of(spoken.delay_queue))
    if spoken.delayed_message is not None:
        payload = (spoken.delayed_message, spoken.message_codec, spoken.message_format)
        found.append(delayed_message.routes_of(settings.namespaces[0], *payload))
    if spoken.sqs:
        from tarry.programs.service.dialects.sqs import routes as sqs  # not imported unless it is asked for

        found.append(sqs.routes_of())
    return found
