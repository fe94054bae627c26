"""The routes of the API, by subject, and those that are mounted.

Documents list them in this order. Add a new table of the API here.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarry.programs.service.redisson import map_routes as maps
from tarry.programs.service.redisson import queue_routes as queues
from tarry.programs.service.routes import about, events
from tarry.programs.service.routes import guarded_routes as guarded
from tarry.programs.service.routes import job_routes as jobs
from tarry.programs.service.routes import lock_routes as locks
from tarry.programs.service.routes import schedule_routes as schedules
from tarry.programs.service.routes import topic_routes as topics
from tarry.programs.serving.mounts import Mount
from tarry.programs.serving.router import Route

_MODULES = (topics, schedules, queues, guarded, maps, locks, events, about)
TABLES = (jobs.table, jobs.many, *(module.table for module in _MODULES))


def routes_of(mounts: Iterable[Mount] = ()) -> list[Route]:
    """The routes of a service: the API, and what is mounted."""
    tables = [*TABLES, *(table for one in mounts for table in one.tables)]
    return [route for table in tables for route in table.routes]
