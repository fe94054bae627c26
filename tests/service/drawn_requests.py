"""Requests that schemathesis draws from the OpenAPI document, good ones and bad ones, and those that are kept.

Of an operation nearly the same requests are drawn each time, and to draw them takes a hundred times as long as to answer them. So two good ones and
two bad ones of each are kept in ``drawn_requests.json``, with what their answers have to be, and a test sends them again. An operation is drawn
anew when what it takes has changed:  in tests, python -m service.drawn_requests  (half a minute for all).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.dialects.mounts import ALL_DIALECTS
from tarry.programs.service import openapi
from tarry.programs.service.routes import routes_of

ROWS = routes_of(ALL_DIALECTS.mounts("default"))
DOCUMENT = json.loads(openapi.encoded(ROWS))
OPERATIONS = {operation["operationId"]: operation for path in DOCUMENT["paths"].values() for operation in path.values()}
LONG = {"delay_queue_pop"}
"""Waits for three minutes where nothing is said."""
STREAMS = {"events_of_topic", "events_of_all", "events_ends_of_topic"}
"""Without an end: a topic that keeps jobs streams for ever. Refusals of ``since``: tests/service/test_events.py."""
NAMES = [name for name in OPERATIONS if name not in STREAMS | LONG]
MODES = ("positive", "negative")
KEPT_FILE = Path(__file__).with_suffix(".json")
EXAMPLES = 2
"""Kept of each operation and mode, where there are so many."""
OWN_HEADERS = {"accept", "accept-encoding", "connection", "content-length", "user-agent", "x-schemathesis-testcaseid"}
"""What no example is about."""

NO_TOKENS = ["ignored_auth"]
"""No token is asked for here; tests/service/test_tokens.py."""
ALWAYS_200 = ["negative_data_rejection"]
"""The dialect of the Go implementation refuses with a code in the body; tests/dialects/test_dialect_of_go.py. What the body of
/delay/add lacks may stand in its query."""
UNSAID = {
    r"it has \d+ bytes of UTF-8": "a schema counts letters, and names are counted in bytes",
    r"\(a lone surrogate\)": "half of a surrogate pair is a letter to a schema",
    r"begins or ends with a blank": "blanks beyond ASCII are one thing in Python, and another in ECMAScript's patterns",
    r"contains a control character": "as those are",
    r"^headers: \d+ bytes": "what all headers have together",
    r"is no time zone": "which there are is known to the machine",
    r"^cron: ": "what a calendar has: 31 February, the order of a range",
    r"beyond the year 9999|never comes": "sums with the present",
    r"is before 1970": "what a moment is in UTC",
    r"^(due_after, due_before: reserved, dead|group: only dead)": "what two parameters of a query have to do with each other",
    r"^query: put the options of a JSON request": "what a query and a body have to do with each other",
    r"^delay and at: give one|^(latest|if_exists): .*; give (id=|if_exists=)": "as these are, in the query of an add",
    r"^(job \d+: )?latest: it is shorter": "a comparison of two values",
    r"missing required field `(delay|value|id|topic)`": "what may stand in the query or in the body",
    r"is given twice": "which elements of a list have an id in common",
    r"^atomic: too much": "a sum of bytes",
    r"is a plain topic that has been used|^partitions: ": "what has happened before",
    r"declares it; change it there": "as that is",
    r"^migrate: a topic cannot move into itself": "a path and a body that say the same",
    r"^(values?|keys?|element|codec|long|string|json|kryo5|river)\b.*": "what a codec of Java takes",
    r"may have either of two defaults": "which versions of Redisson changed a default",
    r"(the inside of|belongs to) something else": "the path of a queue, told by its beginning",
}
"""Refusals of what the document allows: what no schema can say, each with the reason."""


class Kept(msgspec.Struct, frozen=True):
    """A request as it was sent, and whether its words are refused (400)."""

    method: str
    path: str
    headers: dict[str, str]
    body: str
    """Each character is a byte."""
    is_refused: bool


class KeptOperation(msgspec.Struct, frozen=True):
    """The requests of an operation, and what it took when they were drawn."""

    inputs: str
    positive: list[Kept]
    negative: list[Kept]


@cache
def kept_operations() -> dict[str, KeptOperation]:
    return msgspec.json.decode(KEPT_FILE.read_bytes(), type=dict[str, KeptOperation])


@contextmanager
def service(url: str) -> Iterator[RunningService]:
    """With all dialects, for requests that say anything."""
    own = replace(ALL_DIALECTS, delayed_message="FuzzedMessage")  # a queue whose format no other request says
    with serve(lambda name: AsyncClient(url, namespace=f"fuzz-{name}"), mounts=own.mounts("default")) as running:
        yield running


def excused(status: int, answer: bytes) -> bool:
    """The tests' server cannot do it."""
    if status != 503:
        return False
    detail = json.loads(answer)["detail"]
    # names of Java's objects have no namespace: what is a map here was made a queue before
    # durability: the server of the tests has neither replicas nor an append-only file
    return "WRONGTYPE" in detail or "this server cannot confirm it" in detail


