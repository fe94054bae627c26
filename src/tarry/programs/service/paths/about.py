"""The service itself: is it well, what is it, what can it do."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from msgspec import Struct

from tarry.errors import JobExists
from tarry.programs.service import problems
from tarry.programs.service.problems import UnknownRoute
from tarry.programs.service.replies import Answered, Plain
from tarry.programs.service.table import ANY, OPEN, Example, Table

if TYPE_CHECKING:
    from tarry.programs.service.exchange import Exchange

table = Table("about")


class Health(Struct):
    """``ok``, or what is wrong."""

    status: str


class Version(Struct):
    """Of this service."""

    version: str


class Told(Struct):
    """A kind of problem."""

    code: str
    status: int
    told: str


@table.row(
    "GET",
    "/healthz",
    may=OPEN,
    gives=Health,
    while_draining=True,
    namespaced=False,
    example=Example(answer=Health("ok")),
)
async def healthz(_: Exchange) -> Health:
    """This process answers."""
    return Health("ok")


@table.row(
    "GET",
    "/readyz",
    may=OPEN,
    gives=Health,
    while_draining=True,
    namespaced=False,
    refuses=("draining", "unavailable", "server_unfit"),
    example=Example(answer=Health("ok")),
)
async def readyz(x: Exchange) -> Health:
    """The server (of a Cluster every node that has slots) answers and runs scripts, and the service does not drain. Else 503."""
    if x.door.draining:
        raise problems.Draining
    await x.door.measures.usable(x.door.clients)
    return Health("ok")


@table.row(
    "GET", "/version", may=OPEN, gives=Version, while_draining=True, namespaced=False,
    example=Example(answer=Version("0.1.0")),
)  # fmt: skip
async def version(x: Exchange) -> Version:
    """Which tarry this is."""
    return Version(x.door.version)


@table.row("GET", "/metrics", may=ANY, gives=str, media="text/plain", while_draining=True, namespaced=False)
async def metrics(x: Exchange) -> Plain:
    """Prometheus' text format: jobs by state, overdue age, lateness, totals, requests."""
    body, media = await x.door.measures.exposition(x.door.clients, x.passed, x.door.held)
    settings = x.door.settings
    first, maps, queues, locks = settings.namespaces[0], settings.map_caches, settings.moving, settings.locks
    if (maps or queues or locks) and (x.passed is None or x.passed.namespace == first):
        from tarry.programs.service import shared_measures

        body += await shared_measures.exposition(x.door.clients[first], maps, queues, locks, x.door.measures.left_out)
    return Plain(body, media)


@table.row("GET", "/openapi.json", may=OPEN, gives=dict, namespaced=False)
async def openapi_document(x: Exchange) -> Plain:
    """This API as OpenAPI 3.1."""
    return Plain(x.door.document, "application/json")


@table.row(
    "GET", "/problems/{code}", may=OPEN, gives=Told, namespaced=False, refuses=("unknown_route",),
    example=Example(answer=Told("job_exists", 409, inspect.getdoc(JobExists) or "")),
)  # fmt: skip
async def problem(x: Exchange) -> Answered:
    """What a kind of problem means, and what to do."""
    for code, status, told in problems.known():
        if code == x.path["code"]:
            return Answered(Told(code, status, told))
    raise UnknownRoute
