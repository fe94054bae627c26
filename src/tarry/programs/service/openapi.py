"""The table as OpenAPI 3.1: models by msgspec, everything else from the rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from tarry import __version__
from tarry.clients.http.wire.lock_models import LockName
from tarry.clients.http.wire.schedule_models import NewScheduleName, ScheduleName
from tarry.clients.http.wire.types import JavaName, Name, NewName
from tarry.programs.service import problems, rules
from tarry.programs.service.problems import Problem
from tarry.programs.service.table import Row

ALWAYS = ("bad_input", "internal", "unavailable", "draining", "too_many_connections")
GUARDED = ("not_allowed", "too_many")
PROBLEM = "application/problem+json"
_INTRODUCTION = """Delayed jobs on Redis and Valkey over HTTP: put a job in now, get it out when it is due.

Durations are seconds, or text such as `"10m"`, `"1h30m"`, `"PT10M"`. A path's segment is percent-encoded: a topic `a/b` is
`a%2Fb`. Refusals are problem details (RFC 9457), whose `code` is stable."""
_KINDS: dict[str, Any] = {
    "topic": Name,
    "id": Name,
    "queue": JavaName,
    "map": JavaName,
    "holder": Name,
    "schedule": ScheduleName,
    "lock": LockName,
}


_OURS: dict[str, Any] = {"queue": Name}
_NEW: dict[str, Any] = {"topic": NewName, "queue": NewName, "schedule": NewScheduleName}


def encoded(rows: Sequence[Row]) -> bytes:
    """The document of these rows."""
    return msgspec.json.encode(document(rows))


def document(rows: Iterable[Row]) -> dict[str, Any]:
    """The document of these rows, as data."""
    chosen = list(rows)
    models = [model for row in chosen for model in (row.takes, row.asks, row.gives) if _is_model(model)]
    (_, schemas) = msgspec.json.schema_components([*models, Problem], ref_template="#/components/schemas/{name}")
    paths: dict[str, dict[str, Any]] = {}
    for row in chosen:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, schemas)
    for name, rule in rules.RULES.items():
        if name in schemas:
            schemas[name] |= rule
    asked = {model.__name__ for row in chosen if (model := row.asks) is not None}
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
            "schemas": {name: schema for name, schema in schemas.items() if name not in asked},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "tarry token create"}},
        },
    }


def _operation(row: Row, schemas: dict[str, Any]) -> dict[str, Any]:
    told = inspect.getdoc(row.handler) or ""
    said: dict[str, Any] = {
        "operationId": row.name,
        "tags": [row.tag],
        "summary": told.partition("\n")[0],
        "parameters": [*_places(row), *_query(row, schemas), *_shared(row)],
        "responses": _responses(row),
    }
    if more := told.partition("\n\n")[2]:
        said["description"] = " ".join(more.split())
    if row.takes is not None:
        said["requestBody"] = _body(row)
    if row.may:
        said["security"] = [{}, {"token": []}]
    return said


def _places(row: Row) -> list[dict[str, Any]]:
    found = []
    for place in row.places:
        kind = (_NEW if place in row.makes else _OURS if row.tag == "guarded" else _KINDS).get(place, str)
        schema = msgspec.json.schema(kind)
        parameter = {"name": place, "in": "path", "required": True, "schema": schema}
        if place in row.example.path:
            parameter["example"] = row.example.path[place]
        found.append(parameter)
    return found


def _query(row: Row, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if row.asks is None:
        return []
    model = schemas[row.asks.__name__]
    required = model.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(schema)}
        for name, schema in model["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """In a query what is not given is left out."""
    kept = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    if not kept:
        return schema if schema.get("default", 0) is not None else rest
    return {**rest, **kept[0]} if len(kept) == 1 else {**rest, "anyOf": kept}


def _shared(row: Row) -> list[dict[str, Any]]:
    if not row.namespaced or row.namespace:
        return []
    told = "Keeps applications apart; the service's first, or the token's, where it is not given."
    return [{"name": "namespace", "in": "query", "description": told, "schema": {"type": "string"}}]


def _body(row: Row) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": _media(_ref(row.takes), row.example.request)}
    if row.forms:
        content["application/x-www-form-urlencoded"] = {"schema": _ref(row.takes)}
    elif row.by_hand and row.asks is not None:
        content["application/octet-stream"] = {"schema": {}}
    return {"content": content, "required": _must_be_given(row.takes)}


def _must_be_given(model: Any) -> bool:
    if model.__name__ in rules.RULES:
        return True
    try:
        msgspec.json.decode(b"{}", type=model)
    except msgspec.ValidationError:
        return True
    return False


def _responses(row: Row) -> dict[str, Any]:
    said: dict[str, Any] = {}
    first = 204 if row.gives is None else row.status
    for status, told in ((first, HTTPStatus(first).phrase), *row.also.items()):
        said[str(status)] = {"description": told}
        if status != 204:
            schema = _ref(row.gives) if _is_model(row.gives) else {} if row.gives is not str else {"type": "string"}
            if row.or_null:
                schema = {"anyOf": [schema, {"type": "null"}]}
            said[str(status)]["content"] = {row.media: _media(schema, row.example.answer)}
    by_status: dict[int, list[str]] = {}
    for code, status, _ in problems.known():
        if code in codes_of(row):
            by_status.setdefault(status, []).append(code)
    for status, codes in sorted(by_status.items()):
        said[str(status)] = {
            "description": ", ".join(dict.fromkeys(codes)),
            "content": {PROBLEM: {"schema": _ref(Problem)}},
        }
    return said


def codes_of(row: Row) -> list[str]:
    """The codes of every problem that a row can answer."""
    if row.refused is not None:
        return []
    limits = ("too_large", "too_slow", "wrong_coding") if row.takes is not None else ()
    return list(dict.fromkeys((*ALWAYS, *(GUARDED if row.may else ("not_allowed",)), *limits, *row.refuses)))


def _media(schema: dict[str, Any], example: Any) -> dict[str, Any]:
    return {"schema": schema} if example is None else {"schema": schema, "example": plain(example)}


def plain(example: Any) -> Any:
    """An example as JSON data."""
    return msgspec.json.decode(msgspec.json.encode(example))


def _ref(model: Any) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
