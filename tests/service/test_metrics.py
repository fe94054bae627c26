"""Prometheus's metrics, Grafana's panels, and health."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
import redis
import yaml
from prometheus_client.parser import text_string_to_metric_families

import tarry
from service.running_service import Api, RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.clients.testing import Clock, TestClient
from tarry.connections.background import failures
from tarry.core.requests import Command
from tarry.programs.service import topic_verdicts
from tarry.programs.service.metrics import Metrics
from tarry.programs.serving.conditions import UNKNOWN_SERVER
from tarry.values.durations import SECOND, as_datetime
from tarry.values.keys import topics_key
from tarry.verbs.workers import WorkerReport, WorkerTopic, report_worker
from until import until

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "examples" / "grafana-dashboard.json"
RULES = ROOT / "examples" / "deploy" / "prometheus-rules.yml"


def scraped(running_service: RunningService, *, wholly: bool = False) -> dict[str, Any]:
    """The metrics; of the buckets of requests, a dozen for each route and status that other tests asked for, the last ones alone."""
    answer = httpx.get(f"{running_service.url}/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    left_out = re.compile(r'^tarry_http_request_seconds_bucket(?!.*le="\+Inf").*\n', re.M)
    text = answer.text if wholly else left_out.sub("", answer.text)
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(family: Any, namespace: str, **labels: str) -> float:
    found = [
        sample.value
        for sample in family.samples
        if sample.labels.get("namespace") == namespace and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, family.samples
    return float(found[0])


def test_metrics_match_the_stats_of_the_topic(running_service: RunningService, api: Api, clock: Clock) -> None:
    jobs = "/v1/topics/orders/jobs"
    for delay in (0, 0, 50, 90):
        api.post(jobs, {"body": 1, "delay": delay}, 201)
    clock.advance("5s")
    job = api.post("/v1/topics/orders/pop", {})
    api.post(f"{jobs}/{job['id']}/finish", {"receipt": job["receipt"]}, 204)
    api.refused("POST", f"{jobs}/{job['id']}/touch", {"receipt": 7, "ttr": 9})
    api.post("/v1/topics/orders/pause", {})
    seen, name = scraped(running_service), api.namespace
    states = {state: value(seen["tarry_jobs"], name, state=state) for state in ("delayed", "ready", "reserved", "dead")}
    assert states == {"delayed": 2, "ready": 1, "reserved": 0, "dead": 0}
    totals = ["added", "popped", "finished", "refused"]
    assert [value(seen[f"tarry_{total}"], name) for total in totals] == [4, 1, 1, 1]
    assert value(seen["tarry_retrying_jobs"], name) == 0
    assert 5 <= value(seen["tarry_oldest_overdue_seconds"], name) < 5.001
    assert 45 <= value(seen["tarry_next_due_seconds"], name) < 45.001
    assert value(seen["tarry_paused"], name) == 1
    assert value(seen["tarry_overrun_jobs"], name) == 0
    late = [sample for sample in seen["tarry_lateness_seconds"].samples if sample.labels.get("namespace") == name]
    buckets = {sample.labels["le"]: sample.value for sample in late if sample.name.endswith("_bucket")}
    assert [n for le, n in buckets.items() if le != "+Inf" and float(le) < 4] == [0] * 8
    assert buckets["16.7772"] == buckets["+Inf"] == 1
    assert sum(sample.value for sample in late if sample.name.endswith("_sum")) > 4


def test_what_keys_hold_back_is_one_number_of_a_topic(running_service: RunningService, api: Api, clock: Clock) -> None:
    api("PATCH", "/v1/topics/orders/settings", {"key_concurrency": 1})
    for key in ("a", "a", "a", "b", None):
        api.post("/v1/topics/orders/jobs", {"body": 1, "key": key}, 201)
    api.post("/v1/topics/orders/pop", {})
    seen, name = scraped(running_service), api.namespace
    assert value(seen["tarry_held_back_jobs"], name) == 2
    assert value(seen["tarry_jobs"], name, state="ready") == 4
    keyed = [sample for family in seen.values() for sample in family.samples if "key" in sample.labels]
    assert keyed == []


@pytest.mark.parametrize("partitions", [1, 3])
def test_limits_for_producers_are_those_that_were_set(
    running_service: RunningService, api: Api, clock: Clock, valkey_url: str, partitions: int
) -> None:
    gauges = ("tarry_max_pending", "tarry_max_pending_bytes", "tarry_pending_bytes")
    with TestClient(valkey_url, clock, namespace=api.namespace) as client:
        topic = client.topic("orders", partitions=partitions)
        topic.add("tea")
        seen = scraped(running_service)
        assert [
            one.labels for name in gauges for one in seen[name].samples if one.labels["namespace"] == api.namespace
        ] == []
        topic.configure(max_pending=100, max_pending_bytes=1000)
        clock.advance("1s")
        assert topic.check().ok  # and counts the bytes, of all partitions
        seen = scraped(running_service)
    assert [value(seen[name], api.namespace) for name in gauges] == [100, 1000, 5]


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_jobs_that_fall_due_soon_are_those_that_are_ready_by_then(
    running_service: RunningService, api: Api, clock: Clock, valkey_url: str, partitions: int
) -> None:
    """To the microsecond, whoever put them off; neither those that are ready, nor those that somebody has."""
    minute, draw = 60 * SECOND, Random(46)
    edges = [span * minute + more for span in (1, 5, 15) for more in (-1, 0, 1)]
    delays = [*edges, *(draw.randrange(1, 20 * minute) for _ in range(40))]
    with TestClient(valkey_url, clock, namespace=api.namespace) as client:
        topic = client.topic("orders", partitions=partitions)
        topic.add_many(["ready", "failed", "snoozed", "running", "dead"])
        for job in topic.pop_many(5, ttr="20m"):
            match job.body:
                case "ready":
                    job.release(delay=0, counted=False)
                case "failed":
                    job.release(delay="50s")
                case "snoozed":
                    job.release(delay="4m", counted=False)
                case "dead":
                    job.bury()
        topic.add_many([tarry.NewJob("later", at=as_datetime(clock.us + us), priority=us % 4) for us in delays])
        seen, begun, ready = scraped(running_service)["tarry_jobs_due"], clock.us, topic.stats().ready
        assert ready == 1
        for minutes in (1, 5, 15):
            clock.advance_to(begun + minutes * minute)
            soon = value(seen, api.namespace, topic="orders", within=f"{minutes}m")
            assert topic.stats().ready - ready == soon
        assert topic.stats().due_in_1m == len([us for us in delays if 15 * minute < us <= 16 * minute])


def test_a_scrape_costs_one_script_a_topic_and_is_bounded(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert topic_verdicts.MOST_TOPICS == 1000
    monkeypatch.setattr(topic_verdicts, "MOST_TOPICS", most := 20)
    running = own_server()
    with (
        serve(lambda name: AsyncClient(running.url, namespace=name)) as service,
        tarry.Client(running.url, namespace="default") as client,
        redis.Redis.from_url(running.url) as raw,
    ):

        def scripts() -> int:
            told = raw.info("commandstats")
            return sum(told.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "evalsha_ro"))

        def scrape() -> tuple[int, int]:
            before = scripts()
            soon = scraped(service)["tarry_jobs_due"].samples
            return scripts() - before, len(soon)

        client.topic("t0").add(1, delay=9)
        scrape()
        costs, series = scrape()
        assert series == 3
        for n in range(1, most + 10):
            client.topic(f"t{n}").add(1, delay=9)
        scrape()  # the first look at a topic learns its partitions, too
        most_costs, most_series = scrape()
        assert (most_costs - costs, most_series) == (most - 1, 3 * most)
        client.engine.run(Command((b"DEL", topics_key("default")), int))
        assert scrape()[1] == 0, "a topic that is no longer listed is gone with the next scrape"


def test_a_job_that_dies_of_its_lateness_is_counted_whoever_finds_it_late(
    running_service: RunningService, api: Api, clock: Clock
) -> None:
    """A pop buries what is later than the topic allows, a worker what is later than its handler allows."""
    jobs = "/v1/topics/orders/jobs"
    api.post(jobs, {"body": 1, "max_lateness": "1s"}, 201)
    clock.advance("5s")
    api.post("/v1/topics/orders/pop", {}, 204)
    api.post(jobs, {"body": 2}, 201)
    job = api.post("/v1/topics/orders/pop", {})
    api.post(f"{jobs}/{job['id']}/bury", {"receipt": job["receipt"], "reason": "too late"}, 204)
    seen = scraped(running_service)
    counted = [value(seen[f"tarry_{total}"], api.namespace) for total in ("died", "too_late", "refused")]
    assert counted == [2, 2, 0]


def test_the_conditions_of_a_topic_are_exported(running_service: RunningService, api: Api, clock: Clock) -> None:
    api.post("/v1/topics/orders/jobs", {"body": 1, "delay": 50}, 201)
    seen = scraped(running_service)["tarry_condition"]
    assert value(seen, api.namespace, topic="orders", kind="no_consumer") == 1
    clock.advance("70s")
    seen = scraped(running_service)["tarry_condition"]
    assert value(seen, api.namespace, topic="orders", kind="no_consumer") == 2
    assert value(seen, api.namespace, topic="orders", kind="late") == 2


def test_a_service_logs_once_what_becomes_bad_and_that_it_is_over(
    running_service: RunningService, api: Api, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """In the words of the dashboard and of `tarry doctor`."""

    def told() -> list[str]:
        app = running_service.app
        caplog.clear()
        for _ in range(2):
            running_service.run(app.metrics.verdicts.look_now(app.clients, UNKNOWN_SERVER))
        return [text for text in caplog.messages if f" of {api.namespace}: " in text]

    api.post("/v1/topics/orders/jobs", {"body": 1, "delay": 50}, 201)
    assert told() == [], "it only explains"
    clock.advance("70s")
    one = f"topic orders of {api.namespace}: "
    assert told() == [f"✗ {one}No consumer takes its 1 ready job. 1 job is overdue by 20 s."]
    api.post("/v1/topics/orders/pop", {})
    assert told() == [f"✓ {one}nothing is wrong with it any more."]


def test_a_service_names_ten_topics_that_become_bad_and_counts_the_others(
    running_service: RunningService, api: Api, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(13):
        api.post(f"/v1/topics/late-{number}/jobs", {"body": 1, "delay": 0}, 201)
    clock.advance("70s")
    app = running_service.app
    running_service.run(app.metrics.verdicts.look_now(app.clients, UNKNOWN_SERVER))
    assert sum(text.startswith("✗ topic ") for text in caplog.messages) == 10
    assert "more topics need attention; `tarry doctor` names them." in caplog.text


def test_readiness_names_the_conditions_of_the_server(own_server: Any) -> None:
    running = own_server(maxmemory="50mb")
    with serve(lambda name: AsyncClient(running.url, namespace=name)) as limited:
        assert "unfit_server" not in httpx.get(f"{limited.url}/readyz").json().get("conditions", [])
        with redis.Redis.from_url(running.url) as raw:
            raw.config_set("maxmemory", int(raw.info("memory")["used_memory"] * 1.02))
        answer = httpx.get(f"{limited.url}/readyz")
        assert (answer.status_code, "unfit_server" in answer.json()["conditions"]) == (200, True)


def test_a_server_that_changes_while_the_service_runs_is_unfit_until_it_is_as_it_was(
    own_server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    running = own_server()
    with (
        serve(lambda name: AsyncClient(running.url, namespace=name)) as service,
        redis.Redis.from_url(running.url) as raw,
    ):
        seen = list[bool]()
        for policy in ("noeviction", "volatile-lru", "volatile-lru", "noeviction"):
            raw.config_set("maxmemory-policy", policy)
            seen.append("unfit_server" in httpx.get(f"{service.url}/readyz").json().get("conditions", []))
    assert seen == [False, True, True, False]
    told = [record.getMessage() for record in caplog.records if "maxmemory" in record.getMessage()]
    assert ["from noeviction to volatile-lru" in told[0], "is noeviction again" in told[1], len(told)] == [
        True,
        True,
        2,
    ]


def test_a_service_that_nobody_scrapes_looks_at_its_servers(
    own_server: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next look is far away: here it is soon."""
    monkeypatch.setattr("tarry.programs.service.metrics.LOOK_EVERY_S", 0.01)
    running = own_server()

    async def look() -> None:
        clients: Any = [("shop", AsyncClient(running.url, namespace="shop"))]
        await metrics.round_trip(clients)  # it is connected: an unfit server is refused at first
        looking = asyncio.ensure_future(metrics.keep_looking(clients))
        with redis.Redis.from_url(running.url) as raw:
            raw.config_set("maxmemory-policy", "allkeys-lru")
            await asyncio.to_thread(until, lambda: "from noeviction to allkeys-lru" in caplog.text, "it is told")
        looking.cancel()
        await clients[0][1].close()

    metrics = Metrics()
    try:
        asyncio.run(look())
    finally:
        metrics.close()


