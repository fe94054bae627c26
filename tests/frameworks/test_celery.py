"""tarry.celery on a real Redis and a real RabbitMQ: what waits, and what arrives."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, signals
from celery.exceptions import Retry, TaskRevokedError
from kombu import Exchange, Queue, binding
from kombu.exceptions import OperationalError
from redis import Redis

import rabbitmqs
import tarry
import tarry.celery
from frameworks.celery_relays import TAKES_NO_TIME, broker, published, relaying
from tarry.connections.background import failures
from tarry.connections.embedded.server_process import ServerProcess
from tarry.errors import BadInput
from until import LONGEST_S, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.otherserver,
    pytest.mark.filterwarnings("ignore:Call to deprecated setex"),  # Celery's result backend
]


@pytest.fixture
def app(redis: ServerProcess, name: str) -> Iterator[Celery]:
    """An application whose messages nobody takes: they lie in the broker to be looked at."""
    with application(redis, name) as app:
        yield app


@contextmanager
def application(redis: ServerProcess, name: str, **settings: Any) -> Iterator[Celery]:
    app = Celery("shop", broker=broker(redis), backend=broker(redis), set_as_current=False)
    app.conf.update(task_default_queue=name, control_exchange=name, **settings)
    tarry.celery.install(app, redis.url, namespace=name)

    @app.task(name="shop.close", shared=False)
    def close(number: int) -> int:
        return number

    yield app
    gc.collect()  # results unsubscribe when they are forgotten, and need their server for it
    app.close()


# ── what is sent, and what arrives ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"task_serializer": "pickle", "accept_content": ["json", "pickle"]},
        {"task_compression": "gzip"},
        {"task_protocol": 1},
    ],
    ids=["json", "pickle", "compressed", "protocol 1"],
)
def test_a_message_arrives_unchanged_except_for_its_eta(
    redis: ServerProcess, name: str, topic: tarry.Topic[Any], settings: dict[str, Any]
) -> None:
    plain = Celery("shop", broker=broker(redis), set_as_current=False)
    plain.conf.update(task_default_queue=f"{name}-plain", **settings)
    eta = datetime.now(timezone.utc)
    sent = {"args": [7], "eta": eta, "task_id": "7", "expires": eta + timedelta(hours=1), "priority": 3}
    sent |= {"reply_to": "me", "headers": {"tenant": "ada", "since": "yesterday"}, "shadow": "closing"}
    with application(redis, name, **settings) as app:
        plain.send_task("shop.close", **sent)
        app.send_task("shop.close", **sent)
        assert published(redis, name) == published(redis, f"{name}\x06\x163") == []
        assert topic.stats().ready == 1
        with relaying(app):
            until(lambda: topic.stats().finished)
    [expected], [found] = published(redis, f"{name}-plain\x06\x163"), published(redis, f"{name}\x06\x163")
    plain.close()

    assert found["headers"].pop("tarry_eta") == eta.isoformat()
    if settings == {"task_protocol": 1}:
        bodies = [json.loads(base64.b64decode(message.pop("body"))) for message in (expected, found)]
        assert bodies[0].pop("eta") == eta.isoformat()
        assert bodies[1].pop("eta") is None
        assert bodies[0] == bodies[1]
    else:
        assert expected["headers"].pop("eta") == eta.isoformat()
        assert found["headers"].pop("eta") is None
        expected["headers"]["origin"] = found["headers"]["origin"]
    for message in (expected, found):
        message["properties"].pop("delivery_tag")
        message["properties"]["delivery_info"].pop("routing_key")
        message["properties"].pop("expiration")  # counted when it is published
    assert found == expected


def test_a_task_without_an_eta_is_published_at_once(app: Celery, redis: ServerProcess, name: str) -> None:
    app.send_task("shop.close", [7])
    assert len(published(redis, name)) == 1


def test_signals_and_headers_are_those_of_the_send(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    seen: list[Any] = []

    def before(headers: dict[str, Any], **_: Any) -> None:
        seen.append(headers["eta"])
        headers["traceparent"] = "00-1"

    signals.before_task_publish.connect(before)
    try:
        app.send_task("shop.close", [7], countdown=TAKES_NO_TIME)
        with relaying(app):
            until(lambda: topic.stats().finished)
    finally:
        signals.before_task_publish.disconnect(before)
    [message] = published(redis, name)
    assert message["headers"]["traceparent"] == "00-1"
    assert seen == [message["headers"]["tarry_eta"]]


def test_a_queue_given_by_the_caller_is_declared_and_used(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    exchange = Exchange(f"{name}-x", type="topic")
    queue = Queue(f"{name}-own", bindings=[binding(exchange, "orders.#"), binding(exchange, "refunds.#")])
    app.conf.task_queues = [Queue(name), queue]
    message = {"queue": queue, "exchange": f"{name}-x", "routing_key": "refunds.new"}
    app.send_task("shop.close", [7], countdown=TAKES_NO_TIME, **message)
    with relaying(app):
        until(lambda: topic.stats().finished)
    assert len(published(redis, f"{name}-own")) == 1


@pytest.mark.parametrize(("expires", "left"), [(7200, 7200), (0.001, None)])
def test_an_expiration_is_computed_at_publish_time(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any], expires: float, left: float | None
) -> None:
    app.send_task("shop.close", [7], countdown=3600, task_id="7", expires=expires)
    topic.reschedule("7", delay=0)
    with relaying(app):
        until(lambda: topic.stats().finished)
    [message] = published(redis, name)
    counted = message["properties"].get("expiration")
    if left is None:
        assert counted is None  # a worker marks it as revoked; a broker would drop it without a word
    else:
        assert 0 < int(counted) < left * 1000


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_on_rabbitmq_a_task_waits_once(
    rabbitmq: rabbitmqs.RabbitMQ, redis: ServerProcess, name: str, topic: tarry.Topic[Any], kind: str
) -> None:
    delivery = pytest.importorskip("kombu.transport.native_delayed_delivery", reason="needs a newer kombu")
    orders = Exchange(f"{name}-orders", type="topic")
    queue = Queue(name, orders, f"{name}.new", queue_arguments={"x-queue-type": kind})
    app = Celery("shop", broker=rabbitmq.url, backend=broker(redis), set_as_current=False)
    app.conf.update(task_queues=[queue], task_default_queue=name)
    tarry.celery.install(app, redis.url, namespace=name)
    with app.connection_for_write() as connection:
        delivery.declare_native_delayed_delivery_exchanges_and_queues(connection, "classic")  # as a worker does
        bound: Any = queue(connection.default_channel)
        bound.declare()
        delivery.bind_queue_to_native_delayed_delivery_exchange(connection, bound)
        far = app.send_task("shop.close", [7], countdown=3600, task_id="7")
        gone = app.send_task("shop.close", [8], countdown=3600, task_id="8")
        job = topic.get("7")
        assert job is not None
        assert (job.body["publish"]["exchange"], job.body["publish"]["routing_key"]) == (orders.name, f"{name}.new")
        gone.revoke()
        with pytest.raises(TaskRevokedError):
            gone.get(timeout=LONGEST_S)
        topic.reschedule("7", delay=0)
        with relaying(app):
            until(lambda: topic.stats().finished)
        message = bound.get(no_ack=True)  # published is what the broker has confirmed, so it is there
        assert (message.headers["id"], message.headers["eta"]) == (far.id, None)
        assert datetime.fromisoformat(message.headers["tarry_eta"]) < datetime.now(timezone.utc) + timedelta(minutes=1)
        assert bound.get() is None
        waiting = [delivery.level_name(level) for level in range(28)]
        assert not any(bound.channel.queue_declare(each, passive=True).message_count for each in waiting)
        bound.delete()
    app.close()


# ── the same id twice ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_retry_is_kept_while_a_relay_holds_the_previous_message(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    app.send_task("shop.close", [7], countdown=TAKES_NO_TIME, task_id="7")
    held = topic.pop(wait=60)  # as a relay does; it has published, and the task has run
    assert held is not None
    app.send_task("shop.close", [7], countdown=3600, task_id="7", retries=1)
    with pytest.raises(tarry.StaleReceipt):
        held.finish()
    job = topic.get("7")
    assert job is not None
    assert (job.state, job.body["publish"]["headers"]["retries"]) == ("delayed", 1)


def test_two_messages_with_one_id_are_both_delivered(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    for number in (1, 2):
        app.send_task("shop.close", [number], countdown=TAKES_NO_TIME, task_id="7")
    held = topic.pop(wait=60)
    assert held is not None
    app.send_task("shop.close", [3], countdown=TAKES_NO_TIME, task_id="7")
    held.release(counted=False)
    with relaying(app):
        until(lambda: topic.stats().finished == 3)
    messages = published(redis, name)
    assert {message["headers"]["id"] for message in messages} == {"7"}
    assert sorted(message["headers"]["argsrepr"] for message in messages) == ["[1]", "[2]", "[3]"]


# ── a full topic ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_full_topic_refuses_a_task_with_an_eta_and_no_other(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    topic.configure(max_pending=1)
    app.send_task("shop.close", [1], countdown=3600, task_id="1")
    with pytest.raises(tarry.TopicFull, match="celery is full"):
        app.send_task("shop.close", [2], countdown=3600, task_id="2")
    app.send_task("shop.close", [3])
    assert [message["headers"]["argsrepr"] for message in published(redis, name)] == ["[3]"]
    assert (topic.stats().delayed, topic.stats().not_added) == (1, 1)


def test_a_retry_is_not_refused_by_a_full_topic(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    """By the request of a task that a worker runs: Celery would drop it."""
    topic.configure(max_pending=1)
    app.send_task("shop.close", [1], countdown=TAKES_NO_TIME, task_id="7")
    held = topic.pop(wait=60)
    app.send_task("shop.close", [2], countdown=3600, task_id="in the way")
    task = app.tasks["shop.close"]
    for task_id in ("7", "8"):
        task.push_request(id=task_id, args=[1], kwargs={}, retries=0, called_directly=False, is_eager=False)
        with pytest.raises(Retry):
            task.retry(countdown=3600)
        task.pop_request()
    assert held is not None
    with pytest.raises(tarry.StaleReceipt):
        held.finish()
    assert (topic.stats().delayed, topic.stats().not_added) == (3, 0)


# ── revoke and reschedule ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_revoked_waiting_task_is_removed_and_get_raises(app: Celery, topic: tarry.Topic[Any]) -> None:
    told: list[Any] = []

    def revoked(sender: Any, request: Any, **rest: Any) -> None:
        told.append((sender.name, request.id, request.args, rest["terminated"], rest["expired"]))

    signals.task_revoked.connect(revoked)
    try:
        result = app.send_task("shop.close", [7], countdown=3600)
        result.revoke()
    finally:
        signals.task_revoked.disconnect(revoked)
    assert topic.stats().delayed == 0
    assert told == [("shop.close", result.id, [7], False, False)]
    with pytest.raises(TaskRevokedError):
        result.get(timeout=LONGEST_S)
    assert result.state == "REVOKED"


def test_revoke_still_notifies_the_workers(app: Celery, redis: ServerProcess, name: str) -> None:
    with Redis(unix_socket_path=str(redis.address)) as listener, listener.pubsub() as workers:
        workers.psubscribe(f"*{name}.pidbox*")
        workers.get_message(timeout=LONGEST_S)
        app.control.revoke(["7", "8"])  # neither waits
        message: Any = workers.get_message(timeout=LONGEST_S)
    told = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
    assert (told["method"], told["arguments"]["task_id"]) == ("revoke", ["7", "8"])


def test_a_waiting_task_can_be_rescheduled(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]
) -> None:
    app.send_task("shop.close", [7], countdown=3600, task_id="7")
    sooner = datetime.now(timezone.utc) + timedelta(milliseconds=1)
    control: Any = app.control
    assert control.reschedule("7", eta=sooner)
    with relaying(app):
        until(lambda: topic.stats().finished)
    [message] = published(redis, name)
    shown = datetime.fromisoformat(message["headers"]["tarry_eta"])
    assert abs(shown - sooner) < timedelta(minutes=1)
    assert not control.reschedule("7", countdown=1)
    with pytest.raises(BadInput, match="give one of the two"):
        control.reschedule("7")


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unpublishable_message_does_not_block_others(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any], caplog: pytest.LogCaptureFixture
) -> None:
    topic.add({"not": "a message"}, id="broken", max_attempts=None)
    app.send_task("shop.close", [7], countdown=TAKES_NO_TIME)
    with caplog.at_level(logging.CRITICAL, "tarry.celery"), relaying(app):
        until(lambda: topic.stats().finished == 1)
        until(lambda: topic.stats().dead == 1)
    broken = topic.get("broken")
    assert broken is not None
    assert "missing required field" in broken.reason
    assert len(published(redis, name)) == 1


EVIL = base64.b64encode(b"cposix\nsystem\n(S'true'\ntR.").decode()


@pytest.mark.parametrize(
    "forged",
    [
        {"publish": {"content_type": "application/x-python-serialize", "content_encoding": "binary"}},
        {"publish": {"content_type": None}},
        {"publish": {"content_type": "application/x-yaml"}},
        {"publish": {"serializer": "pickle"}},
        {"publish": {"retry": True}},
        {"publish": {"compression": "gzip"}},
        {"publish": {"headers": "none"}},
        {"publish": {"headers": {"expires": "never"}}},
        {"publish": {"exchange": {"__type__": "base64", "__value__": "YQ=="}}},
        {"publish": {"delivery_mode": {}}},
        {"publish": {"priority": "high"}},
        {"publish": "all of it"},
        {"declare": [{"name": "evil", "exchange": {"name": "evil", "type": "direct"}}]},
        {"delay": "long"},
        {"delay": 1e300},
    ],
    ids=lambda forged: json.dumps(forged)[:60],
)
def test_a_message_that_the_sender_does_not_write_is_dead_and_published_nowhere(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any], forged: dict[str, Any]
) -> None:
    """Whoever may add to the topic has none of the relay's rights at the broker."""
    before = keys(redis)
    topic.add(forge(name, forged), id="forged", max_attempts=None)
    with relaying(app):
        until(lambda: topic.stats().dead)
    found = topic.get("forged")
    assert found is not None
    assert found.reason.startswith("refused: it")
    assert keys(redis) == before
    control: Any = app.control
    control.revoke("forged")  # raises nothing


