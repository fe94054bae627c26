"""Routes about the service itself: health, version, metrics, documents."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from tarry import __version__
from tarry.errors import JobExists, Unavailable
from tarry.programs.service.topic_verdicts import TopicVerdict
from tarry.programs.serving import problems
from tarry.programs.serving.conditions import assess_server
from tarry.programs.serving.documents import negotiated
from tarry.programs.serving.problems import UnknownRoute
from tarry.programs.serving.responses import PlainResponse, Response
from tarry.programs.serving.router import RouteTable
from tarry.wire.endpoint import ANY_SCOPE, NO_TOKEN, Example

if TYPE_CHECKING:
    from tarry.programs.service.settings import ServiceSettings
    from tarry.programs.serving.request import ServiceRequest

table = RouteTable("about")


class Health(Struct, omit_defaults=True):
    """``ok``; a problem otherwise. Readiness has more: ``conditions``, the kinds of the server's conditions; ``topics``, how many
    topics have each condition as their worst one; and the ``worst_topics``, ten at most, for a request that may see them."""

    status: str
    conditions: list[str] = []
    topics: dict[str, int] = {}
    worst_topics: list[TopicVerdict] = []


class Version(Struct):
    """The version of this service."""

    version: str


class ProblemKind(Struct):
    """A kind of problem."""

    code: str
    status: int
    told: str


@table.route(
    "GET",
    "/healthz",
    scopes=NO_TOKEN,
    returns=Health,
    while_draining=True,
    namespaced=False,
    example=Example(answer=Health("ok")),
)
async def healthz(_: ServiceRequest) -> Health:
    """Liveness: this process answers."""
    return Health("ok")


@table.route(
    "GET",
    "/readyz",
    scopes=NO_TOKEN,
    returns=Health,
    while_draining=True,
    namespaced=False,
    problem_codes=("draining", "unavailable", "server_unfit"),
    example=Example(answer=Health("ok")),
)
async def readyz(request: ServiceRequest) -> Health:
    """Readiness: the server (every node of a Cluster that has slots) answers and runs scripts, and the service does not drain. Otherwise 503.
    Topics do not count: a service that is taken out of use repairs none of them. The answer says what is wrong with them, as of the last
    half minute: how many have each condition, and to a request with a token, as to all where none is needed, which are the worst."""
    if request.app.draining:
        raise problems.Draining
    clients, metrics = request.app.clients, request.app.metrics
    server = await metrics.check_usable(clients)
    await metrics.verdicts.look(clients, server)
    return Health(
        "ok",
        [condition.kind for condition in assess_server(server)],
        metrics.verdicts.count(),
        metrics.verdicts.worst(await request.app.authorizer.visible_namespaces(request.headers)),
    )


@table.route(
    "GET", "/version", scopes=NO_TOKEN, returns=Version, while_draining=True, namespaced=False,
    example=Example(answer=Version(__version__)),
)  # fmt: skip
async def version(request: ServiceRequest) -> Version:
    """The version of tarry."""
    return Version(request.app.version)


@table.route(
    "GET", "/metrics", scopes=ANY_SCOPE, returns=str, media="text/plain", while_draining=True, namespaced=False
)
async def metrics(request: ServiceRequest) -> PlainResponse:
    """Prometheus' text format: jobs by state, overdue age, lateness, totals, requests. While the server does not answer, it has what the
    service has counted itself, and `tarry_server_up` is 0."""
    try:
        return await _exposition(request)
    except Unavailable:
        return PlainResponse(*request.app.metrics.without_server())


async def _exposition(request: ServiceRequest) -> PlainResponse:
    body, media = await request.app.metrics.exposition(request.app.clients, request.credential)
    settings, queues = cast("ServiceSettings", request.app.settings), request.app.moved_queues
    first, maps = settings.namespaces[0], settings.map_caches
    locks = [*((name, False) for name in settings.locks), *((name, True) for name in settings.shared_locks)]
    if (maps or queues or locks) and (request.credential is None or request.credential.namespace == first):
        from tarry.programs.service import shared_metrics

        body += await shared_metrics.exposition(
            request.app.clients[first], maps, queues, locks, request.app.metrics.skipped
        )
    return PlainResponse(body, media)


@table.route("GET", "/openapi.json", scopes=NO_TOKEN, returns=dict, namespaced=False)
async def openapi_document(request: ServiceRequest) -> Response:
    """This API as OpenAPI 3.1."""
    accepted = request.headers.get(b"accept-encoding", b"").decode("latin-1")
    document, headers = negotiated(request.app.document, accepted)
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Response(PlainResponse(document, "application/json"), headers=pairs)


@table.route(
    "GET", "/problems/{code}", scopes=NO_TOKEN, returns=ProblemKind, namespaced=False, problem_codes=("unknown_route",),
    example=Example(answer=ProblemKind("job_exists", 409, inspect.getdoc(JobExists) or "")),
)  # fmt: skip
async def problem(request: ServiceRequest) -> Response:
    """The meaning of a problem's code, and what to do."""
    for code, status, told in problems.all_codes():
        if code == request.path["code"]:
            return Response(ProblemKind(code, status, told))
    raise UnknownRoute
