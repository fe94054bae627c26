"""The service itself: is it well, what is it, what can it do."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from msgspec import Struct

from tarry.errors import JobExists
from tarry.programs.service import problems
from tarry.programs.service.problems import UnknownRoute
from tarry.programs.service.responses import PlainResponse, Response
from tarry.programs.service.router import ANY_SCOPE, NO_TOKEN, Example, RouteTable

if TYPE_CHECKING:
    from tarry.programs.service.request import ServiceRequest

table = RouteTable("about")


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


@table.route(
    "GET",
    "/healthz",
    scopes=NO_TOKEN,
    answer_model=Health,
    while_draining=True,
    namespaced=False,
    example=Example(answer=Health("ok")),
)
async def healthz(_: ServiceRequest) -> Health:
    """This process answers."""
    return Health("ok")


@table.route(
    "GET",
    "/readyz",
    scopes=NO_TOKEN,
    answer_model=Health,
    while_draining=True,
    namespaced=False,
    problem_codes=("draining", "unavailable", "server_unfit"),
    example=Example(answer=Health("ok")),
)
async def readyz(x: ServiceRequest) -> Health:
    """The server (of a Cluster every node that has slots) answers and runs scripts, and the service does not drain. Else 503."""
    if x.app.draining:
        raise problems.Draining
    await x.app.metrics.check_usable(x.app.clients)
    return Health("ok")


@table.route(
    "GET", "/version", scopes=NO_TOKEN, answer_model=Version, while_draining=True, namespaced=False,
    example=Example(answer=Version("0.1.0")),
)  # fmt: skip
async def version(x: ServiceRequest) -> Version:
    """Which tarry this is."""
    return Version(x.app.version)


@table.route(
    "GET", "/metrics", scopes=ANY_SCOPE, answer_model=str, media="text/plain", while_draining=True, namespaced=False
)
async def metrics(x: ServiceRequest) -> PlainResponse:
    """Prometheus' text format: jobs by state, overdue age, lateness, totals, requests."""
    body, media = await x.app.metrics.exposition(x.app.clients, x.credential, x.app.held)
    settings = x.app.settings
    first, maps, queues, locks = settings.namespaces[0], settings.map_caches, settings.moved_queues, settings.locks
    if (maps or queues or locks) and (x.credential is None or x.credential.namespace == first):
        from tarry.programs.service import shared_metrics

        body += await shared_metrics.exposition(x.app.clients[first], maps, queues, locks, x.app.metrics.skipped)
    return PlainResponse(body, media)


@table.route("GET", "/openapi.json", scopes=NO_TOKEN, answer_model=dict, namespaced=False)
async def openapi_document(x: ServiceRequest) -> PlainResponse:
    """This API as OpenAPI 3.1."""
    return PlainResponse(x.app.document, "application/json")


@table.route(
    "GET", "/problems/{code}", scopes=NO_TOKEN, answer_model=Told, namespaced=False, problem_codes=("unknown_route",),
    example=Example(answer=Told("job_exists", 409, inspect.getdoc(JobExists) or "")),
)  # fmt: skip
async def problem(x: ServiceRequest) -> Response:
    """What a kind of problem means, and what to do."""
    for code, status, told in problems.all_codes():
        if code == x.path["code"]:
            return Response(Told(code, status, told))
    raise UnknownRoute
