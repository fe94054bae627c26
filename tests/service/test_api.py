"""Jobs over the API: every verb, bodies as they are, keys against repeats."""

from __future__ import annotations

import base64
from typing import Any

import httpx
import pytest

from service.job_calls import JOBS, MANY, add, pop
from service.running_service import Api, RunningService
from tarry import AsyncClient, BadInput
from tarry.clients.testing import Clock


@pytest.mark.parametrize("delay", [600, 600.0, "600", "10m", "PT10M", "600000ms"])
def test_a_job_is_handed_out_when_it_is_due(api: Api, clock: Clock, delay: Any) -> None:
    added = add(api, {"order": 7}, delay=delay, id="7")
    assert (added["id"], added["is_new"], added["state"]) == ("7", True, "delayed")
    clock.advance("9m 59s")
    assert api.post("/v1/topics/orders/pop", {}, 204) is None
    clock.advance("1s")
    job = pop(api)
    assert (job["id"], job["body"], job["attempt"], job["lateness_ms"], job["ttr_ms"]) == (
        "7",
        {"order": 7},
        1,
        0,
        60000,
    )
    assert job["due"] == added["due"]


def test_the_highest_priority_is_handed_out_first(api: Api) -> None:
    add(api, id="plain")
    add(api, id="urgent", priority=3)
    params = {"id": "raw", "priority": "2", "namespace": api.namespace}
    api("POST", JOBS, content=b"raw", headers={"content-type": "image/x"}, params=params)
    api.post(
        MANY + "/add", {"jobs": [{"body": 1, "id": "shared"}, {"body": 1, "id": "none", "priority": 0}], "priority": 1}
    )
    assert api.get(f"{JOBS}/urgent")["priority"] == 3
    found = [pop(api) for _ in range(5)]
    assert [job["id"] for job in found] == ["urgent", "raw", "shared", "none", "plain"]
    assert [job.get("priority") for job in found] == [3, 2, 1, None, None]


def test_a_waiting_pop_is_answered_when_the_job_is_due(api: Api) -> None:
    add(api, delay="40s")
    assert pop(api, wait="PT1M")["body"] == "tea"
    assert api.post("/v1/topics/orders/pop", {"wait": 30}, 204) is None


def test_a_wait_is_at_most_a_minute(api: Api) -> None:
    assert api.refused("POST", "/v1/topics/orders/pop", {"wait": 61}) == (400, "bad_input")


def test_at_sets_the_due_time(api: Api, clock: Clock) -> None:
    add(api, at="2027-01-15T08:30:00+00:00")
    clock.advance("30m")
    assert pop(api)["due"] == "2027-01-15T08:30:00Z"
    assert api.refused("POST", JOBS, {"body": 1, "at": "2027-01-15T08:30:00"}) == (400, "bad_input"), "no time zone"


def test_settling_needs_the_receipt(api: Api, clock: Clock) -> None:
    add(api, id="7")
    job = pop(api, ttr=30)
    api.post(f"{JOBS}/7/touch", {"receipt": job["receipt"], "ttr": "1m"}, 204)
    clock.advance("45s")
    api.post(f"{JOBS}/7/release", {"receipt": job["receipt"], "delay": 5, "reason": "no answer"}, 204)
    assert api.get(f"{JOBS}/7")["reason"] == "no answer"
    clock.advance(5)
    again = pop(api)
    assert again["attempt"] == 2
    answer = api("POST", f"{JOBS}/7/finish", {"receipt": job["receipt"]})
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["reason"], problem["attempt"]) == (
        409,
        "stale_receipt",
        "again",
        2,
    )
    api.post(f"{JOBS}/7/bury", {"receipt": again["receipt"], "reason": "no such order"}, 204)
    shown = api.get(f"{JOBS}/7")
    assert (shown["state"], shown["reason"]) == ("dead", "no such order")
    assert api.post(f"{JOBS}/7/kick") == {"was": "dead"}
    api.post(f"{JOBS}/7/finish", {"receipt": pop(api)["receipt"]}, 204)
    assert api.refused("GET", f"{JOBS}/7") == (404, "unknown_job")


