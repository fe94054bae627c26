"""Celery's workers and relays as processes that are killed: what is lost, and what runs twice."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import TaskRevokedError

import rabbitmqs
import servers
import tarry
from faults.proxy import SWALLOWED, Proxy
from frameworks.celery_relays import TAKES_NO_TIME, broker, published, relaying
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until
from warm import WarmProcess, start_python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.otherserver,
    pytest.mark.filterwarnings("ignore:Call to deprecated setex"),  # Celery's result backend
]
Start = Callable[..., WarmProcess]


@pytest.fixture
def queues(request: pytest.FixtureRequest) -> str:
    """Where the shop's tasks are published: redis, classic or quorum; the last two are queues of RabbitMQ."""
    kind: str = getattr(request, "param", "redis")
    return kind


@pytest.fixture
def start(
    request: pytest.FixtureRequest,
    redis: ServerProcess,
    queues: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    celery_python: Path,
) -> Iterator[Start]:
    """``start("celery", "-A", "celery_shop", "worker")``; each process leads a group, for a worker has children."""
    place = {
        "SHOP_BROKER": broker(redis) if queues == "redis" else request.getfixturevalue("rabbitmq").url,
        "SHOP_BACKEND": broker(redis),
        "SHOP_QUEUES": queues,
        "SHOP_TARRY": redis.url,
        "SHOP_NAME": name,
        "SHOP_RUNS": str(tmp_path / "runs"),
    }
    place["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    for key, value in place.items():
        monkeypatch.setenv(key, value)
    started: list[WarmProcess] = []

    def start(module: str, *words: str) -> WarmProcess:
        with (tmp_path / "log").open("ab") as log:
            started.append(start_python(celery_python, ["-m", module, *words], log))
        return started[-1]

    yield start
    for process in started:
        kill(process)


def kill(process: WarmProcess) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


@pytest.fixture
def shop(start: Start, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The application, here to send and to look."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    import celery_shop

    yield celery_shop
    celery_shop.app.close()
    del sys.modules["celery_shop"]


WORKER = ("-A", "celery_shop", "worker", "--loglevel", "WARNING", "-c", "2", "--without-gossip", "--without-mingle")
ON_RABBITMQ = [("quorum", "prefork"), ("quorum", "threads"), ("classic", "prefork"), ("classic", "threads")]


@pytest.mark.parametrize(
    ("queues", "pool"),
    [
        ("redis", "prefork"),
        *(pytest.param(*each, marks=pytest.mark.long) for each in (("redis", "threads"), *ON_RABBITMQ)),
    ],
    indirect=["queues"],
)
def test_tasks_with_a_countdown_run_once_even_with_a_killed_worker(
    request: pytest.FixtureRequest,
    start: Start,
    shop: Any,
    topic: tarry.Topic[Any],
    redis: ServerProcess,
    name: str,
    queues: str,
    pool: str,
) -> None:
    from celery import chain, chord

    for number in range(20):
        shop.close.apply_async([number], countdown=TAKES_NO_TIME)
    retried = shop.retried.apply_async([100], countdown=TAKES_NO_TIME)
    chained = chain(shop.add.s(1, 2).set(countdown=TAKES_NO_TIME), shop.add.s(3).set(countdown=TAKES_NO_TIME))()
    both = chord([shop.add.si(1, 1).set(countdown=TAKES_NO_TIME)] * 2)(shop.add.s().set(countdown=TAKES_NO_TIME))
    far = [shop.close.apply_async([number], countdown=3600) for number in range(1000, 1020)]
    expired = shop.close.apply_async([600], countdown=TAKES_NO_TIME, expires=TAKES_NO_TIME / 2)
    revoked = shop.close.apply_async([500], countdown=3600)
    revoked.revoke()

    first = start("celery", *WORKER, "--pool", pool)
    assert [retried.get(timeout=LONGEST_S), chained.get(timeout=LONGEST_S), both.get(timeout=LONGEST_S)] == [
        "done",
        6,
        4,
    ]
    until(lambda: len(shop.runs()) == 20 + 4 + 2 + 3)
    with pytest.raises(TaskRevokedError):  # by the worker, when it was due
        expired.get(timeout=LONGEST_S)
    assert topic.stats().delayed == 20
    inspected = shop.app.control.inspect(timeout=10, limit=1)
    assert list(inspected.scheduled().values()) == [[]]
    assert [each["prefetch_count"] for each in inspected.stats().values()] == [2]  # as for tasks without a countdown
    if queues == "redis":  # nothing is in a worker's hands
        until(lambda: redis.ask("HLEN", "unacked") == 0)
    else:
        rabbitmq: rabbitmqs.RabbitMQ = request.getfixturevalue("rabbitmq")
        until(lambda: rabbitmq.count_messages(name) == 0)
    kill(first)

    second = start("celery", *WORKER, "--pool", pool)
    topic.reschedule_many([result.id for result in far], delay=0)
    assert [result.get(timeout=LONGEST_S) for result in far] == list(range(1000, 1020))
    with pytest.raises(TaskRevokedError):
        revoked.get(timeout=LONGEST_S)
    second.terminate()
    assert second.wait() == 0
    assert topic.stats().reserved == 0  # what was popped and not published was released
    runs = Counter(run["number"] for run in shop.runs())
    assert runs == {**dict.fromkeys([*range(20), *range(1000, 1020)], 1), 100: 4, -1: 5}
    etas = [(run["at"], run["eta"]) for run in shop.runs() if run["number"] < 100 and run["eta"]]
    assert all(at >= datetime.fromisoformat(eta).timestamp() for at, eta in etas)
    assert len(etas) >= 20


def test_a_killed_relay_loses_nothing_and_repeats_one_message_at_most(
    start: Start, shop: Any, topic: tarry.Topic[Any], redis: ServerProcess, name: str
) -> None:
    count, kills = 120, 2
    for number in range(count):
        shop.close.apply_async([number], countdown=TAKES_NO_TIME, task_id=str(number))
    for number in range(1, kills + 1):
        relay = start("tarry", "celery-relay", "celery_shop")
        until(lambda part=number * count // 4: redis.ask("LLEN", name) > part)
        kill(relay)
        for job in topic.list("reserved").jobs:  # as after its TTR
            assert job.holder is not None
            topic.release_holder(job.holder, counted=False)
            break
    last = start("tarry", "celery-relay", "celery_shop:app")
    until(lambda: not topic.stats().ready and not topic.stats().reserved)
    last.terminate()
    assert last.wait() == 0
    arrived = Counter(message["headers"]["id"] for message in published(redis, name))
    assert arrived.keys() == {str(number) for number in range(count)}
    assert sum(arrived.values()) <= count + kills


KILLS = 5


@pytest.mark.long
@pytest.mark.parametrize("sent", ["by Celery alone", "with tarry"])
def test_what_a_killed_worker_has_taken_from_redis_and_not_noted_is_lost_whoever_has_published_it(
    start: Start,
    redis: ServerProcess,
    topic: tarry.Topic[Any],
    name: str,
    sent: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """kombu's Redis transport takes a message with BRPOP and notes it as unacknowledged with the next command. A failure here is good
    news: the transport has closed the gap, and the page on Celery and decision 0048 have to say so."""
    if sent != "with tarry":
        monkeypatch.setenv("SHOP_TARRY", "")
    shop = request.getfixturevalue("shop")
    with servers.short_folder() as folder, closing(Proxy(folder, redis.address)) as proxy:
        for number in range(KILLS + 1):
            shop.close.apply_async([number], **({"countdown": TAKES_NO_TIME} if sent == "with tarry" else {}))
        if sent == "with tarry":
            with relaying(shop.app):
                until(lambda: topic.stats().finished == KILLS + 1)
        assert len(published(redis, name)) == KILLS + 1

        monkeypatch.setenv("SHOP_BROKER", f"redis+socket://{proxy.path}")
        for number in range(KILLS + 1):  # the worker is not told what it has taken; the last one: that it has noted it
            proxy.arm(SWALLOWED, at=b"BRPOP" if number < KILLS else b"ZADD")
            worker = start("celery", *WORKER, "--pool", "threads")
            until(lambda number=number: proxy.struck > number)
            kill(worker)

    monkeypatch.setenv("SHOP_BROKER", broker(redis))
    start("celery", *WORKER, "--pool", "threads")
    until(shop.runs)  # what was noted, after its visibility timeout
    until(lambda: redis.ask("HLEN", "unacked") == 0 and not published(redis, name))
    assert [run["number"] for run in shop.runs()] == [KILLS]