@pytest.mark.parametrize(
    "forged",
    [
        {"publish": {"routing_key": "payroll"}},
        {"publish": {"routing_key": None}},
        {"publish": {"exchange": "payroll", "routing_key": "payroll"}},
        {"publish": {"headers": {"CC": ["payroll"]}}},
        {"publish": {"headers": {"bcc": "payroll"}}},
        {"publish": {"reply_to": "payroll"}},
        {"declare": ["payroll"]},
    ],
    ids=lambda forged: json.dumps(forged)[:60],
)
def test_a_message_for_a_queue_that_the_app_does_not_know_waits_and_its_reason_says_so(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any], forged: dict[str, Any]
) -> None:
    before = keys(redis)
    app.conf.result_backend = "rpc://"  # results are messages, too
    topic.add(forge(name, forged), id="forged", max_attempts=None)
    with relaying(app):
        until(lambda: (job := topic.get("forged")) is not None and job.reason)
    found = topic.get("forged")
    assert found is not None
    assert found.state in ("delayed", "ready", "reserved")
    assert "is not one that the app knows" in found.reason
    assert keys(redis) == before


@pytest.mark.parametrize("named_by", ["install", "routes", "pairs", "task", "-Q"])
def test_a_queue_is_known_by_settings_routes_tasks_and_the_workers_command_line(
    app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any], named_by: str
) -> None:
    other = f"{name}-other"
    if named_by == "install":
        tarry.celery.install(app, redis.url, namespace=name, queues=[other])
    elif named_by == "routes":
        app.conf.task_routes = {"shop.*": {"queue": other}}
    elif named_by == "pairs":
        app.conf.task_routes = ([("shop.x", {"queue": "x"}), ("shop.*", other)],)
    elif named_by == "task":
        app.tasks["shop.close"].queue = other
    else:
        app.amqp.queues.select([other])
    topic.add(forge(name, {"publish": {"routing_key": other}, "declare": [other]}))
    with relaying(app):
        until(lambda: topic.stats().finished)
    assert len(published(redis, other)) == 1