def test_a_consumer_of_any_language_keeps_steps(api: Api, clock: Clock) -> None:
    add(api, id="7")
    job = pop(api, ttr=30)
    assert "steps" not in job
    step = {"receipt": job["receipt"], "name": "charge", "result": {"receipt": "ch_17"}}
    for again in ({}, {"result": "another"}):
        assert api.post(f"{JOBS}/7/step", step | again) == {"result": {"receipt": "ch_17"}}
    clock.advance(31)
    holder = pop(api)
    assert holder["steps"] == api.get(f"{JOBS}/7")["steps"] == {"charge": {"receipt": "ch_17"}}
    assert api.refused("POST", f"{JOBS}/7/step", step) == (409, "stale_receipt")
    more = {"receipt": holder["receipt"], "name": "mail"}
    answer = api("POST", f"{JOBS}/7/step", more | {"result": "x" * 70_000})
    assert (answer.status_code, answer.json()["code"], answer.json()["step"]) == (422, "step_not_kept", "mail")
    for wrong in (
        more,
        more | {"result": 1, "name": ""},
        more | {"result": 1, "receipt": 0},
        more | {"result": 1, "x": 1},
    ):
        assert api.refused("POST", f"{JOBS}/7/step", wrong) == (400, "bad_input")
    assert api.post(f"{JOBS}/7/step", more | {"result": None}) == {"result": None}


def test_a_release_without_a_delay_backs_off_by_the_attempt(api: Api, clock: Clock) -> None:
    add(api, id="7")
    for _ in range(4):
        api.post(f"{JOBS}/7/release", {"receipt": pop(api)["receipt"], "delay": 0}, 204)
    api.post(f"{JOBS}/7/release", {"receipt": pop(api)["receipt"]}, 204)
    clock.advance(0.8 * 16 - 1)
    assert api.get(f"{JOBS}/7")["state"] == "delayed"
    clock.advance(0.4 * 16 + 1)
    assert api.get(f"{JOBS}/7")["state"] == "ready"


def test_jobs_are_rescheduled_and_deleted_by_id(api: Api, clock: Clock) -> None:
    add(api, id="7", delay="1h")
    assert api.post(f"{JOBS}/7/reschedule", {"delay": "10s"}) == {"was": "delayed"}
    clock.advance(10)
    assert api.get(f"{JOBS}/7")["state"] == "ready"
    assert api("DELETE", f"{JOBS}/7").json() == {"was": "ready"}
    for method, path, said in (("DELETE", "", None), ("POST", "/kick", None), ("POST", "/reschedule", {"delay": 1})):
        assert api.refused(method, f"{JOBS}/7{path}", said) == (404, "unknown_job")


def test_an_existing_id_is_refused_kept_or_replaced(api: Api) -> None:
    add(api, "tea", id="7", delay="1h")
    answer = api("POST", JOBS, {"body": "coffee", "id": "7"})
    assert (answer.status_code, answer.json()["code"], answer.json()["state"]) == (409, "job_exists", "delayed")
    kept = add(api, "coffee", 200, id="7", if_exists="keep")
    assert (kept["is_new"], kept["state"]) == (False, "delayed")
    add(api, "coffee", 201, id="7", if_exists="replace")
    assert pop(api)["body"] == "coffee"


