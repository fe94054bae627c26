"""The OpenAPI document: allowed requests are answered as it describes, all others are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from http.client import HTTPConnection
from typing import Any, NamedTuple

import httpx
import jsonschema_rs
import msgspec
import pytest

from service import drawn_requests
from service.drawn_requests import DOCUMENT, MODES, NAMES, OPERATIONS, ROWS, inputs_of, kept_operations
from service.running_service import RunningService
from until import LONGEST_S
from walked import cases, each

pytestmark = pytest.mark.slow


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
    with drawn_requests.service(valkey_url) as running:
        yield running


@pytest.fixture
def line(fuzzed: RunningService) -> Iterator[HTTPConnection]:
    with closing(HTTPConnection("127.0.0.1", fuzzed.port, timeout=LONGEST_S)) as made:
        yield made


class Kept(NamedTuple):
    """A request that is kept, and what it is one of."""

    operation: str
    mode: str
    number: int
    asked: drawn_requests.Kept


KEPT = [
    Kept(name, mode, number, asked)
    for name, one in kept_operations().items()
    for mode in MODES
    for number, asked in enumerate(getattr(one, mode), 1)
]


@cache
def validator(schema: str) -> Any:
    return jsonschema_rs.validator_for({**json.loads(schema), "components": DOCUMENT["components"]})


def test_requests_are_kept_of_each_operation_as_it_is() -> None:
    changed = [name for name, one in kept_operations().items() if name not in NAMES or one.inputs != inputs_of(name)]
    assert [*changed, *set(NAMES) - kept_operations().keys()] == [], "run in tests: python -m service.drawn_requests"


@each(KEPT, lambda kept: f"{kept.operation}-{kept.mode}-{kept.number}")
def test_each_kept_request_is_answered_as_documented(kept: Kept, fuzzed: RunningService, line: HTTPConnection) -> None:
    """Good words are answered as the document says, bad ones refused."""
    asked, responses = kept.asked, OPERATIONS[kept.operation]["responses"]
    line.request(asked.method, asked.path, asked.body.encode("latin-1"), asked.headers)
    answer = line.getresponse()
    status, body, kind = answer.status, answer.read(), answer.headers.get("content-type", "").partition(";")[0]
    if drawn_requests.excused(status, body):
        return
    assert status < 500, body
    assert str(status) in responses, body
    assert (status == 400) == asked.is_refused, body
    described = responses[str(status)].get("content", {})
    assert kind in described or "*/*" in described or not (kind or described), (kind, body)
    if kind.endswith("json") and kind in described:
        error = next(validator(json.dumps(described[kind]["schema"])).iter_errors(json.loads(body)), None)
        assert error is None, (str(error), body)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_every_operation_answers_as_documented(name: str, mode: str, fuzzed: RunningService) -> None:
    """The same of twenty requests of each, drawn now."""
    drawn_requests.draw(name, mode, 20, fuzzed.url)