def forge(name: str, changes: dict[str, Any]) -> dict[str, Any]:
    """A message as the sender writes it, but for these changes."""
    publish = {
        "body": {"__type__": "base64", "__value__": EVIL},
        "headers": {"id": "1", "task": "shop.close"},
        "exchange": "",
        "routing_key": name,
        "content_type": "application/json",
        "content_encoding": "utf-8",
    }
    given = changes.get("publish", {})
    headers = given.get("headers", {}) if isinstance(given, dict) else {}
    if isinstance(given, dict):
        publish |= given
        publish["headers"] = {**publish["headers"], **headers} if isinstance(headers, dict) else headers
    return {
        "task": "shop.close",
        "delay": 0.0,
        "declare": [name],
        **changes,
        "publish": publish if isinstance(given, dict) else given,
    }


def keys(redis: ServerProcess) -> set[bytes]:
    """The broker's keys: queues, and what is bound to exchanges."""
    found: Any = redis.ask("KEYS", "*")
    return {key for key in found if b"tarry:" not in bytes(key)}


def test_a_relay_goes_on_after_any_error(app: Celery, redis: ServerProcess, name: str, topic: tarry.Topic[Any]) -> None:
    """One that could not make its client would be missed by nobody, and its worker's tasks would wait for ever."""
    app.send_task("shop.close", [7], countdown=TAKES_NO_TIME)
    with relaying(app, clients=[TypeError("a bug"), asyncio.CancelledError()]):
        until(lambda: topic.stats().finished == 1)
    assert len(published(redis, name)) == 1
    assert failures.counts == {"tarry-relay": 2}


