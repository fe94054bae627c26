"""The relay at RabbitMQ: many messages are under way, and a job is finished when its message has been confirmed, never before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from celery import Celery
from kombu import Queue

import rabbitmqs
import tarry
import tarry.celery
from faults.proxy import Proxy
from frameworks.celery_relays import TAKES_NO_TIME, relaying
from tarry.celery import relay as relay_module
from tarry.celery.relay import BATCH, Relay
from tarry.connections.embedded.server_process import ServerProcess
from until import until

pytestmark = [pytest.mark.slow, pytest.mark.otherserver]


@pytest.fixture
def proxy(rabbitmq: rabbitmqs.RabbitMQ) -> Iterator[Proxy]:
    at = urlsplit(rabbitmq.url)
    proxy = Proxy(None, (at.hostname, at.port))
    yield proxy
    proxy.close()


@contextmanager
def reading_late(proxy: Proxy) -> Iterator[None]:
    proxy.reads.clear()
    try:
        yield
    finally:
        proxy.reads.set()


@contextmanager
def application(redis: ServerProcess, broker: str, name: str, **queue: object) -> Iterator[Celery]:
    app = Celery("shop", broker=broker, set_as_current=False)
    app.conf.update(task_default_queue=name, task_queues=[Queue(name, routing_key=name, **queue)])
    tarry.celery.install(app, redis.url, namespace=name)
    yield app
    app.close()


def through(proxy: Proxy, rabbitmq: rabbitmqs.RabbitMQ) -> str:
    at = urlsplit(rabbitmq.url)
    return at._replace(netloc=at.netloc.replace(f"{at.hostname}:{at.port}", proxy.address)).geturl()


def wait_until_under_way(relay: Relay, topic: tarry.Topic[Any], *, more_than: int = 0) -> None:
    """Until all that the relay has popped is written, and waits to be confirmed. A relay that does not wait has finished a second job."""

    def all_is_written() -> bool:
        stats = topic.stats()
        return more_than < relay._broker.under_way == stats.reserved or stats.finished > 1

    until(all_is_written)
    assert topic.stats().finished == 1, "a job was finished before its message was confirmed"


def wait_until_settled(topic: tarry.Topic[Any], messages: int) -> None:
    """Until each message is finished, or was given back with a reason."""
    until(lambda: topic.stats().finished + sum(bool(job.reason) for job in topic.list("delayed").jobs) == messages)


def arrived(rabbitmq: rabbitmqs.RabbitMQ, queue: str) -> Counter[str]:
    """How often each task is in the queue; takes them out."""
    found: Counter[str] = Counter()
    with Celery(broker=rabbitmq.url, set_as_current=False).connection_for_read() as connection:
        bound = Queue(queue)(connection.default_channel)
        while (message := bound.get(no_ack=True)) is not None:
            found[message.headers["id"]] += 1
    return found


def test_what_a_broken_connection_has_taken_along_is_published_again(
    redis: ServerProcess, rabbitmq: rabbitmqs.RabbitMQ, proxy: Proxy, name: str, topic: tarry.Topic[Any]
) -> None:
    """The broker reads late, and then the connection breaks: written is not received."""
    ids = [f"task-{number}" for number in range(BATCH + 8)]
    with application(redis, through(proxy, rabbitmq), name) as app, relaying(app) as relay:
        app.send_task("shop.close", task_id="first", countdown=TAKES_NO_TIME)
        until(lambda: topic.stats().finished == 1)  # the queue is declared
        with reading_late(proxy):
            for id in ids:
                app.send_task("shop.close", task_id=id, countdown=3600)
            topic.reschedule_many(ids, delay=0)
            wait_until_under_way(relay, topic, more_than=1)
            proxy.cut_all()
        until(lambda: topic.stats().finished == 1 + len(ids))
    assert arrived(rabbitmq, name) == Counter(["first", *ids])


def test_while_confirmations_are_late_no_other_relay_takes_the_messages(
    redis: ServerProcess,
    rabbitmq: rabbitmqs.RabbitMQ,
    proxy: Proxy,
    name: str,
    topic: tarry.Topic[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "TTR_S", 1.5)
    with application(redis, through(proxy, rabbitmq), name) as app, relaying(app) as relay:
        app.send_task("shop.close", task_id="first", countdown=TAKES_NO_TIME)
        until(lambda: topic.stats().finished == 1)
        with reading_late(proxy):
            app.send_task("shop.close", task_id="late", countdown=TAKES_NO_TIME)
            wait_until_under_way(relay, topic)
            ends = set()

            def is_renewed_four_times() -> bool:
                job = topic.get("late")
                assert job is not None
                assert job.state == "reserved"
                ends.add(job.reserved_until)
                return len(ends) == 5

            until(is_renewed_four_times)
        until(lambda: topic.stats().finished == 2)
    assert arrived(rabbitmq, name) == Counter(["first", "late"])


def test_a_relay_that_is_stopped_gives_back_what_is_not_confirmed(
    redis: ServerProcess,
    rabbitmq: rabbitmqs.RabbitMQ,
    proxy: Proxy,
    name: str,
    topic: tarry.Topic[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay_module, "TTR_S", 3.0)
    with application(redis, through(proxy, rabbitmq), name) as app:
        with relaying(app) as relay:
            app.send_task("shop.close", task_id="first", countdown=TAKES_NO_TIME)
            until(lambda: topic.stats().finished == 1)
            proxy.reads.clear()
            app.send_task("shop.close", task_id="late", countdown=TAKES_NO_TIME)
            wait_until_under_way(relay, topic)
        proxy.reads.set()
        job = topic.get("late")
        assert job is not None
        assert (job.state, job.attempts) == ("ready", 0)


def test_a_refused_message_is_tried_again_later_with_the_reason(
    redis: ServerProcess, rabbitmq: rabbitmqs.RabbitMQ, name: str, topic: tarry.Topic[Any]
) -> None:
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with application(redis, rabbitmq.url, name, queue_arguments=full) as app:
        for number in range(3):
            app.send_task("shop.close", task_id=f"task-{number}", countdown=TAKES_NO_TIME)
        with relaying(app):
            wait_until_settled(topic, 3)
    assert topic.stats().finished == 1
    assert arrived(rabbitmq, name).total() == 1
    assert {job.reason for job in topic.list("delayed").jobs} == {
        "MessageNacked: the broker does not take it, as for a queue that is full"
    }


def test_a_message_that_closes_the_channel_keeps_back_no_other(
    redis: ServerProcess, rabbitmq: rabbitmqs.RabbitMQ, name: str, topic: tarry.Topic[Any]
) -> None:
    ids = [f"task-{number}" for number in range(10)]
    with application(redis, rabbitmq.url, name) as app:
        for id in ids[:5]:
            app.send_task("shop.close", task_id=id, countdown=TAKES_NO_TIME)
        app.send_task("shop.close", task_id="bad", countdown=TAKES_NO_TIME, expiration=-5)
        for id in ids[5:]:
            app.send_task("shop.close", task_id=id, countdown=TAKES_NO_TIME)
        with relaying(app):
            wait_until_settled(topic, 11)
    assert topic.stats().finished == 10
    assert arrived(rabbitmq, name).keys() == set(ids)
    left = topic.get("bad")  # delayed, or on a slow machine ready again
    assert left is not None
    assert left.attempts == 1
    assert left.reason.startswith("PreconditionFailed: ")
