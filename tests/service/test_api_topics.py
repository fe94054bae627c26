"""Topics over the API: lists, stats, settings, and paths."""

from __future__ import annotations

from datetime import datetime, timedelta

import httpx
import pytest

from service.job_calls import JOBS, MANY, add, pop
from service.running_service import Api
from tarry.clients.testing import Clock


def test_lists_come_in_pages(api: Api) -> None:
    api.post(f"{MANY}/add", {"jobs": [{"body": n, "delay": n + 1, "id": str(n)} for n in range(5)]})
    seen, cursor = list[str](), {}
    while True:
        page = api.get(JOBS, state="delayed", limit=2, **cursor)
        seen += [job["id"] for job in page["jobs"]]
        if "cursor" not in page:
            break
        cursor = {"cursor": page["cursor"]}
    assert seen == list("01234")
    assert [job["id"] for job in api.get(JOBS, due_before="2027-01-15T08:00:03Z")["jobs"]] == ["0", "1"]
    assert api.refused("GET", JOBS, params={"cursor": "?", "namespace": api.namespace}) == (400, "bad_input")
    assert api.refused("GET", JOBS, params={"state": "asleep", "namespace": api.namespace}) == (400, "bad_input")
    assert api.refused("GET", JOBS, params={"page": "2", "namespace": api.namespace}) == (400, "bad_input")


def test_stats_and_histogram_of_a_topic(api: Api, clock: Clock) -> None:
    api.post(f"{MANY}/add", {"jobs": [{"body": 1}, {"body": 2, "delay": 90}, {"body": 3, "delay": 3000}]})
    clock.advance(2)
    pop(api)
    stats = api.get("/v1/topics/orders/stats")
    assert [stats[name] for name in ("delayed", "ready", "reserved", "added", "popped")] == [2, 0, 1, 3, 1]
    assert stats["lateness"]["count"] == 1
    assert stats["lateness"]["max_ms"] >= 2000
    found = api.get("/v1/topics/orders/histogram", span="PT1H", buckets=4)
    assert (found["counts"], found["width_ms"]) == ([1, 0, 0, 1], 900_000)
    found = api.get("/v1/topics/orders/throughput", span="10m")
    assert [(minute["added"], minute["finished"]) for minute in found["minutes"]] == [(3, 0)]


def test_dead_jobs_are_grouped_and_searched(api: Api, clock: Clock) -> None:
    for n in range(3):
        api.post(JOBS, {"body": {"order": n}, "id": f"{n}", "max_attempts": 1}, status=201)
        held = pop(api)
        api.post(f"{JOBS}/{n}/bury", {"receipt": held["receipt"], "reason": f"no such order: {n}"}, status=204)
        clock.advance(1)
    groups = "/v1/topics/orders/dead-groups"
    found = api.get(groups, limit=2)
    [group] = found["groups"]
    assert (group["count"], group["error"], group["samples"]) == (2, "no such order: …", ["1", "0"])
    assert (found["scanned"], found["dead"]) == (2, 3)
    last = api.get(groups, limit=2, cursor=found["cursor"])
    assert ([one["id"] for one in last["groups"]], "cursor" in last) == ([group["id"]], False)
    assert [job["id"] for job in api.get(JOBS, state="dead", group=group["id"])["jobs"]] == ["0", "1", "2"]
    assert [job["id"] for job in api.get(JOBS, text='"order":1')["jobs"]] == ["1"]
    for path in (groups, JOBS):
        assert api.refused("GET", path, params={"error": "", "namespace": api.namespace}) == (400, "bad_input")
    assert api.refused("GET", groups, params={"cursor": "abcd", "namespace": api.namespace}) == (404, "unknown_cursor")


def test_pausing_configuring_and_purging_a_topic(api: Api, clock: Clock) -> None:
    add(api)
    until = datetime.fromisoformat(api.post("/v1/topics/orders/pause", {"duration": "10m"})["until"])
    assert until - datetime.fromisoformat("2027-01-15T08:00:00+00:00") == timedelta(minutes=10)
    api.post("/v1/topics/orders/pop", {}, 204)
    api.post("/v1/topics/orders/resume", None, 204)
    assert api.post("/v1/topics/orders/pause", {}) == {"until": None}
    assert (
        api("POST", "/v1/topics/orders/pause", {"duration": "soon"})
        .json()["detail"]
        .startswith("duration: 'soon' is not a duration")
    )
    api.post("/v1/topics/orders/resume", {}, 204)
    limits = (
        "rate burst concurrency max_lateness_ms keep_finished_ms max_pending max_pending_bytes key_concurrency key_rate"
    )
    none = {**dict.fromkeys(limits.split()), "fair": False, "retry_holds_key": False}
    assert api.get("/v1/topics/orders/settings") == none | {
        "ttr_ms": 60000,
        "max_attempts": 20,
        "keep_dead_ms": 2592000000,
    }
    changed = api("PATCH", "/v1/topics/orders/settings", {"ttr": "30s", "max_attempts": None})
    assert changed.json() == none | {"ttr_ms": 30000, "max_attempts": None, "keep_dead_ms": 2592000000}
    limited = api(
        "PATCH", "/v1/topics/orders/settings", {"rate": "100/m", "concurrency": 5, "max_lateness": "1h"}
    ).json()
    assert (limited["rate"], limited["concurrency"], limited["max_lateness_ms"]) == ("100/1m", 5, 3_600_000)
    api("PATCH", "/v1/topics/orders/settings", {"rate": None, "concurrency": None, "max_lateness": None})
    assert pop(api)["ttr_ms"] == 30000
    clock.advance(30)
    assert api.post("/v1/topics/orders/purge", {"state": "dead"}) == {"count": 0}
    assert api.get("/v1/topics/orders/keys?limit=5") == {"keys": []}
    assert api.get("/v1/topics/orders/keys/a%2Fb")["ready"] == 0
    assert api.post("/v1/topics/orders/purge", {"key": "a/b"}) == {"count": 0}
    assert api.post("/v1/topics/orders/purge", {}) == {"count": 1}