def test_a_round_trip_is_a_ping_that_the_server_has_answered(own_server: Any) -> None:
    running = own_server()

    async def calls_of_a_round_trip() -> int:
        async with AsyncClient(running.url, namespace="shop") as client:
            await client.topic("orders").stats()  # it is connected
            before = pings()
            await metrics.round_trip([("shop", client)])
            return pings() - before

    def pings() -> int:
        return int(raw.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])

    metrics = Metrics()
    try:
        with redis.Redis.from_url(running.url) as raw:
            assert asyncio.run(calls_of_a_round_trip()) == 1
    finally:
        metrics.close()


def test_the_memory_of_the_fullest_server_is_exported(running_service: RunningService, own_server: Any) -> None:
    running = own_server(maxmemory="50mb")
    with serve(lambda name: AsyncClient(running.url, namespace=name)) as limited:
        [sample] = scraped(limited)["tarry_server_memory_used_ratio"].samples
    assert 0 < sample.value < 1
    assert scraped(running_service)["tarry_server_memory_used_ratio"].samples[0].value == 0, "it has no limit"


def test_requests_are_measured_by_route_and_status(running_service: RunningService, api: Api) -> None:
    api.refused("GET", "/v1/topics/orders/jobs/7")
    api.refused("GET", "/nowhere")
    seen = scraped(running_service, wholly=True)["tarry_http_request_seconds"]
    counted = {
        (sample.labels["route"], sample.labels["status"]): sample.value
        for sample in seen.samples
        if sample.name.endswith("_count")
    }
    assert counted["jobs_get", "404"] >= 1
    assert counted["none", "404"] >= 1
    assert not [route for route, _ in counted if "/" in route or "7" in route], "a path would be a label without end"