def test_a_relay_that_fails_is_stopped_at_once(app: Celery) -> None:
    with relaying(app, clients=[TypeError("a bug")] * 10_000):
        until(lambda: failures.counts)


def test_tasks_wait_while_the_broker_is_down_and_none_is_lost(
    redis: ServerProcess, name: str, topic: tarry.Topic[Any], own_server: Callable[..., ServerProcess]
) -> None:
    away = own_server("--appendonly", "yes", "--appendfsync", "always")
    app = Celery("shop", broker=broker(away), set_as_current=False)
    app.conf.task_default_queue = name
    tarry.celery.install(app, redis.url, namespace=name)
    with relaying(app):
        app.send_task("shop.close", [1], countdown=TAKES_NO_TIME)
        until(lambda: topic.stats().finished == 1)  # published only, it would be published again
        app.send_task("shop.close", [2], countdown=3600, task_id="2")
        away.kill()
        topic.reschedule("2", delay=0)
        until(lambda: (job := topic.get("2")) is not None and job.state == "ready")
        away.restart()
        until(lambda: len(published(away, name)) == 2)
        until(lambda: topic.stats().finished == 2)
    app.close()


@pytest.mark.parametrize("installed", [False, True], ids=["Celery alone", "with tarry"])
def test_a_result_backend_that_is_away_refuses_a_task_unless_it_ignores_its_result(
    redis: ServerProcess, name: str, installed: bool
) -> None:
    app = Celery("shop", broker=broker(redis), backend="redis://127.0.0.1:1/0", set_as_current=False)
    app.conf.update(
        task_default_queue=name,
        result_backend_transport_options={"retry_policy": {"max_retries": 1, "interval_start": 0}},
    )
    if installed:
        tarry.celery.install(app, redis.url, namespace=name)
    app.send_task("shop.close", [7], countdown=3600, ignore_result=True)
    with pytest.raises(
        (RuntimeError, OperationalError), match=r"Celery result store|Connection refused"
    ):  # 5.4: the latter
        app.send_task("shop.close", [7], countdown=3600)
    app.close()


