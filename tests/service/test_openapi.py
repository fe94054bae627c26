"""The OpenAPI document: allowed requests are answered as it describes, all others are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.dialects.mounts import ALL_DIALECTS
from tarry.programs.service import openapi
from tarry.programs.service.routes import routes_of
from walked import cases

pytestmark = pytest.mark.slow

ROWS = routes_of(ALL_DIALECTS.mounts("default"))
DOCUMENT = json.loads(openapi.encoded(ROWS))
LONG = {"delay_queue_pop"}
"""Waits for three minutes where nothing is said."""
STREAMS = {"events_of_topic", "events_of_all", "events_ends_of_topic"}
"""Without an end: a topic that keeps jobs streams for ever. Refusals of ``since``: tests/service/test_events.py."""


def test_the_document_is_openapi_3_1_and_has_every_route() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    for row in ROWS:
        operation = DOCUMENT["paths"][row.path][row.method.lower()]
        assert operation["summary"].endswith((".", "`.", "one.", ",")) or operation["summary"], row.path
    names = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]
    assert len(set(names)) == len(names) == len(ROWS)


def test_schemas_have_the_names_of_the_library() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    here = {"TopicSettings", "CheckReport", "MinuteCountsShown", "LimitStatusShown", "MigratedShown", "MigrateQueue"}
    here |= {"PoisonElementShown", "AddPoison"}
    assert here <= schemas.keys()
    former = {
        "TopicDefaults",
        "TopicCheck",
        "MinuteShown",
        "LimitedShown",
        "MovedShown",
        "MoveToTopic",
        "Aside",
        "AsideShown",
    }
    assert not former & schemas.keys()
    both = [DOCUMENT["paths"][f"/v1/{path}/migrate"] for path in ("topics/{topic}", "delayed-queues/{queue}")]
    answers = [path["post"]["responses"]["200"]["content"]["application/json"]["schema"] for path in both]
    assert answers == [{"$ref": "#/components/schemas/MigratedShown"}] * 2


@cases("row", [row for row in ROWS if row.body_model is not None], ids=lambda row: row.name)
def test_every_request_example_fits_its_model(row: Any) -> None:
    assert row.example.request is not None, row.path
    row.decode(msgspec.json.encode(row.example.request))


def test_examples_fit_their_schemas() -> None:
    for path in DOCUMENT["paths"].values():
        for operation in path.values():
            contents = [operation.get("requestBody", {}).get("content", {})]
            contents += [answer.get("content", {}) for answer in operation["responses"].values()]
            for media in (media for content in contents for media in content.values()):
                if "example" in media and media["schema"]:
                    whole = {**media["schema"], "components": DOCUMENT["components"]}
                    jsonschema_rs.validator_for(whole).validate(media["example"])


def test_generators_of_clients_read_each_schema_in_one_way() -> None:
    """A default would be a field that is always there; an ``anyOf`` beside fields would be another model."""
    for name, model in DOCUMENT["components"]["schemas"].items():
        assert "anyOf" not in model, name
        for field, schema in model.get("properties", {}).items():
            place, parts = f"{name}.{field}", schema.get("anyOf", [schema])
            assert "default" not in schema, place
            assert all("anyOf" not in part for part in parts), place
            assert all("type" in part for part in parts if "enum" in part), place
            assert not {"integer", "number"} <= {part.get("type") for part in parts}, place
            assert "``" not in schema.get("description", ""), place
    pop = DOCUMENT["components"]["schemas"]["Pop"]["properties"]
    assert pop["wait"]["description"] == "how long to wait, at most 60 s; seconds, or text. Without it: 0"
    assert [part["type"] for part in pop["ttr"]["anyOf"]] == ["number", "string", "null"]
    assert pop["ttr"]["anyOf"][0] == {"type": "number", "minimum": 0.001, "maximum": 250_000_000_000}


@pytest.mark.parametrize(("delay", "is_allowed"), [(None, True), (0, False), (1, False), ("5m", False)])
def test_a_delay_beside_a_moment_is_refused_also_that_of_no_time(
    fuzzed: RunningService, delay: Any, is_allowed: bool
) -> None:
    """The document and the service agree."""
    job = {"body": 1, "delay": delay, "at": "2000-01-01T00:00:00Z"}
    schema = {"$ref": "#/components/schemas/Add", "components": DOCUMENT["components"]}
    assert jsonschema_rs.validator_for(schema).is_valid(job) == is_allowed
    answer = httpx.post(f"{fuzzed.url}/v1/topics/moments/jobs", json=job)
    assert (answer.status_code < 300) == is_allowed, answer.text


@pytest.mark.parametrize(
    ("options", "is_allowed"),
    [
        ({"if_exists": "once"}, False),
        ({"if_exists": "once", "id": "7"}, True),
        ({"latest": "5m"}, False),
        ({"latest": "5m", "id": "7"}, False),
        ({"latest": "5m", "if_exists": "update", "id": "7"}, False),
        ({"latest": "5m", "if_exists": "replace"}, False),
        ({"latest": "5m", "if_exists": "replace", "id": "7"}, True),
        ({"latest": None, "if_exists": "error"}, True),
    ],
    ids=str,
)
def test_options_that_need_an_id_are_refused_without_one(
    fuzzed: RunningService, options: dict[str, Any], is_allowed: bool
) -> None:
    """The document and the service agree, for one job and for many."""
    httpx.patch(f"{fuzzed.url}/v1/topics/once/settings", json={"keep_finished": "1d"})
    many = {"jobs": [{"body": 1, **({"id": options["id"]} if "id" in options else {})}], **options}
    many.pop("id", None)
    for path, model, job in (("jobs", "Add", {"body": 1, **options}), ("many/add", "AddMany", many)):
        schema = {"$ref": f"#/components/schemas/{model}", "components": DOCUMENT["components"]}
        assert jsonschema_rs.validator_for(schema).is_valid(job) == is_allowed, model
        answer = httpx.post(f"{fuzzed.url}/v1/topics/once/{path}", json=job)
        assert (answer.status_code < 300) == is_allowed, answer.text


@pytest.fixture(scope="module")
def fuzzed(valkey_url: str) -> Iterator[RunningService]:
    own = replace(ALL_DIALECTS, delayed_message="FuzzedMessage")  # a queue whose format no other request says
    with serve(lambda name: AsyncClient(valkey_url, namespace=f"fuzz-{name}"), mounts=own.mounts("default")) as running:
        yield running


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


NAMES = [operation["operationId"] for path in DOCUMENT["paths"].values() for operation in path.values()]


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    """By name. The library is imported here: a second that only the process with this file needs."""
    import schemathesis

    schemathesis.checks.load_all_checks()
    found = [one.ok() for one in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]
    return {str(one.definition.raw["operationId"]): one for one in found}


@pytest.mark.parametrize("examples", [2, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in STREAMS | LONG])
def test_every_operation_answers_as_documented(
    name: str, mode: str, examples: int, operations: dict[str, Any], fuzzed: RunningService
) -> None:
    """Good words are answered as the document says, bad ones refused."""
    from schemathesis.checks import CHECKS
    from schemathesis.generation import GenerationMode

    operation, kind = operations[name], GenerationMode[mode.upper()]
    checks = {check.__name__: check for check in CHECKS.get_all()}

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=operation.as_strategy(generation_mode=kind))
    def hold(case: Any) -> None:
        if isinstance(case.body, dict) and "wait" in case.body and kind is GenerationMode.POSITIVE:
            case.body["wait"] = 0
        answer = case.call(base_url=fuzzed.url)
        excluded = NO_TOKENS + ALWAYS_200 * name.startswith(("delay_queue", "delay_add"))
        if answer.status_code == 503 and "WRONGTYPE" in answer.json()["detail"]:
            return  # names of Java's objects have no namespace: what is a map here was made a queue before
        if answer.status_code == 503 and "this server cannot confirm it" in answer.json()["detail"]:
            return  # durability: the server of the tests has neither replicas nor an append-only file
        if answer.status_code == 400:
            detail = answer.json()["detail"]
            excluded += ["positive_data_acceptance"] * any(re.search(words, detail) for words in UNSAID)
        case.validate_response(answer, excluded_checks=[checks[one] for one in excluded])

    try:
        hold()
    except Unsatisfiable:
        pass  # nothing about it can be wrong