def test_every_expression_of_the_grafana_dashboard_uses_exported_metrics(
    running_service: RunningService, api: Api, clock: Clock
) -> None:
    api("PATCH", "/v1/topics/orders/settings", {"max_pending": 10, "max_pending_bytes": 1000})
    clock.advance(1)
    api.post("/v1/topics/orders/jobs", {"body": 1, "delay": 9}, 201)
    known = {sample.name for family in scraped(running_service).values() for sample in family.samples}
    expressions = [
        target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]
    ]
    used = {name for text in expressions for name in re.findall(r"tarry_\w+", text)}
    assert used <= known, used - known
    assert len(expressions) >= 12


def test_every_alert_is_about_something_that_is_exported_and_has_a_section_that_helps(
    running_service: RunningService, api: Api, clock: Clock
) -> None:
    api("PATCH", "/v1/topics/orders/settings", {"max_pending": 10, "max_pending_bytes": 1000})
    clock.advance(1)
    api.post("/v1/topics/orders/jobs", {"body": 1, "delay": 9}, 201)
    known = {sample.name for family in scraped(running_service).values() for sample in family.samples}
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    used = {name for rule in group["rules"] for name in re.findall(r"tarry_\w+", rule["expr"])}
    assert used <= known, used - known
    page = (ROOT / "docs/production/alerts.md").read_text()
    for rule in group["rules"]:
        assert f"`{rule['alert']}`" in page
        assert rule["expr"].count("(") == rule["expr"].count(")")
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^## (.*)$", (ROOT / file).read_text(), re.M)
        assert anchor in {heading.lower().replace(" ", "-") for heading in headings}