def test_an_existing_job_is_updated_or_put_off_no_longer_than_latest(api: Api, clock: Clock) -> None:
    """With a key, too: ids are made of it, and `latest` needs one that the producer knows."""
    event = {"id": "7", "if_exists": "replace", "delay": "10s", "latest": "15s"}
    first = add(api, "tea", 201, **event)
    clock.advance(9)
    assert add(api, "coffee", 201, **event)["due"][:19] == add(api, "cake", 201, **{**event, "delay": "6s"})["due"][:19]
    updated = add(api, "rice", 200, id="7", if_exists="update")
    assert (updated["is_new"], updated["state"]) == (False, "delayed")
    clock.advance(6)
    assert pop(api)["body"] == "rice"
    assert first["state"] == "delayed"
    keyed = {"idempotency-key": "one"}
    for path, said in ((JOBS, {"body": 1}), (f"{MANY}/add", {"jobs": [{"body": 1}]})):
        for headers in ({}, keyed):
            answer = api("POST", path, {**said, "if_exists": "replace", "latest": "5m"}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
            assert "latest: without an id" in answer.json()["detail"]
    refused = api("POST", JOBS, {"body": 1, "id": "7", "latest": "5m"}).json()
    assert 'give if_exists="replace"' in refused["detail"]


def test_the_batch_verbs_work(api: Api, clock: Clock) -> None:
    jobs = [{"body": n, "id": str(n)} for n in range(5)] + [{"body": "late", "delay": "1h"}]
    added = api.post(f"{MANY}/add", {"jobs": jobs, "delay": 5})["jobs"]
    assert [job["id"] for job in added[:5]] == list("01234")
    assert [job["state"] for job in added] == ["delayed"] * 6
    clock.advance("5001ms")
    taken = api.post(f"{MANY}/pop", {"limit": 10})["jobs"]
    assert [job["body"] for job in taken] == [0, 1, 2, 3, 4]
    held = [{"id": job["id"], "receipt": job["receipt"]} for job in taken]
    api.post(f"{MANY}/touch", {"jobs": held, "ttr": 120}, 204)
    api.post(f"{MANY}/finish", {"jobs": held[:1]}, 204)
    api.post(f"{MANY}/release", {"jobs": held[1:2]}, 204)
    api.post(f"{MANY}/bury", {"jobs": held[2:3], "reason": "no"}, 204)
    assert api("DELETE", f"{JOBS}/3").status_code == 200
    answer = api("POST", f"{MANY}/finish", {"jobs": held[3:]})
    assert (answer.status_code, answer.json()["reasons"]) == (409, {"3": "gone"}), (
        "the fourth was finished all the same"
    )
    states = [job and job["state"] for job in api.post(f"{MANY}/get", {"ids": list("01234")})["jobs"]]
    assert states == [None, "delayed", "dead", None, None]
    assert api.post(f"{MANY}/kick", {"ids": ["2", "9"]}) == {"was": ["dead", None]}
    assert api.post(f"{MANY}/reschedule", {"ids": ["1", "2"], "delay": 9}) == {"was": ["delayed", "ready"]}
    assert api.post(f"{MANY}/delete", {"ids": ["1", "2"]}) == {"was": ["delayed", "delayed"]}
    assert api.get("/v1/topics/orders/check") == {"looked_at": 1, "faults": [], "leaving": 0, "schedules_leaving": 0}


def test_an_invalid_job_of_a_batch_is_named_and_nothing_is_written(api: Api) -> None:
    answer = api("POST", f"{MANY}/add", {"jobs": [{"body": 1}, {"body": 2, "delay": "soon"}]})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert answer.json()["detail"].startswith("job 1: delay: 'soon' is not a duration")
    assert api.get("/v1/topics") == {"topics": []}


def test_pop_takes_from_the_first_of_several_topics(api: Api) -> None:
    api.post("/v1/topics/low/jobs", {"body": "low"}, 201)
    api.post("/v1/topics/high/jobs", {"body": "high", "delay": 30}, 201)
    assert api.post("/v1/pop", {"topics": ["high", "low"]})["jobs"][0]["body"] == "low"
    found = api.post("/v1/pop", {"topics": ["high", "low"], "wait": 60})["jobs"]
    assert (found[0]["topic"], found[0]["body"]) == ("high", "high")
    assert api.get("/v1/topics") == {"topics": ["high", "low"]}


@pytest.mark.parametrize(
    "text", ['{"a":1.0, "b":[1,2 ,3]}', "12345678901234567890123", '"测试"', "null", "0.1000000000000000055", '""']
)
def test_json_bodies_pass_through_byte_for_byte(api: Api, text: str) -> None:
    api("POST", JOBS, content=f'{{"body": {text}, "id": "7"}}'.encode(), headers={"content-type": "application/json"})
    assert f'"body":{text},' in api("POST", "/v1/topics/orders/pop", {}).text
    answer = api("GET", f"{JOBS}/7/body")
    assert (answer.text, answer.headers["content-type"]) == (text, "application/json")


def test_bytes_keep_their_content_type(api: Api) -> None:
    raw = bytes(range(256))
    answer = api(
        "POST", JOBS, content=raw, headers={"content-type": "image/x; v=1"}, params={"id": "7", "ttr": "5s",
        "namespace": api.namespace},
    )  # fmt: skip
    assert answer.status_code == 201
    job = pop(api)
    assert (base64.b64decode(job["body_base64"]), job["content_type"], job["ttr_ms"]) == (raw, "image/x; v=1", 5000)
    answer = api("GET", f"{JOBS}/7/body")
    assert (answer.content, answer.headers["content-type"]) == (raw, "image/x; v=1")
    assert answer.headers["x-content-type-options"] == "nosniff"
    add(api, id="8") and api("DELETE", f"{JOBS}/8")
    api.post(JOBS, {"body_base64": base64.b64encode(raw).decode()}, 201)
    assert base64.b64decode(pop(api)["body_base64"]) == raw


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"[]", b'{"body": 1, "dleay": 5}', b'{"body": 1, "delay": -5}', b'{"body": 1, "delay": "soon"}',
        b'{"body": 1, "delay": true}', b'{"body": 1, "id": ""}', b'{"body": 1, "id": "{7}"}', b'{"body": 1, "id": 7}',
        b'{"body": NaN}', b'{"body": "\xff"}', b'{"body": 1e999}', b'{"delay": 5}', b'{"body": 1, "body_base64": "AA=="}',
        b'{"body_base64": "?"}', b'{"body": 1, "coded": true}', b'{"body": 1, "max_attempts": 0}',
        b'{"body": 1, "priority": 4}', b'{"body": 1, "priority": -1}', b'{"body": 1, "priority": "high"}',
        b'{"body": 1, "headers": {"a": 1}}', b'{"body": 1, "delay": 5, "at": "2027-01-15T08:30:00Z"}',
        b'{"body": 1, "if_exists": "merge"}', b'{"body": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"body": 1, "ttr": 0}',
        b'{"body": 1, "delay": 1e308}',
    ],
)  # fmt: skip
def test_bad_requests_are_refused_and_write_nothing(api: Api, text: bytes) -> None:
    refused = api.refused("POST", JOBS, content=text, headers={"content-type": "application/json"})
    assert refused == (400, "bad_input")
    assert api.get("/v1/topics") == {"topics": []}