def inputs_of(name: str) -> str:
    """A mark of all that an operation takes, without what is said about it."""
    operation = OPERATIONS[name]
    plain: list[Any] = [operation.get("parameters"), operation.get("requestBody")]
    seen = dict[str, Any]()

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value and value["$ref"] not in seen:
                seen[value["$ref"]] = None
                found: Any = DOCUMENT
                for part in value["$ref"].split("/")[1:]:
                    found = found[part]
                seen[value["$ref"]] = walk(found)
            return {
                key: walk(held)
                for key, held in value.items()
                if key not in ("example", "examples")
                and not (key in ("description", "title") and isinstance(held, str))
            }
        return [walk(held) for held in value] if isinstance(value, list) else value

    said = json.dumps([walk(plain), sorted(seen.items())], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Drawing(NamedTuple):
    """Schemathesis, which is imported here: a second that only who draws needs."""

    operations: dict[str, Any]
    checks: dict[str, Any]


@cache
def drawing() -> Drawing:
    import schemathesis
    from schemathesis.checks import CHECKS

    schemathesis.checks.load_all_checks()
    found = [one.ok() for one in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]
    operations = {str(one.definition.raw["operationId"]): one for one in found}
    return Drawing(operations, {check.__name__: check for check in CHECKS.get_all()})


def draw(name: str, mode: str, examples: int, url: str, seen: Callable[[Any], object] = lambda answer: None) -> None:
    """Sends so many requests: good words are answered as the document says, bad ones refused. Tells of each answer."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis.generation import GenerationMode

    operation, kind = drawing().operations[name], GenerationMode[mode.upper()]

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=kind))
    def hold(case: Any) -> None:
        if isinstance(case.body, dict) and "wait" in case.body and kind is GenerationMode.POSITIVE:
            case.body["wait"] = 0
        answer = case.call(base_url=url)
        seen(answer)
        excluded = NO_TOKENS + ALWAYS_200 * name.startswith(("delay_queue", "delay_add"))
        if excused(answer.status_code, answer.content):
            return
        if answer.status_code == 400:
            detail = answer.json()["detail"]
            excluded += ["positive_data_acceptance"] * any(re.search(words, detail) for words in UNSAID)
        case.validate_response(answer, excluded_checks=[drawing().checks[one] for one in excluded])

    try:
        hold()
    except Unsatisfiable:
        pass  # nothing about it can be wrong


def main() -> None:
    """Draws anew what has changed."""
    import servers

    os.environ["TARRY_REDISSON"] = "4.7.0"  # as tests/conftest.py does
    before = kept_operations() if KEPT_FILE.exists() else {}
    made = dict[str, KeptOperation]()
    with servers.server(servers.valkey_binary()) as server, service(server.url) as running:
        for name in NAMES:
            made[name] = old = before.get(name) or KeptOperation("", [], [])
            if old.inputs != inputs_of(name):
                made[name] = KeptOperation(inputs_of(name), *(_drawn(name, mode, running.url) for mode in MODES))
    KEPT_FILE.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")


def _drawn(name: str, mode: str, url: str) -> list[Kept]:
    kept = list[Kept]()

    def keep(answer: Any) -> None:
        asked = answer.request
        headers = {key: value for key, value in asked.headers.items() if key.lower() not in OWN_HEADERS}
        body = (asked.body or b"") if not isinstance(asked.body, str) else asked.body.encode()
        path = asked.url.removeprefix(url)
        kept.append(Kept(asked.method, path, headers, body.decode("latin-1"), answer.status_code == 400))

    draw(name, mode, EXAMPLES, url, keep)
    return kept


if __name__ == "__main__":
    main()
