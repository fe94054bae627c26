"""A shared queue's elements become a topic's jobs: due times kept, both formats, broken off and gone on."""

from __future__ import annotations

from typing import Any

import pytest

import tarry
from tarry.clients.migrating import move_to_topic
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.delayed.desk import keys_of
from tarry.verbs.redisson.elements import Format, pack


@pytest.fixture
def client(valkey_url: str, clock: Clock, name: str) -> Any:
    with TestClient(valkey_url, clock, namespace=name) as made:
        yield made


def test_jobs_are_due_when_the_elements_were(client: Any, clock: Clock, name: str) -> None:
    queue, topic = client.delayed_queue(name, codec="json"), client.topic("orders")
    dues = {n: queue.offer({"order": n}, n) for n in (30, 10, 20)}
    assert client.move_to_topic(queue, topic, dry_run=True) == tarry.MovedOver(3, 0)
    assert queue.size() == 3
    assert client.move_to_topic(queue, "orders") == tarry.MovedOver(3, 0)
    assert queue.size() == 0
    assert [(job.body, job.due) for job in topic.list()] == [({"order": n}, dues[n]) for n in (10, 20, 30)]
    assert topic.check().ok
    clock.advance(60)
    assert client.blocking_queue(name).poll() is None


async def test_it_moves_awaited_too(queues: Any, delayed: Any, name: str) -> None:
    await delayed.offer_many([str(i) for i in range(1200)], 60)
    plain = getattr(delayed, "plain", delayed)
    done = queues.client.move_to_topic(plain, f"topic-{name}")
    assert (done if isinstance(done, tarry.MovedOver) else await done) == tarry.MovedOver(1200, 0)
    assert await delayed.size() == 0


def test_both_formats_move_and_what_cannot_is_set_aside(client: Any, server: Any, clock: Clock, name: str) -> None:
    keys, due = keys_of(name), clock.us // 1000 + 60_000
    elements = [pack(b"old", b"12345678", Format.OLD), pack(b"new", b"12345678"), b"short"]
    for element in elements:
        server.rpush(keys.order, element)
        server.zadd(keys.timeouts, {element: due})
    queue = client.delayed_queue(name, codec="string")
    assert client.move_to_topic(queue, "t", dry_run=True) == tarry.MovedOver(2, 1)
    assert client.move_to_topic(queue, "t").moved == 2
    assert sorted(job.body for job in client.topic("t").list()) == ["new", "old"]
    assert [aside.raw for aside in queue.poison()] == [b"short"]


@pytest.mark.parametrize("steps", range(1, 6))
def test_broken_off_anywhere_it_goes_on(client: Any, name: str, server: Any, steps: int) -> None:
    queue, topic = client.delayed_queue(name, codec="string"), client.topic("t")
    queue.offer_many([str(i) for i in range(700)], 60)
    flow, answer = move_to_topic(queue.verbs.desk, topic.verbs), None
    for _ in range(steps):
        answer = client.engine.runner.perform(flow.send(answer))
    flow.close()
    client.move_to_topic(queue, topic)
    assert topic.stats().delayed == 700
    assert queue.size() == 0
    assert not server.exists(keys_of(name).movers.replace(b"movers", b"leaving"))


def test_bytes_without_a_meaning_here_stay_bytes(client: Any, name: str) -> None:
    client.delayed_queue(name, codec="bytes").offer(b"\x01\x00com.shop.Orde\xf2", 1)
    assert client.move_to_topic(client.delayed_queue(name, codec="kryo5"), "t").moved == 1
    (job,) = client.topic("t").list()
    assert job.body == b"\x01\x00com.shop.Orde\xf2"
