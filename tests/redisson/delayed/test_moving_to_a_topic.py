"""A shared queue's elements become a topic's jobs: due times kept, both formats, broken off and gone on."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import pytest

import tarry
from tarry.clients.migration import migrate_queue
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Command
from tarry.values.keys import departed_key, leaving_key
from tarry.verbs.jobs.topic_migration import LateDeparture
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import Format, pack


@pytest.fixture
def client(valkey_url: str, clock: Clock, name: str) -> Any:
    with TestClient(valkey_url, clock, namespace=name) as made:
        yield made


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_move_says_once_which_format_it_has_learnt(
    client: Any, clock: Clock, name: str, dry_run: bool, caplog: Any
) -> None:
    keys, element = keys_of(name), pack(b"7", b"12345678", Format.OLD)
    client.engine.run(Command((b"ZADD", keys.timeouts, b"%d" % (clock.us // 1000), element), int))
    client.engine.run(Command((b"RPUSH", keys.order, element), int))
    with caplog.at_level(logging.INFO, "tarry"):
        for _ in range(2):
            client.migrate_queue(client.delayed_queue(name, codec="json"), "orders", dry_run=dry_run)
    assert [record.args[0] for record in caplog.records if "learnt" in record.msg] == [name]


def test_moved_jobs_keep_the_due_times_of_the_elements(client: Any, clock: Clock, name: str) -> None:
    queue, topic = client.delayed_queue(name, codec="json"), client.topic("orders")
    dues = {n: queue.offer({"order": n}, n) for n in (30, 10, 20)}
    assert client.migrate_queue(queue, topic, dry_run=True) == tarry.Migrated(3)
    assert queue.size() == 3
    assert client.migrate_queue(queue, "orders") == tarry.Migrated(3)
    assert queue.size() == 0
    assert [(job.body, job.due) for job in topic.list()] == [({"order": n}, dues[n]) for n in (10, 20, 30)]
    assert topic.check().ok
    clock.advance(60)
    assert client.blocking_queue(name).poll() is None


async def test_an_async_client_moves_everything_too(queues: Any, delayed: Any, name: str) -> None:
    await delayed.offer_many([str(i) for i in range(1200)], 60)
    plain = getattr(delayed, "plain", delayed)
    done = queues.client.migrate_queue(plain, f"topic-{name}")
    assert (done if isinstance(done, tarry.Migrated) else await done) == tarry.Migrated(1200)
    assert await delayed.size() == 0


def test_a_move_with_a_limit_leaves_the_rest_for_the_next(client: Any, name: str) -> None:
    queue, topic = client.delayed_queue(name, codec="json"), client.topic("orders")
    queue.offer_many(list(range(600)), 60)
    assert client.migrate_queue(queue, topic, limit=1).moved == 500, "it moves in steps"
    assert client.migrate_queue(queue, topic, limit=500).moved == 100
    assert client.migrate("orders", client.topic("bills"), limit=1).moved < 600
    assert client.migrate("orders", client.topic("bills"), limit=600).moved > 0
    assert topic.stats().delayed == 0
    for limit in (0, True, "5"):
        with pytest.raises(tarry.BadInput, match=r"^limit: .*; it is a whole number above 0, or None for all"):
            client.migrate_queue(queue, topic, limit=limit)


def test_both_formats_move_and_unreadable_elements_are_set_aside(
    client: Any, server: Any, clock: Clock, name: str
) -> None:
    keys, due = keys_of(name), clock.us // 1000 + 60_000
    elements = [pack(b"old", b"12345678", Format.OLD), pack(b"new", b"12345678"), b"short"]
    for element in elements:
        server.rpush(keys.order, element)
        server.zadd(keys.timeouts, {element: due})
    queue = client.delayed_queue(name, codec="string")
    assert client.migrate_queue(queue, "t", dry_run=True) == tarry.Migrated(2, poison=1)
    assert client.migrate_queue(queue, "t").moved == 2
    assert sorted(job.body for job in client.topic("t").list()) == ["new", "old"]
    assert [one.raw for one in queue.poison()] == [b"short"]


def broken_off(client: Any, queue: Any, topic: Any, steps: int) -> bool:
    """After so many calls; answers whether it had come to its end before."""
    flow, answer = migrate_queue(queue.verbs.context, topic.verbs), None
    for _ in range(steps):
        try:
            answer = client.engine.runner.perform(flow.send(answer))
        except StopIteration:
            return True
    flow.close()
    return False


def finished(topic: Any) -> list[Any]:
    jobs = topic.pop_many(1000)
    topic.finish_many(jobs)
    return [job.body for job in jobs]


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [None, 3], ids=["plain", "parted"])
@pytest.mark.parametrize("steps", range(1, 14))
def test_an_interrupted_move_resumes_after_any_step(
    client: Any, clock: Clock, name: str, server: Any, steps: int, partitions: int | None
) -> None:
    """Also where what had arrived was finished meanwhile: nothing is done twice."""
    queue, topic = client.delayed_queue(name, codec="string"), client.topic("t", partitions=partitions)
    topic.stats()
    expected = sorted(str(i) for i in range(700))
    queue.offer_many(expected, 60)
    broken_off(client, queue, topic, steps)
    clock.advance(61)
    done = finished(topic)
    client.migrate_queue(queue, topic)
    assert sorted(done + finished(topic)) == expected
    assert queue.size() == 0
    assert topic.check().ok
    keys = keys_of(name)
    assert not server.exists(leaving_key(keys))
    assert 0 < server.ttl(departed_key(keys)) <= 31 * 86400


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(1, 14))
def test_an_interrupted_move_never_continues_to_another_topic(client: Any, clock: Clock, name: str, steps: int) -> None:
    queue, first, second = client.delayed_queue(name, codec="string"), client.topic("t"), client.topic("other")
    expected = sorted(str(i) for i in range(700))
    queue.offer_many(expected, 60)
    ended = broken_off(client, queue, first, steps)
    clock.advance(61)
    done = finished(first)
    if queue.stats().leaving:
        with pytest.raises(tarry.BadInput, match=r"on their way to another topic \(.*/t\)"):
            client.migrate_queue(queue, second)
        assert second.stats().ready == 0
        client.migrate_queue(queue, first)
    assert client.migrate_queue(queue, second).moved == 0 or not ended
    assert sorted(done + finished(first) + finished(second)) == expected


def test_a_move_to_a_lost_topic_can_be_redirected(client: Any, clock: Clock, name: str) -> None:
    queue, first, second = client.delayed_queue(name, codec="string"), client.topic("t"), client.topic("other")
    queue.offer_many(["a", "b"], 60)
    broken_off(client, queue, first, 5)
    assert queue.stats().leaving == 2
    assert client.migrate_queue(queue, second, redirect=True).moved == 2
    clock.advance(61)
    assert sorted(finished(second)) == ["a", "b"]


def test_a_delayed_moving_process_restores_nothing(client: Any, clock: Clock, name: str) -> None:
    """A process slept after it took the elements out. Meanwhile another process has completed the move."""
    queue, topic = client.delayed_queue(name, codec="string"), client.topic("t")
    queue.offer_many(["a", "b"], 60)
    flow, request, answer = migrate_queue(queue.verbs.context, topic.verbs), None, None
    while getattr(getattr(request, "script", None), "name", "") != "migration/arrive":
        request = flow.send(answer)
        if getattr(getattr(request, "script", None), "name", "") != "migration/arrive":
            answer = client.engine.runner.perform(request)
    client.migrate_queue(queue, topic)
    clock.advance(61)
    assert sorted(finished(topic)) == ["a", "b"]
    for more in range(2):
        answer = client.engine.runner.perform(request)
        assert isinstance(answer, LateDeparture) is (more == 1)
        assert topic.stats().ready == 0
        queue.offer("c", 60)
        client.migrate_queue(queue, topic)
    with suppress(StopIteration):
        while True:
            answer = client.engine.runner.perform(flow.send(answer))
    clock.advance(61)
    assert finished(topic) == ["c", "c"]


def test_departures_of_version_0_1_0_arrive(client: Any, server: Any, name: str) -> None:
    queue, topic = client.delayed_queue(name, codec="string"), client.topic("t")
    queue.offer_many(["a", "b"], 60)
    broken_off(client, queue, topic, 4)
    server.delete(departed_key(keys_of(name)))
    assert client.migrate_queue(queue, topic).moved == 2


def test_an_element_due_beyond_the_year_9999_is_set_aside(client: Any, server: Any, name: str) -> None:
    queue = client.delayed_queue(name, codec="string")
    element = pack(b"tea", b"12345678")
    server.rpush(keys_of(name).order, element)
    server.zadd(keys_of(name).timeouts, {element: 10**15})
    assert client.migrate_queue(queue, "t") == tarry.Migrated(0, poison=1)
    assert queue.size() == 0


def test_bytes_that_cannot_be_decoded_stay_bytes(client: Any, name: str) -> None:
    client.delayed_queue(name, codec="bytes").offer(b"\x01\x00com.shop.Orde\xf2", 1)
    assert client.migrate_queue(client.delayed_queue(name, codec="kryo5"), "t").moved == 1
    (job,) = client.topic("t").list()
    assert job.body == b"\x01\x00com.shop.Orde\xf2"
