"""The reference page of the service's routes, from their table; written by ``docs/generate.py``."""

from __future__ import annotations

import json

import msgspec

from tarry.programs.dialects.mounts import ALL_DIALECTS
from tarry.programs.service.routes import routes_of
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving import problems
from tarry.programs.serving.router import Route
from tarry.wire.endpoint import NO_TOKEN

OPENING = """\
Every route of `tarry serve`; see also [how to use it](../how-to/use-http.md). The same as OpenAPI 3.1 is at `/openapi.json`. Every route
about topics takes `?namespace=`, unless it is the service's first or the token's. Errors are problem details (RFC 9457), whose `code` is
in the table at the end.
"""
TITLES = {
    "jobs": "Jobs, one by one",
    "many": "Many jobs at once",
    "topics": "Topics",
    "schedules": "Jobs that come again",
    "delayed_queues": "Delayed queues shared with Java",
    "guarded_queues": "Guarded queues",
    "maps": "Map caches shared with Java",
    "locks": "Locks shared with Java",
    "events": "A stream of changes, as server-sent events",
    "about": "The service itself",
    "delay": "Dialect: the `DelayController` of Youzan's design on Spring Boot",
    "delay_queue": "Dialect: Youzan's design in Go",
    "delayed": "Dialect: the `DelayedTaskController` on Redisson",
}
SCOPES = ("produce", "consume", "admin")


def http_page() -> str:
    """Every row, by its tag."""
    parts, tag = ["# The service's routes\n", OPENING], ""
    for row in routes_of(ALL_DIALECTS.mounts(ServiceSettings().namespaces[0])):
        if row.tag != tag:
            tag = row.tag
            parts.append(f"## {TITLES.get(tag, tag.capitalize())}\n")
        parts.append(_section(row))
    codes = "".join(f"| `{code}` | {status} | {_line(told)} |\n" for code, status, told in problems.all_codes())
    parts.append("## Problems\n\n| `code` | status | meaning |\n|---|---|---|\n" + codes)
    return "\n".join(parts)


def _section(row: Route) -> str:
    text = f"### `{row.method} {row.path}`\n\n{row.summary.replace('``', '`')}\n\n{_terms(row)}\n"
    if row.example.request is not None:
        text += f"\nFor example:\n\n```json\n{_json(row.example.request)}\n```\n"
    if row.example.answer is not None:
        before = "is answered" if row.example.request is not None else "For example, the answer"
        text += f"\n{before}:\n\n```json\n{_json(row.dump(row.example.answer))}\n```\n"
    return text


def _terms(row: Route) -> str:
    said = []
    if row.query_model is not None and not row.reads_body:
        names = ", ".join(f"`{name}`" for name in row.query_model.__struct_encode_fields__)
        said.append(f"Query: {names}.")
    first = 204 if row.answer_model is None else row.status
    told = [f"{first}", *(f"{status} ({words.rstrip('.')})" for status, words in row.other_statuses.items())]
    said.append(
        f"Answers {', '.join(told)}"
        + (f", or {', '.join(f'`{code}`' for code in row.problem_codes)}." if row.problem_codes else ".")
    )
    may = [scope for scope in SCOPES if scope in row.scopes]
    said.append("No token is required." if row.scopes == NO_TOKEN else f"Scope: {' or '.join(may)}.")
    return " ".join(said)


def _json(example: object) -> str:
    text = json.dumps(msgspec.json.decode(msgspec.json.encode(example)), ensure_ascii=False)
    return text if len(text) <= 110 else json.dumps(json.loads(text), ensure_ascii=False, indent=2)


def _line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