def test_nothing_of_it_is_imported_unless_it_is_asked_for() -> None:
    code = "import sys, tarry, tarry.programs.cli, tarry.programs.service.app, tarry.worker.worker_process\n"
    code += (
        "print([name for name in sys.modules if name.split('.')[0] in ('celery', 'kombu') or 'tarry.celery' in name])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


def test_an_app_without_tarry_is_refused_with_a_message() -> None:
    with pytest.raises(BadInput, match=r"call tarry\.celery\.install"):
        tarry.celery.waiting_tasks(Celery("other", set_as_current=False))


@pytest.mark.parametrize(
    ("broker", "missing"), [("mongodb://localhost", "pymongo"), ("nonsense://localhost", "nonsense")]
)
def test_a_relay_without_the_library_of_its_broker_says_which(
    tmp_path: Path, celery_python: Path, broker: str, missing: str
) -> None:
    (tmp_path / "shop.py").write_text(
        f"import sys, celery, tarry.celery\nsys.modules['pymongo'] = None\napp = celery.Celery(broker={broker!r})\n"
        "tarry.celery.install(app)\n"
    )
    words = [celery_python, "-m", "tarry", "celery-relay", "shop:app"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert ended.returncode == 2
    assert re.fullmatch(f"error: APP: its broker cannot be used: .*{missing}.*\n", ended.stderr)


def test_an_app_with_another_amqp_class_is_refused(redis: ServerProcess) -> None:
    app = Celery("other", set_as_current=False, amqp="other:AMQP")
    with pytest.raises(BadInput, match=r"derive it from tarry\.celery\.AMQP"):
        tarry.celery.install(app, redis.url)