def test_a_full_topic_answers_429(api: Api) -> None:
    limits = {"max_pending": 2, "max_pending_bytes": 1000}
    found = api("PATCH", "/v1/topics/orders/settings", limits).json()
    assert {name: found[name] for name in limits} == limits
    add(api)
    full = api("POST", f"{MANY}/add", {"jobs": [{"body": 1}, {"body": 2}]})
    problem = full.json()
    assert (full.status_code, full.headers["retry-after"], problem["code"]) == (429, "1", "topic_full")
    assert (problem["topic"], "orders is full" in problem["detail"]) == ("orders", True)
    add(api)
    assert api("POST", JOBS, {"body": 1}).status_code == 429
    stats = api.get("/v1/topics/orders/stats")
    assert (stats["full"], stats["not_added"], stats["ready"]) == (True, 3, 2)
    assert api.refused("PATCH", "/v1/topics/orders/settings", {"max_pending": 0}) == (400, "bad_input")


def test_jobs_of_a_dead_holder_are_released(api: Api) -> None:
    add(api, id="7")
    pop(api, holder="worker-3")
    assert api.get(f"{JOBS}/7")["holder"] == "worker-3"
    assert api.post("/v1/topics/orders/holders/worker-3/touch", {"ttr": "5m"}) == {"count": 1}
    assert api.post("/v1/topics/orders/holders/worker-3/release", {}) == {"count": 1}
    assert pop(api, holder="worker-4")["attempt"] == 2
    assert api.post("/v1/topics/orders/holders/worker-4/release", {"counted": False}) == {"count": 1}
    assert pop(api)["attempt"] == 2


@pytest.mark.parametrize("name", ["测试", "a/b", "a b", "a?b#c", "%41", "many", "x" * 200])
def test_path_segments_are_percent_decoded(api: Api, name: str) -> None:
    from urllib.parse import quote

    path = f"/v1/topics/{quote(name, safe='')}/jobs"
    api.post(path, {"body": 1, "id": name}, 201)
    assert api.get("/v1/topics") == {"topics": [name]}
    assert api.get(f"{path}/{quote(name, safe='')}")["id"] == name


def test_unknown_paths_and_methods_are_refused(api: Api) -> None:
    for path in ("/", "/v1", "/v1/topics/orders", "/v1/topics//jobs", "/v2/topics", "/v1/topics/orders/jobs/7/eat"):
        assert api.refused("GET", path) == (404, "unknown_route")
    answer = api("PUT", JOBS, {})
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
    assert answer.json()["detail"] == "The path has no such method; it has GET, HEAD, POST."
    assert api.refused("GET", "/v1/topics/%ff/stats") == (400, "bad_input")
    assert api.refused("GET", "/v1/topics/{x}/stats") == (400, "bad_input")
    assert api("HEAD", "/v1/topics").status_code == 200
    assert api.refused("GET", "/v1/topics", params={"namespace": "elsewhere"}) == (403, "not_allowed")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/topics"), ("POST", JOBS), ("POST", f"{JOBS}/pop")])
def test_a_slash_at_the_end_of_a_path_is_named(api: Api, method: str, path: str) -> None:
    answer = api(method, f"{path}/", None if method == "GET" else {"body": 1})
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_route")
    assert answer.json()["detail"] == f"There is no such path; leave out the slash at its end: {path}"
    assert "slash" not in api("GET", "/v1/nothing/").json()["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/topics/orders/defaults"),
        ("PATCH", "/v1/topics/orders/defaults"),
        ("GET", "/v1/queues/orders"),
        ("POST", "/v1/queues/orders/take"),
        ("POST", "/v1/delayed-queues/orders/move-to-topic"),
        ("POST", "/v1/delayed-queues/orders/aside"),
        ("POST", "/v1/guarded/orders/poll"),
    ],
)
def test_a_path_has_one_name(api: Api, method: str, path: str) -> None:
    assert api.refused(method, path, None if method == "GET" else {}) == (404, "unknown_route")


def test_every_problem_type_has_a_page(api: Api) -> None:
    told = httpx.get(f"{api.url}/problems/stale_receipt").json()
    assert "Stop working on the job" in told["told"]
    assert httpx.get(f"{api.url}/problems/heartache").json()["code"] == "unknown_route"