def test_the_client_of_a_namespace_that_is_dropped_is_closed(running_service: RunningService, valkey_url: str) -> None:
    async def scenario() -> None:
        client, clients = AsyncClient(valkey_url, namespace="dropped"), running_service.app.clients
        clients.put("dropped", client)
        await client.topic("orders").stats()
        await clients.drop("dropped")
        with pytest.raises(BadInput, match="closed"):
            await client.topic("orders").stats()

    running_service.run(scenario())


def test_a_form_is_refused_as_a_job(api: Api) -> None:
    assert api.refused("POST", JOBS, data={"a": "b"}) == (415, "wrong_media")


def test_a_content_type_that_is_too_long_is_refused(api: Api) -> None:
    kind = {"content-type": 'application/json;="' + ";" * 60_000}
    answer = api.http.post("/v1/topics/orders/jobs", content=b'{"body": 1}', headers=kind)
    assert answer.status_code == 400
    assert "send at most 1000" in answer.json()["detail"]


@pytest.mark.parametrize("charset", ["latin-1", "ISO-8859-15", '"windows-1252"', "utf-16"])
def test_a_body_in_another_charset_than_utf_8_is_refused(api: Api, charset: str) -> None:
    """Its bytes may be valid UTF-8 all the same, of another text."""
    for verb, path in (("POST", JOBS), ("POST", f"{JOBS}/7/reschedule")):
        answer = api(
            verb, path, content=b'{"body": 1}', headers={"content-type": f"application/json; charset={charset}"}
        )
        assert answer.status_code == 400
        told = (
            f"content-type: its charset is '{charset.strip(chr(34)).lower()}'; send UTF-8, and leave the charset out."
        )
        assert answer.json()["detail"] == told
    for charset in ("utf-8", "UTF-8", '"utf-8"', "us-ascii", "utf8; q=1"):
        kind = {"content-type": f"application/json;charset={charset}"}
        assert api("POST", JOBS, content=b'{"body": 1}', headers=kind).status_code == 201
    plain = {"content-type": "text/plain; charset=latin-1"}
    assert api("POST", JOBS, content=b"\xfc", headers=plain).status_code == 201, "bytes, stored with their type"


