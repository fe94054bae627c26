"""Server-sent events: a topic's numbers, when they change; and shared queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from service.running_service import Api, RunningService
from tarry.clients.testing import Clock
from tarry.connections import background
from until import until


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    kind = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


def test_an_event_stream_sends_the_current_stats_and_every_change(running_service: RunningService, real: Api) -> None:
    jobs = "/v1/topics/orders/jobs"
    with real.http.stream("GET", "/v1/topics/orders/events") as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        heard = events(answer)
        kind, stats = next(heard)
        assert (kind, stats["delayed"]) == ("stats", 0)
        real.post(jobs, {"body": 1, "delay": 60}, 201)
        real.post("/v1/topics/other/jobs", {"body": 1, "delay": 60}, 201)
        _, stats = next(heard)
        assert (stats["topic"], stats["delayed"]) == ("orders", 1)
    until(lambda: running_service.app.held_requests == 0)


def test_an_event_stream_covers_all_topics_of_a_namespace(real: Api) -> None:
    for topic in ("a", "b"):
        real.post(f"/v1/topics/{topic}/jobs", {"body": 1, "delay": 60}, 201)
    with real.http.stream("GET", "/v1/events") as answer:
        heard = events(answer)
        assert {next(heard)[1]["topic"], next(heard)[1]["topic"]} == {"a", "b"}


def test_stats_are_not_polled_without_subscribers(running_service: RunningService, real: Api) -> None:
    from tarry.programs.service.routes.events import StatsPoller

    with real.http.stream("GET", "/v1/topics/orders/events") as answer:
        next(events(answer))
    poller = running_service.app.shared_part(StatsPoller)
    until(lambda: poller._task is None or poller._task.done())


def test_an_event_stream_goes_on_after_any_error(
    running_service: RunningService, real: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tarry.programs.service.routes import events as module

    monkeypatch.setattr(module, "POLL_INTERVAL_S", 0.01)
    topic, failures = running_service.app.clients.topic, list[Exception]()

    def failing_once(namespace: str, name: str) -> Any:
        if failures:
            raise failures.pop()
        return topic(namespace, name)

    monkeypatch.setattr(running_service.app.clients, "topic", failing_once)
    offer = module.StatsListener.offer

    def offering(listener: Any, topic: str, text: bytes) -> None:
        if to_raise_by_offer:
            raise to_raise_by_offer.pop()
        offer(listener, topic, text)

    to_raise_by_offer = [TypeError("a bug")]
    monkeypatch.setattr(module.StatsListener, "offer", offering)
    with real.http.stream("GET", "/v1/topics/orders/events") as answer:
        heard = events(answer)
        assert next(heard)[0] == "stats"
        assert background.failures.counts == {"tarry event streams": 1}
        failures.append(TypeError("a bug"))
        assert next(heard)[0] == "problem"
        real.post("/v1/topics/orders/jobs", {"body": 1, "delay": 60}, 201)
        kind, stats = next(heard)
        assert (kind, stats["delayed"]) == ("stats", 1)
    assert background.failures.counts == {"tarry event streams": 2}


def test_a_change_is_encoded_once_for_all_that_listen(
    running_service: RunningService, real: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tarry.programs.service.routes import events as module

    monkeypatch.setattr(module, "POLL_INTERVAL_S", 0.01)
    encoded, event = list[str](), module.event

    def counting(kind: str, data: Any) -> bytes:
        encoded.append(data.topic)
        return event(kind, data)

    monkeypatch.setattr(module, "event", counting)
    for topic in ("a", "b"):
        real.post(f"/v1/topics/{topic}/jobs", {"body": 1, "delay": 60}, 201)
    with ExitStack() as stack:
        streams = list[Iterator[tuple[str, Any]]]()
        for path in ("/v1/events", "/v1/topics/a/events", "/v1/events", "/v1/topics/a/events"):
            streams.append(events(stack.enter_context(real.http.stream("GET", path))))
            assert {next(streams[-1])[1]["topic"] for _ in range(1 if "a/" in path else 2)} <= {"a", "b"}
        encoded.clear()
        real.post("/v1/topics/a/jobs", {"body": 1, "delay": 60}, 201)
        for heard in streams:
            kind, stats = next(heard)
            assert (kind, stats["topic"], stats["delayed"]) == ("stats", "a", 2)
        assert encoded == ["a"]
    until(lambda: running_service.app.held_requests == 0)


# ── shared queues ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_queue_elements_are_counted_listed_and_moved(running_service: RunningService, valkey_url: str) -> None:
    from service.running_service import serve
    from tarry.clients.testing import TestAsyncClient
    from tarry.programs.service.settings import ServiceSettings

    clock = Clock()
    settings = ServiceSettings(namespaces=("queues",))
    with serve(lambda name: TestAsyncClient(valkey_url, clock, namespace=name), settings) as running:
        api = Api(running.url, "queues")
        path = "/v1/delayed-queues/ServiceMessages"
        due = api.post(f"{path}/offer", {"values": ["AAAA", {"a": [1, 2.5, None]}], "delay": "20s", "codec": "json"})[
            "due"
        ]
        assert due == ["2027-01-15T08:00:20Z"] * 2
        assert api.get(path) == {"delayed": 2, "ready": 0}
        assert api.get(f"{path}/elements", codec="json") == {"values": ["AAAA", {"a": [1, 2.5, None]}]}
        assert api.get(f"{path}/elements", codec="json", limit=1) == {"values": ["AAAA"], "next": 1}
        clock.advance(21)
        client = running.app.clients["queues"]
        assert running.run(client.blocking_queue("ServiceMessages", codec="json").poll()) == "AAAA"
        assert api.get(path) == {"delayed": 0, "ready": 1}
        for name in ("tarry:%7Bdefault%2Forders%7D:wake", "redisson_delay_queue:%7BServiceMessages%7D"):
            assert api.refused("POST", f"/v1/delayed-queues/{name}/offer", {"values": ["x"]}) == (400, "bad_input")
        assert api.refused("POST", f"{path}/offer", {"values": ["?"], "codec": "bytes"}) == (400, "bad_input")
        api.post(f"{path}/offer", {"values": ["AAEC"], "codec": "bytes"})
        api.http.close()


def test_a_page_of_elements_ends_with_their_bytes(running_service: RunningService) -> None:
    """The small ones are first: their size tells nothing of the rest."""
    real = Api(running_service.url, running_service.app.settings.namespaces[0])
    path, large = "/v1/delayed-queues/LargeMessages", "x" * 500_000
    real.post(f"{path}/offer", {"values": ["tea"] * 20, "delay": "1h", "codec": "json"})
    for _ in range(30):
        real.post(f"{path}/offer", {"values": [large], "delay": "1h", "codec": "json"})
    found, start = list[str](), 0
    while start is not None:
        page = real.get(f"{path}/elements", codec="json", limit=10_000, start=start)
        assert 0 < sum(map(len, page["values"])) < 4_000_000 + 16 * len(large)
        found, start = found + page["values"], page.get("next")
    assert found == ["tea"] * 20 + [large] * 30
    real.post(f"{path}/clear")
    real.http.close()


def ends_of(answer: httpx.Response, n: int) -> list[tuple[str, str, Any]]:
    """The next events of a stream of ends: id, kind and data."""
    found: list[tuple[str, str, Any]] = []
    id = kind = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        id, kind = (value, kind) if name == "id" else (id, value) if name == "event" else (id, kind)
        if name == "data":
            found.append((id, kind, json.loads(value)))
            if len(found) == n:
                break
    return found


def end_jobs(real: Api, *ids: str, verb: str = "finish") -> None:
    for id in ids:
        real.post("/v1/topics/orders/jobs", {"body": 1, "id": id}, 201)
        job = real.post("/v1/topics/orders/pop", {})
        real.post(f"/v1/topics/orders/jobs/{id}/{verb}", {"receipt": job["receipt"]}, 204)


def test_ends_are_streamed_each_once_also_after_a_reconnect(running_service: RunningService, real: Api) -> None:
    path = "/v1/topics/orders/ends"
    refused = real.http.get(path)
    assert (refused.status_code, refused.json()["code"]) == (409, "not_kept")
    assert "tarry configure orders --keep-finished 1d" in refused.json()["detail"]
    real.http.patch("/v1/topics/orders/settings", json={"keep_finished": "1h"}).raise_for_status()
    with real.http.stream("GET", path) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        until(lambda: running_service.app.held_requests == 1)
        end_jobs(real, "a")
        [(first, kind, end)] = ends_of(answer, 1)
        assert (kind, end["state"], end["job"]["id"], end["id"]) == ("finished", "finished", "a", first)
    end_jobs(real, "b")
    end_jobs(real, "c", verb="bury")
    until(lambda: running_service.app.held_requests == 0)
    with real.http.stream("GET", path, headers={"last-event-id": first}, params={"since": "1"}) as answer:
        found = ends_of(answer, 2)
        assert [(kind, end["job"]["id"]) for _, kind, end in found] == [("finished", "b"), ("dead", "c")]
    real.post("/v1/topics/orders/jobs/c/kick", {})
    with real.http.stream("GET", path, params={"since": first}) as answer:
        found = ends_of(answer, 2)
        assert [kind for _, kind, _ in found] == ["unknown", "finished"]
        assert found[0][0] == "", "a client that is cut off now is told again"
        assert found[0][2]["since"] < found[0][2]["until"]
    with real.http.stream("GET", path, params={"since": found[1][2]["at"]}) as answer:
        assert [kind for _, kind, _ in ends_of(answer, 2)] == ["unknown", "finished"]
    for wrong in ("yesterday", "1-\n-1"):
        assert real.http.get(path, params={"since": wrong}).json()["code"] == "bad_input"
    assert real.http.get(path, headers={"last-event-id": b"\xff"}).json()["code"] == "bad_input"
    until(lambda: running_service.app.held_requests == 0)


def test_a_client_that_is_cut_off_before_the_first_end_misses_none(running_service: RunningService, real: Api) -> None:
    path = "/v1/topics/orders/ends"
    real.http.patch("/v1/topics/orders/settings", json={"keep_finished": "1h"}).raise_for_status()
    with real.http.stream("GET", path) as answer:
        id = next(line for line in answer.iter_lines() if line.startswith("id: ")).removeprefix("id: ")
    end_jobs(real, "a")
    with real.http.stream("GET", path, headers={"last-event-id": id}) as answer:
        [(_, kind, end)] = ends_of(answer, 1)
    assert (kind, end["job"]["id"]) == ("finished", "a")
    until(lambda: running_service.app.held_requests == 0)


def test_an_end_is_one_event_whatever_its_producer_and_its_consumer_wrote(real: Api) -> None:
    """A line feed in a body, a step or a result would end the event there, and the rest be lost."""
    at, media = "/v1/topics/orders", {"content-type": "application/json"}
    real.http.patch(f"{at}/settings", json={"keep_finished": "1h"}).raise_for_status()
    text = b'{\n"n":\r1,\r\n\n"t":"a\\nb"}'
    answer = real.http.post(f"{at}/jobs", content=b'{"id":"a","body":%s}' % text, headers=media)
    start, receipt = answer.json()["due"], real.post(f"{at}/pop", {})["receipt"]
    for verb, fields in (("step", b'"name":"s",'), ("finish", b"")):
        content = b'{"receipt":%d,%s"result":%s}' % (receipt, fields, text)
        real.http.post(f"{at}/jobs/a/{verb}", content=content, headers=media).raise_for_status()
    with real.http.stream("GET", f"{at}/ends", params={"since": start}) as answer:
        [(_, _, end)] = ends_of(answer, 1)
    job = end["job"]
    assert job["body"] == job["result"] == job["steps"]["s"] == {"n": 1, "t": "a\nb"}


def test_a_quiet_stream_of_ends_moves_on_and_ends_when_nothing_is_kept(
    running_service: RunningService, real: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tarry.programs.service.routes import events as module

    monkeypatch.setattr(module, "KEEP_ALIVE_S", 0.05)
    real.http.patch("/v1/topics/orders/settings", json={"keep_finished": "1h"}).raise_for_status()
    with real.http.stream("GET", "/v1/topics/orders/ends") as answer:
        lines = answer.iter_lines()
        first, second = (next(line for line in lines if line.startswith("id: ")) for _ in range(2))
        assert first < second
        real.http.patch("/v1/topics/orders/settings", json={"keep_finished": None}).raise_for_status()
        assert any('"code":"not_kept"' in line for line in lines)
    until(lambda: running_service.app.held_requests == 0)