def test_the_grafana_dashboard_has_a_valid_structure() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert isinstance(board["title"], str)
    assert isinstance(board["uid"], str)
    assert board["schemaVersion"] >= 36
    assert board.get("id") is None, "a number would replace somebody's dashboard"
    assert {"from", "to"} <= board["time"].keys()
    names = {variable["name"] for variable in board["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, "panels overlap"
        taken |= cells
        assert {"id", "type", "title", "fieldConfig", "datasource"} <= panel.keys()
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0
        for target in panel["targets"]:
            variables = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
            assert variables <= names
            assert target["expr"].count("(") == target["expr"].count(")")
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.slow
def test_a_service_without_its_server_is_alive_but_not_ready(own_server: Any) -> None:
    running = own_server()
    with serve(lambda name: AsyncClient(running.url, namespace=name, patience=3)) as alone:
        assert httpx.get(f"{alone.url}/readyz").status_code == 200
        running.stop()
        answer = httpx.get(f"{alone.url}/readyz")
        assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "unavailable", "1")
        assert httpx.get(f"{alone.url}/healthz").status_code == 200


def test_metrics_are_answered_soon_while_the_server_is_away(own_server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the service has counted itself; it does not wait for as long as a client would."""
    monkeypatch.setattr("tarry.programs.service.metrics.SCRAPE_TIMEOUT_S", 0.2)
    running = own_server()
    with serve(lambda name: AsyncClient(running.url, namespace=name, patience="1h")) as alone:
        httpx.get(f"{alone.url}/version")
        running.stop()
        seen = scraped(alone)
    assert seen["tarry_server_up"].samples[0].value == 0
    assert [one.value for one in seen["tarry_http_request_seconds"].samples if one.name.endswith("_count")] == [1]
    assert "tarry_jobs" not in seen


def test_a_server_that_answers_is_up(running_service: RunningService) -> None:
    assert scraped(running_service)["tarry_server_up"].samples[0].value == 1


def test_health_readiness_and_version_are_answered(running_service: RunningService) -> None:
    for path in ("/healthz", "/readyz"):
        answer = httpx.get(running_service.url + path)
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    import tarry

    assert httpx.get(f"{running_service.url}/version").json() == {"version": tarry.__version__}


def test_overrunning_runs_are_exported_as_a_metric(
    running_service: RunningService, api: Api, clock: Clock, valkey_url: str
) -> None:
    api.post("/v1/topics/orders/jobs", {"body": 1, "delay": 0}, 201)
    report = WorkerReport("ada", 7, "1", 5, 2, False, [WorkerTopic("orders", ("close",), 5, 2, 2)], [])
    with TestClient(valkey_url, clock, namespace=api.namespace) as client:
        client.engine.run(report_worker(api.namespace, b"ada", None, report))
    assert value(scraped(running_service)["tarry_overrun_jobs"], api.namespace) == 2


def test_failures_in_the_background_are_exported_as_metrics(
    running_service: RunningService, api: Api, clock: Clock, valkey_url: str
) -> None:
    """The service's own, and those that workers report."""
    failures.note("tarry sampler", TypeError("a bug"))
    with TestClient(valkey_url, clock, namespace=api.namespace) as client:
        for name, count in ((b"ada", 2), (b"bob", 3)):
            report = WorkerReport("ada", 7, "1", 5, 2, False, [], [], restarts={"tarry renewal": count})
            client.engine.run(report_worker(api.namespace, name, None, report))
    seen = scraped(running_service)
    own = [one for one in seen["tarry_background_restarts"].samples if one.labels.get("work") == "tarry sampler"]
    assert [one.value for one in own if one.name.endswith("_total")] == [1]
    assert value(seen["tarry_worker_restarts"], api.namespace, work="tarry renewal") == 5