def test_bodies_and_requests_have_size_limits(api: Api) -> None:
    assert api.refused("POST", JOBS, {"body": "x" * (1 << 20)}) == (400, "bad_input")
    large = b"x" * (9 << 20)
    assert api.refused("POST", JOBS, content=large) == (413, "too_large")
    assert api.refused("POST", JOBS, content=iter([large[: 5 << 20], large[: 5 << 20]])) == (413, "too_large")


@pytest.mark.parametrize(
    ("path", "said", "wrong", "known"),
    [
        ("/v1/topics/orders/many/pop", {"n": 2}, "n", "wait, ttr, holder, limit"),
        ("/v1/pop", {"topics": ["orders"], "n": 2}, "n", "wait, ttr, holder, limit, topics"),
        ("/v1/topics/orders/pause", {"for": "1m"}, "for", "duration, key"),
        (f"{JOBS}/7/release", {"receipt": 1, "count": False}, "count", "receipt, delay, counted, reason"),
        (f"{MANY}/finish", {"jobs": [{"receipt": 1, "job": "7"}]}, "job", "receipt, id, result, no_result"),
        (
            f"{MANY}/add",
            {"jobs": [{"body": 1, "max_attempts": 3.0, "when": 1}]},
            "when",
            "delay, at, ttr, max_attempts",
        ),
    ],
)
def test_an_unknown_field_is_refused_with_those_that_there_are(
    api: Api, path: str, said: Any, wrong: str, known: str
) -> None:
    answer = api("POST", path, said)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert f"unknown field `{wrong}`" in answer.json()["detail"]
    verb = "are" if "," in known else "is"
    assert f"; there {verb} {known}" in answer.json()["detail"]


def test_an_unknown_parameter_is_refused_with_those_that_there_are(api: Api) -> None:
    detail = api("GET", JOBS, params={"namespace": api.namespace, "n": "2"}).json()["detail"]
    assert "unknown field `n`; there are state, due_after" in detail


@pytest.mark.parametrize(
    ("method", "path", "said", "place", "choices"),
    [
        (
            "POST",
            JOBS,
            {"body": 1, "if_exists": "ignore"},
            "if_exists",
            '"error", "keep", "once", "replace" or "update"',
        ),
        ("POST", JOBS, {"body": 1, "durability": "yes"}, "durability", '"replicated" or "fsynced"'),
        (
            "POST",
            f"{MANY}/delete",
            {"ids": ["7"], "state": "gone"},
            "state",
            '"delayed", "ready", "reserved" or "dead"',
        ),
        ("POST", "/v1/guarded-queues/offers/poll", {"limit": 1, "layout": "article"}, "layout", '"tarry" or "java"'),
        (
            "POST",
            "/v1/delayed-queues/offers/take",
            {"codec": "pickle"},
            "codec",
            '"kryo5", "river", "json", "string", "long" or "bytes"',
        ),
        ("GET", JOBS, {"state": "gone"}, "state", '"delayed", "ready", "reserved", "dead", "finished" or "retrying"'),
    ],
)
def test_an_unknown_word_is_refused_with_those_that_may_stand_there(
    api: Api, method: str, path: str, said: dict[str, Any], place: str, choices: str
) -> None:
    sent: dict[str, Any] = {"params": {"namespace": api.namespace, **said}} if method == "GET" else {"json": said}
    answer = api(method, path, **sent)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert f"at `$.{place}`; it is {choices}" in answer.json()["detail"]


