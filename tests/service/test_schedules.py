"""Schedules over HTTP: put, get, pause, resume, delete, and errors."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from service.running_service import Api, RunningService
from tarry.clients import schedule_verbs
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs import options
from tarry.verbs.jobs.schedule_info import Timing

ALL = "/v1/topics/letters/schedules"
ONE = ALL + "/newsletter"


def put(api: Api, **said: Any) -> Any:
    answer = api("PUT", ONE, said)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_schedule_adds_its_jobs_with_body_and_headers(api: Api, clock: Clock) -> None:
    made = put(api, every="1h", body={"list": "all"}, headers={"by": "ann"}, ttr="5m")
    assert (made["every_ms"], made["body"], made["headers"], made["paused"]) == (
        3_600_000,
        {"list": "all"},
        {"by": "ann"},
        False,
    )
    assert "cron" not in made, "what does not apply is left out"
    clock.advance("1h")
    job = api.post("/v1/topics/letters/pop", {})
    assert (job["body"], job["headers"], job["ttr_ms"]) == ({"list": "all"}, {"by": "ann"}, 300_000)
    assert job["id"].startswith("newsletter@")
    assert job["due"] == made["next"]
    assert api.get(ONE)["fired"] == 1


def test_a_schedule_shows_its_job_options_and_last_occurrence(api: Api, clock: Clock) -> None:
    bare = put(api, every="1h")
    assert not {"last", "version", "declared", "ttr_ms", "max_attempts", "max_lateness_ms"} & bare.keys()
    made = put(api, every="1h", max_attempts=None, max_lateness="10m", ttr="1m", priority=2)
    assert (made["max_attempts"], made["max_lateness_ms"], made["ttr_ms"]) == (None, 600_000, 60_000)
    assert (made["priority"], "priority" in bare) == (2, False)
    clock.advance("1h")
    assert api.post("/v1/topics/letters/pop", {})["priority"] == 2
    assert api.get(ONE)["last"] == made["next"]


def test_a_declared_schedule_shows_its_version_and_time(running_service: RunningService, api: Api) -> None:
    client = running_service.app.clients[api.namespace]
    verbs = client.topic("letters").verbs
    said = schedule_verbs.schedule_definition(verbs.context, "tidy", None, Timing(every="5m"), options.DEFAULT_OPTIONS)
    running_service.run(client.engine.run(schedule_verbs.declare_schedules(verbs, [said])))
    shown = api.get(ALL + "/tidy")
    assert (shown["from_code"], shown["orphaned"], bool(shown["version"])) == (True, False, True)
    assert shown["declared"].startswith("2027-01-15T08:00:00")


def test_putting_again_with_the_same_interval_keeps_the_next_occurrence(api: Api, clock: Clock) -> None:
    first = put(api, every="1h")
    clock.advance("10m")
    second = put(api, every="1h", body=7)
    assert (second["next"], second["body"]) == (first["next"], 7)
    assert put(api, cron="0 8 1 * *", tz="Europe/Lisbon", missed="all")["tz"] == "Europe/Lisbon"
    assert len(api.get(ALL)["schedules"]) == 1


def test_a_body_of_bytes_stays_bytes(api: Api) -> None:
    assert put(api, every="1h", body_base64="AAEC")["body_base64"] == "AAEC"
    assert put(api, every="1h")["body"] is None


def test_the_first_occurrence_may_be_chosen(api: Api) -> None:
    assert put(api, every="1d", first="2027-01-16T09:30:00Z")["next"] == "2027-01-16T09:30:00Z"


def test_a_paused_schedule_adds_nothing_until_it_is_resumed(api: Api, clock: Clock) -> None:
    put(api, every="1h")
    assert api.post(ONE + "/pause", status=204) is None
    shown = api.get(ONE)
    assert (shown["paused"], "next" in shown) == (True, False)
    clock.advance("90m")
    assert api.post("/v1/topics/letters/pop", {}, 204) is None
    api.post(ONE + "/resume", status=204)
    clock.advance("30m")
    assert api.post("/v1/topics/letters/pop", {})["id"].startswith("newsletter@")


def test_schedules_of_all_topics_are_listed_together(api: Api) -> None:
    put(api, every="1h")
    assert api("PUT", "/v1/topics/bills/schedules/remind", {"every": 60}).status_code == 200
    listed = api.get("/v1/schedules")["schedules"]
    assert {(one["topic"], one["id"]) for one in listed} == {("letters", "newsletter"), ("bills", "remind")}
    assert [one["id"] for one in api.get("/v1/topics/bills/schedules")["schedules"]] == ["remind"]


def test_a_deleted_schedule_is_unknown(api: Api) -> None:
    put(api, every="1h")
    assert api("DELETE", ONE).status_code == 204
    for method, path in (("GET", ONE), ("DELETE", ONE), ("POST", ONE + "/pause"), ("POST", ONE + "/resume")):
        assert api.refused(method, path) == (404, "unknown_schedule")
    assert api.get(ALL) == {"schedules": []}


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"every": "1h", "cron": "* * * * *"},
        {"every": 0},
        {"every": "soon"},
        {"cron": "0 0 31 2 *"},
        {"cron": "never"},
        {"cron": "* * * * *", "tz": "Europe/Atlantis"},
        {"cron": "* * * * *", "tz": "../../etc/passwd"},
        {"cron": "* * * * *", "first": "2027-01-16T09:30:00Z"},
        {"every": "1h", "first": "2027-01-16T09:30:00"},
        {"every": "1h", "missed": "some"},
        {"every": "1h", "body": 1, "body_base64": "AAEC"},
        {"every": "1h", "body_base64": "?"},
        {"every": "1h", "max_attempts": 0},
        {"every": "1h", "delay": 1},
    ],
)
def test_an_invalid_schedule_is_refused_and_nothing_is_written(api: Api, said: Any) -> None:
    assert api.refused("PUT", ONE, said) == (400, "bad_input")
    assert api.get("/v1/schedules") == {"schedules": []}
    assert api.get("/v1/topics") == {"topics": []}


def test_an_invalid_schedule_name_is_refused(api: Api) -> None:
    assert api.refused("PUT", ALL + "/two%20words", {"every": "1h"}) == (400, "bad_input")
    assert api.refused("PUT", ALL + "/" + "x" * 161, {"every": "1h"}) == (400, "bad_input")


def test_a_partitioned_topic_has_schedules_and_limits_as_a_whole(
    api: Api, clock: Clock, valkey_url: str, namespace: str
) -> None:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        client.topic("letters", partitions=4).add("tea", delay="1h")
    names = [f"s{n}" for n in range(6)]
    for name in names:
        assert api("PUT", f"{ALL}/{name}", {"every": "30m", "body": name}).status_code == 200
    assert sorted(one["id"] for one in api.get(ALL)["schedules"]) == names
    api.post(f"{ALL}/s3/pause", status=204)
    assert api.get(f"{ALL}/s3")["paused"] is True
    clock.advance("30m")
    jobs = api.post("/v1/pop", {"topics": ["letters"], "limit": 10})["jobs"]
    assert sorted(job["body"] for job in jobs) == [name for name in names if name != "s3"]
    for job in jobs:
        assert api.get(f"/v1/topics/letters/jobs/{quote(job['id'], safe='')}")["state"] == "reserved"
    assert api("DELETE", f"{ALL}/s3").status_code == 204
    said = api("PATCH", "/v1/topics/letters/settings", {"rate": "100/1m", "concurrency": 6}).json()
    assert (said["rate"], said["concurrency"], said["burst"]) == ("100/1m", 6, 4)
    refused = api("PATCH", "/v1/topics/letters/settings", {"concurrency": 3})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_input")


def test_the_schedules_of_all_topics_are_asked_for_at_once(
    running_service: RunningService, real: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, 5,000 topics took a minute on a busy machine."""
    for number in range(20):
        answer = real("PUT", f"/v1/topics/letters-{number}/schedules/daily", {"every": "1d"})
        assert answer.status_code == 200
    runner = running_service.app.clients[real.namespace].engine.runner
    perform_batch, sizes = runner.perform_batch, list[int]()

    async def counting(requests: Any) -> Any:
        sizes.append(len(requests))
        return await perform_batch(requests)

    monkeypatch.setattr(runner, "perform_batch", counting)
    found = real.get("/v1/schedules")["schedules"]
    assert {one["topic"] for one in found} == {f"letters-{number}" for number in range(20)}
    assert max(sizes, default=1) == 20
