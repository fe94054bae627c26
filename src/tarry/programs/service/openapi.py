"""The routes as an OpenAPI 3.1 document: schemas by msgspec, everything else from the routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from tarry import __version__
from tarry.programs.service import plain_schemas, schema_rules
from tarry.programs.serving import problems
from tarry.programs.serving.problems import Problem
from tarry.programs.serving.router import Route
from tarry.wire.endpoints.lock_endpoints import LockName
from tarry.wire.endpoints.schedule_endpoints import ScheduleId
from tarry.wire.types import JavaName, Name

ALWAYS = ("bad_input", "internal", "unavailable", "draining", "too_many_connections")
WITH_TOKEN = ("not_allowed", "too_many")
PROBLEM = "application/problem+json"
_INTRODUCTION = """Delayed jobs on Redis and Valkey over HTTP: put a job in now, get it out when it is due.

Durations are seconds, or text such as `"10m"`, `"1h30m"`, `"PT10M"`. A path's segment is percent-encoded: a topic `a/b` is
`a%2Fb`. Refusals are problem details (RFC 9457), whose `code` is stable."""
_PATH_TYPES: dict[str, Any] = {
    "topic": Name,
    "id": Name,
    "queue": JavaName,
    "map": JavaName,
    "holder": Name,
    "schedule": ScheduleId,
    "lock": LockName,
}


_GUARDED_TYPES: dict[str, Any] = {"queue": Name}


def encoded(routes: Sequence[Route], root_path: str = "") -> bytes:
    """The document of these routes, as JSON; of a service below a path with its server's."""
    found = document(routes)
    schemas = found["components"]["schemas"]
    schemas |= {name: plain_schemas.without_defaults(model) for name, model in schemas.items()}
    return msgspec.json.encode({**found, "servers": [{"url": root_path}]} if root_path else found)


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document of these routes, as data."""
    chosen = list(routes)
    models = [
        model
        for route in chosen
        for model in (route.body_model, route.query_model, route.answer_model)
        if _is_model(model)
    ]
    (_, written) = msgspec.json.schema_components([*models, Problem], ref_template="#/components/schemas/{name}")
    schemas: dict[str, dict[str, Any]] = {name: plain_schemas.plain(schema) for name, schema in written.items()}
    paths: dict[str, dict[str, Any]] = {}
    for route in chosen:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    for name, rule in schema_rules.RULES.items():
        if name in schemas:
            schemas[name] |= rule
    query_models = {model.__name__ for route in chosen if (model := route.query_model) is not None}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tarry",
            "version": __version__,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in schemas.items() if name not in query_models},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "tarry token create"}},
        },
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    description = route.description
    given: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": description.partition("\n")[0],
        "parameters": [*_path_parameters(route), *_query_parameters(route, schemas), *_common_parameters(route)],
        "responses": _responses(route),
    }
    if more := description.partition("\n\n")[2]:
        given["description"] = " ".join(more.split())
    if route.body_model is not None:
        given["requestBody"] = _body(route)
    if route.scopes:
        given["security"] = [{}, {"token": []}]
    return given


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    for place in route.path_names:
        kind = (_GUARDED_TYPES if route.tag == "guarded_queues" else _PATH_TYPES).get(place, str)
        schema = msgspec.json.schema(kind)
        parameter = {"name": place, "in": "path", "required": True, "schema": schema}
        if place in route.example.path:
            parameter["example"] = route.example.path[place]
        found.append(parameter)
    return found


def _query_parameters(route: Route, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if route.query_model is None:
        return []
    model = schemas[route.query_model.__name__]
    required = model.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(schema)}
        for name, schema in model["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without null: in a query, null means to leave the parameter out."""
    kept = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    if not kept:
        return schema if schema.get("default", 0) is not None else rest
    return {**rest, **kept[0]} if len(kept) == 1 else {**rest, "anyOf": kept}


def _common_parameters(route: Route) -> list[dict[str, Any]]:
    if not route.namespaced or route.namespace:
        return []
    description = "Separates applications. Without it: the namespace of the token, or the service's first one."
    return [{"name": "namespace", "in": "query", "description": description, "schema": {"type": "string"}}]


def _body(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": _media(_ref(route.body_model), route.example.request)}
    if route.forms:
        content["application/x-www-form-urlencoded"] = {"schema": _ref(route.body_model)}
    elif route.reads_body and route.query_model is not None:
        content["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    return {"content": content, "required": _is_required(route.body_model)}


def _is_required(model: Any) -> bool:
    if model.__name__ in schema_rules.RULES:
        return True
    try:
        msgspec.json.decode(b"{}", type=model)
    except msgspec.ValidationError:
        return True
    return False


def _responses(route: Route) -> dict[str, Any]:
    given: dict[str, Any] = {}
    first = 204 if route.answer_model is None else route.status
    for status, description in ((first, HTTPStatus(first).phrase), *route.other_statuses.items()):
        given[str(status)] = {"description": description}
        if status != 204:
            schema = (
                _ref(route.answer_model)
                if _is_model(route.answer_model)
                else {}
                if route.answer_model is not str
                else {"type": "string"}
            )
            if route.or_null:
                schema = {"anyOf": [schema, {"type": "null"}]}
            given[str(status)]["content"] = {
                route.media: _media(schema, None if route.example.answer is None else route.dump(route.example.answer))
            }
    by_status: dict[int, list[str]] = {}
    for code, status, _ in problems.all_codes():
        if code in codes_of(route):
            by_status.setdefault(status, []).append(code)
    for status, codes in sorted(by_status.items()):
        given[str(status)] = {
            "description": ", ".join(dict.fromkeys(codes)),
            "content": {PROBLEM: {"schema": _ref(Problem)}},
        }
    return given


def codes_of(route: Route) -> list[str]:
    """The codes of all problems that a route can answer."""
    if route.problem_answer is not None:
        return []
    limits = ("too_large", "too_slow", "wrong_coding") if route.body_model is not None else ()
    return list(
        dict.fromkeys((*ALWAYS, *(WITH_TOKEN if route.scopes else ("not_allowed",)), *limits, *route.problem_codes))
    )


def _media(schema: dict[str, Any], example: Any) -> dict[str, Any]:
    return {"schema": schema} if example is None else {"schema": schema, "example": plain(example)}


def plain(example: Any) -> Any:
    """An example as JSON data."""
    return msgspec.json.decode(msgspec.json.encode(example))


def _ref(model: Any) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