@pytest.mark.parametrize("raw", [b"", b'{"body', b'{"body": "\\ud800"}'])
def test_truncated_json_is_refused_with_a_message(api: Api, raw: bytes) -> None:
    answer = api("POST", JOBS, content=raw, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert "is empty, ends too early, or has half of a surrogate pair" in answer.json()["detail"]


@pytest.mark.parametrize("said", [{}, {"id": "7"}, {"id": "7", "if_exists": "replace"}, {"if_exists": "keep"}])
def test_a_repeated_add_with_the_same_key_adds_nothing(api: Api, clock: Clock, said: dict[str, str]) -> None:
    headers = {"idempotency-key": "order 7, first try"}
    first = api("POST", JOBS, {"body": "tea", "delay": 60, **said}, headers=headers)
    clock.advance(5)
    again = api("POST", JOBS, {"body": "tea", "delay": 60, **said}, headers=headers)
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    stats = api.get("/v1/topics/orders/stats")
    assert (stats["delayed"], stats["repeated"], stats["replaced"]) == (1, 1, 0)
    other = api("POST", JOBS, {"body": "tea", "delay": 60, **said}, headers={"idempotency-key": "another"})
    assert other.status_code == (409 if said == {"id": "7"} else 201)


def test_an_idempotency_key_lasts_as_long_as_its_job(api: Api, clock: Clock) -> None:
    """As the documentation says: a repetition after the job was finished adds the job again."""
    headers = {"idempotency-key": "order 8"}
    first = api("POST", JOBS, {"body": "tea"}, headers=headers)
    held = api.post("/v1/topics/orders/pop", {})
    again = api("POST", JOBS, {"body": "tea"}, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert api.get(f"{JOBS}/{held['id']}")["body"] == "tea"
    assert api.get(f"{JOBS}/{held['id']}")["state"] == "reserved"
    api.post(f"{JOBS}/{held['id']}/finish", {"receipt": held["receipt"]}, 204)
    clock.advance(1)
    assert api("POST", JOBS, {"body": "coffee"}, headers=headers).status_code == 201
    assert api.post("/v1/topics/orders/pop", {})["body"] == "coffee"


@pytest.mark.parametrize("id", [{}, {"id": "7"}])
@pytest.mark.parametrize("path", [JOBS, MANY + "/add"])
def test_once_a_key_lasts_as_long_as_the_end_of_its_job_is_kept(
    api: Api, clock: Clock, path: str, id: dict[str, str]
) -> None:
    job: dict[str, Any] = {"body": "tea", **id}
    said = {"if_exists": "once", **(job if path == JOBS else {"jobs": [job]})}

    def added(key: str, **given: str) -> tuple[int, Any]:
        answer = api("POST", path, {**said, **given}, headers={"idempotency-key": key})
        told = answer.json()
        return answer.status_code, told["jobs"][0] if "jobs" in told else told

    status, refused = added("k")
    assert (status, refused["code"]) == (409, "not_kept")
    assert 'keep_finished="1d"' in refused["detail"]
    api("PATCH", "/v1/topics/orders/settings", {"keep_finished": "1h"})
    status, first = added("k")
    assert status == (201 if path == JOBS else 200)
    held = pop(api)
    api.post(f"{JOBS}/{held['id']}/finish", {"receipt": held["receipt"]}, 204)
    assert added("k") == (status, first), "the same request"
    other_status, other = added("k", delay="1s")
    assert (other_status, other["is_new"], other["state"]) == (200, False, "finished")
    assert added("another")[1]["is_new"] == (not id)
    clock.advance(3600)
    assert added("k")[1]["is_new"], "its end is not kept any more"


@pytest.mark.parametrize("if_exists", ["keep", "once"])
def test_another_request_with_a_key_is_answered_as_its_option_says(api: Api, if_exists: str) -> None:
    api("PATCH", "/v1/topics/orders/settings", {"keep_finished": "1h"})
    headers = {"idempotency-key": "k"}
    first = api("POST", JOBS, {"body": "tea", "if_exists": if_exists}, headers=headers).json()
    other = api("POST", JOBS, {"body": "coffee", "if_exists": if_exists}, headers=headers)
    assert (other.status_code, other.json()["id"], other.json()["is_new"]) == (200, first["id"], False)
    assert [job["body"] for job in api.get(JOBS)["jobs"]] == ["tea"]


def test_without_a_key_and_an_id_nothing_is_added_once(api: Api) -> None:
    api("PATCH", "/v1/topics/orders/settings", {"keep_finished": "1h"})
    for path, said in ((JOBS, {"body": 1}), (f"{MANY}/add", {"jobs": [{"body": 1}]})):
        answer = api("POST", path, {**said, "if_exists": "once"})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
        assert '"once" finds a job by its id' in answer.json()["detail"]


@pytest.mark.parametrize("path", [JOBS, MANY + "/add"])
@pytest.mark.parametrize("said", [{"body": "coffee"}, {"body": "tea", "delay": 60}, {"body": "tea", "ttr": "1m"}])
def test_a_key_of_another_request_is_refused_as_long_as_its_job_exists(api: Api, path: str, said: Any) -> None:
    """Nothing of it is dropped in silence."""

    def added(job: dict[str, Any]) -> httpx.Response:
        return api("POST", path, job if path == JOBS else {"jobs": [job]}, headers={"idempotency-key": "order 9"})

    assert added({"body": "tea"}).status_code < 300
    refused = added(said)
    assert (refused.status_code, refused.json()["code"]) == (422, "key_reused")
    assert added({"body": "tea"}).status_code < 300, "the first request may still be repeated"
    assert [job["body"] for job in api.get(JOBS)["jobs"]] == ["tea"]


def test_a_key_of_another_body_that_is_no_json_is_refused(api: Api) -> None:
    def added(body: bytes, media: str) -> int:
        headers = {"idempotency-key": "order 10", "content-type": media}
        return api("POST", JOBS, content=body, headers=headers).status_code

    assert [added(b"tea", "text/plain"), added(b"tea", "text/plain")] == [201, 201]
    assert [added(b"cof", "text/plain"), added(b"tea", "text/html")] == [422, 422]


@pytest.mark.parametrize(
    ("one", "other"), [({"body": 1, "delay": 60}, {"body": 2, "delay": 60}), ({"body": 3}, {"body": 3, "delay": 70})]
)
def test_another_push_with_the_same_key_adds_its_own(api: Api, one: Any, other: Any) -> None:
    queue = "/v1/guarded-queues/keyed"
    for said in (one, one, other, other):
        api("POST", queue + "/push", {"items": [said]}, headers={"idempotency-key": "k"}).raise_for_status()
    assert api.get(queue)["size"] == 2


def test_a_batch_shares_one_idempotency_key(api: Api) -> None:
    said = {"jobs": [{"body": 1}, {"body": 2, "id": "two"}, {"body": 1}], "delay": 9}
    first = api("POST", f"{MANY}/add", said, headers={"idempotency-key": "k"})
    again = api("POST", f"{MANY}/add", said, headers={"idempotency-key": "k"})
    assert again.json() == first.json()
    assert api.get("/v1/topics/orders/stats")["delayed"] == 3


def test_many_jobs_are_answered_in_the_order_of_their_ids(api: Api) -> None:
    jobs = [{"body": number, "id": str(number)} for number in range(50)]
    api.post(MANY + "/add", {"jobs": jobs})
    ids = ["7", "none", *[str(number) for number in reversed(range(50))], "7"]
    found = api.post(MANY + "/get", {"ids": ids})["jobs"]
    assert [job and job["id"] for job in found] == ["7", None, *ids[2:]]


def test_the_bodies_of_one_answer_are_limited(api: Api) -> None:
    """Also of one job that is asked for a thousand times: the server would read and send a GB."""
    add(api, "x" * 1_000_000, id="large")
    add(api, "x" * 1_000_000, id="other")
    assert len(api.post(MANY + "/get", {"ids": ["large", "other", "large"]})["jobs"]) == 3
    answer = api("POST", MANY + "/get", {"ids": ["large", "other"] * 500})
    assert (answer.status_code, answer.json()["detail"]) == (
        400,
        "ids: the bodies of these jobs have more than 64 MiB; ask for fewer at a time.",
    )


def test_few_jobs_are_read_at_a_time_however_small_the_first_ones_are(
    running_service: RunningService, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of the others is not known before they are read."""
    api.post(MANY + "/add", {"jobs": [{"body": number, "id": str(number)} for number in range(200)]})
    topic, sizes = type(running_service.app.clients.topic(api.namespace, "orders")), list[int]()
    get_many = topic.get_many

    async def counting(self: Any, ids: Any) -> Any:
        sizes.append(len(ids))
        return await get_many(self, ids)

    monkeypatch.setattr(topic, "get_many", counting)
    found = api.post(MANY + "/get", {"ids": [str(number) for number in range(200)]})["jobs"]
    assert [job["id"] for job in found] == [str(number) for number in range(200)]
    assert max(sizes) == 64
