"""Readiness: the server alone decides whether a service is ready; its answer also says what is wrong with topics."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import redis

import tarry
from service.running_service import serve
from service.test_tokens import Make, make  # noqa: F401  # a fixture
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.service import topic_verdicts
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving.conditions import assess_topic
from tarry.values.keys import topics_key
from until import until


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer is new, however long the look takes on a busy machine."""
    monkeypatch.setattr(topic_verdicts, "KEPT_S", 0.0)
    monkeypatch.setattr(topic_verdicts, "LOOK_TIMEOUT_S", 60.0)


def let_jobs_die(client: Any, topic: str, count: int) -> None:
    orders = client.topic(topic)
    orders.add_many(range(count))
    for job in orders.pop_many(count):
        orders.bury(job, reason="no address")


def test_readiness_says_what_is_wrong_with_topics_and_stays_ready(valkey_url: str, namespace: str) -> None:
    settings = ServiceSettings(namespaces=(namespace,))
    with (
        tarry.Client(valkey_url, namespace=namespace) as client,
        serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running,
    ):
        assert "topics" not in httpx.get(f"{running.url}/readyz").json()
        for n in range(12):
            let_jobs_die(client, f"topic-{n:02}", n + 10)
        client.topic("empty").add("x", id="1")
        client.topic("empty").delete("1")
        answer = httpx.get(f"{running.url}/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ok")
        assert answer.json()["topics"] == {"died": 12}
        worst = answer.json()["worst_topics"]
        assert [one["topic"] for one in worst] == [f"topic-{n:02}" for n in range(11, 1, -1)], "the worst ten, in order"
        told = assess_topic(client.topic("topic-11").stats(), ())[0]
        assert worst[0] == {
            "namespace": namespace, "topic": "topic-11", "kind": "died", "level": "bad", "sentence": told.sentence
        }  # fmt: skip


def test_topics_are_named_to_tokens_of_their_namespace_only(valkey_url: str, namespace: str, make: Make) -> None:  # noqa: F811
    other = f"{namespace}-other"
    settings = ServiceSettings(namespaces=(namespace, other), tokens=True)
    with (
        tarry.Client(valkey_url, namespace=namespace) as one,
        tarry.Client(valkey_url, namespace=other) as two,
        serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running,
    ):
        let_jobs_die(one, "orders", 1)
        let_jobs_die(two, "letters", 1)

        def asked(token: str | None) -> Any:
            headers = {} if token is None else {"authorization": f"Bearer {token}"}
            answer = httpx.get(f"{running.url}/readyz", headers=headers)
            assert answer.status_code == 200
            assert answer.json()["topics"] == {"died": 2}, "how many is told to all"
            return [topic["topic"] for topic in answer.json().get("worst_topics", [])]

        assert asked(None) == asked("tarry_0_0") == []
        tokens = make("view", namespace=namespace), make("view", namespace=other)
        for token, topics in zip(tokens, (["orders"], ["letters"]), strict=True):
            until(lambda token=token, topics=topics: asked(token) == topics, "the token is known within a second")


def test_topics_that_cannot_be_read_do_not_change_readiness(valkey_url: str, namespace: str) -> None:
    settings = ServiceSettings(namespaces=(namespace,))
    with (
        tarry.Client(valkey_url, namespace=namespace) as client,
        serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running,
        redis.Redis.from_url(valkey_url) as raw,
    ):
        let_jobs_die(client, "orders", 1)
        assert httpx.get(f"{running.url}/readyz").json()["topics"] == {"died": 1}
        raw.set(topics_key(namespace), "damaged")
        answer = httpx.get(f"{running.url}/readyz")
        assert (answer.status_code, answer.json()["topics"]) == (200, {"died": 1}), "as they were seen last"


def test_many_probes_look_at_the_topics_once(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_verdicts, "KEPT_S", 3600.0)
    settings = ServiceSettings(namespaces=(namespace,))
    with (
        tarry.Client(valkey_url, namespace=namespace) as client,
        serve(lambda name: AsyncClient(valkey_url, namespace=name), settings) as running,
    ):
        let_jobs_die(client, "orders", 1)
        assert httpx.get(f"{running.url}/readyz").json()["topics"] == {"died": 1}
        let_jobs_die(client, "letters", 1)
        assert httpx.get(f"{running.url}/readyz").json()["topics"] == {"died": 1}
