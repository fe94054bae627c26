"""A worker that is asked over the server to be quiet, to stop, or to work again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import tarry
from tarry.core.requests import Command
from tarry.values.keys import worker_keys
from tarry.verbs.workers import WorkerMode, WorkerReport, report_worker
from until import LONGEST_S, until
from warm import WarmTarry

Start = Callable[..., tarry.Worker]


@pytest.fixture
def started(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a worker in a thread, which reports, and learns what it is asked, at each look. Stops it at the end."""
    monkeypatch.setattr("tarry.worker.heartbeat.REPORT_EVERY_S", 0.0)
    monkeypatch.setattr("tarry.worker.renewal.CHECK_PARTS", 1_000_000)
    running: list[tuple[asyncio.AbstractEventLoop, tarry.Worker, threading.Thread]] = []

    def start(prepare: Callable[[tarry.Worker], None], **options: Any) -> tarry.Worker:
        worker = tarry.Worker(url=valkey_url, namespace=namespace, **{"ttr": "10m", "grace": 5, **options})
        prepare(worker)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run(signals=False)))
        thread.start()
        running.append((loop, worker, thread))
        return worker

    yield start
    for loop, worker, thread in running:
        if thread.is_alive():
            loop.call_soon_threadsafe(worker.stop)
        thread.join()
        worker.client.close()
        loop.close()


def mode_of(client: tarry.Client) -> str:
    [info] = client.workers()
    return info.mode


def ask(client: tarry.Client, mode: WorkerMode) -> None:
    [info] = client.workers()
    assert client.set_worker_mode(info.name, mode)
    assert client.workers()[0].asked == mode
    until(lambda: all(info.mode == mode for info in client.workers()), "it has learned of it")


@pytest.mark.parametrize("concurrency", [None, 3])
def test_a_quiet_worker_takes_no_jobs_and_goes_on_with_its_own(
    client: tarry.Client, started: Start, concurrency: int | None
) -> None:
    begun, release, orders, mail = list[int](), threading.Event(), client.topic("orders"), client.topic("mail")

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("orders", concurrency=2)
        def close(job: tarry.Job[int]) -> None:
            begun.append(job.body)
            assert release.wait(LONGEST_S)

        @worker.on("mail", concurrency=2)
        async def send(job: tarry.AsyncJob[int]) -> None:
            begun.append(job.body)

    started(prepare, concurrency=concurrency, ttr="5m")  # the job stays its own on a busy machine
    orders.add(1)
    until(lambda: begun == [1] and bool(client.workers()), "it runs")
    ask(client, "quiet")
    orders.add(2)
    mail.add(3)
    release.set()
    until(lambda: orders.stats().finished == 1, "its own job is finished, without another pop")
    assert (begun, orders.stats().ready, mail.stats().ready) == ([1], 1, 1)
    assert (orders.stats().watching, mail.stats().watching) == (0, 0), "it waits for nothing"
    assert not client.workers()[0].takes_jobs
    ask(client, "work")
    until(lambda: orders.stats().finished == 2 and mail.stats().finished == 1, "it works again")
    assert sorted(begun) == [1, 2, 3]


def test_a_worker_that_is_asked_to_stop_drains(client: tarry.Client, started: Start) -> None:
    begun, release, topic = list[int](), threading.Event(), client.topic("orders")

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("orders", concurrency=1)
        def close(job: tarry.Job[int]) -> None:
            begun.append(job.body)
            assert release.wait(LONGEST_S)

    started(prepare, grace=60)
    topic.add(1)
    until(lambda: begun == [1] and bool(client.workers()), "it runs")
    topic.add(2)
    ask(client, "stop")
    [info] = client.workers()
    until(lambda: client.workers()[0].stopping, "and says so")
    assert client.set_worker_mode(info.name, "work"), "too late"
    release.set()
    until(lambda: not client.workers(), "it has ended")
    assert (topic.stats().finished, topic.stats().ready, begun) == (1, 1, [1])
    assert client.set_worker_mode(info.name, "stop") is False
    key = worker_keys(client.namespace).asked
    assert client.engine.run(Command((b"EXISTS", key), int)) == 0, "nothing is left of it"


def test_a_quiet_worker_stops_when_it_is_asked_to(client: tarry.Client, started: Start) -> None:
    def prepare(worker: tarry.Worker) -> None:
        @worker.on("orders")
        async def close(job: tarry.AsyncJob[int]) -> None: ...

    started(prepare)
    until(lambda: bool(client.workers()), "it reports")
    ask(client, "quiet")
    [info] = client.workers()
    client.set_worker_mode(info.name, "stop")
    until(lambda: not client.workers(), "it has ended")


def test_a_request_is_for_one_run_of_one_worker(client: tarry.Client, valkey_url: str) -> None:
    """For one that died nothing is noted. A new run with the same name does not get what the last one was asked."""
    namespace, new = client.namespace, WorkerReport("ada", 7, "2", 1, 0, False, (), (), "work")
    assert client.set_worker_mode("ada", "stop") is False
    with pytest.raises(tarry.BadInput, match="'sleep' is unknown; it is work, quiet or stop"):
        client.set_worker_mode("ada", "sleep")  # type: ignore[arg-type]
    since, asked = client.engine.run(report_worker(namespace, b"ada", None, new))
    assert asked is None
    assert client.set_worker_mode("ada", "stop")
    assert client.engine.run(report_worker(namespace, b"ada", since, new)).asked == "stop"
    assert client.engine.run(report_worker(namespace, b"bob", None, new)).asked is None
    assert client.engine.run(report_worker(namespace, b"ada", None, new)).asked is None, "the next run"
    assert {info.name: info.asked for info in client.workers()} == {"ada": "", "bob": ""}
    assert client.set_worker_mode("ada", "quiet")
    keys = worker_keys(namespace)
    with redis.Redis.from_url(valkey_url) as server:
        server.hset(keys.asked, "bob", "dance")  # a newer version may know more modes
        assert client.engine.run(report_worker(namespace, b"bob", since, new)).asked is None
        server.zadd(keys.heard, {"ada": 1})
        client.engine.run(report_worker(namespace, b"bob", since, new))
        assert server.hkeys(keys.asked) == [b"bob"], "swept with its report"
        assert 30_000 < server.pttl(keys.asked) <= 60_000


@pytest.mark.slow
def test_a_child_that_is_asked_to_stop_is_not_replaced(
    client: tarry.Client, valkey_url: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    (tmp_path / "shop.py").write_text(
        "import tarry\nworker = tarry.Worker(ttr='500ms')\n\n@worker.on('orders')\nasync def close(job): ...\n"
    )
    words = ["worker", "shop:worker", "--processes", "2", "--url", valkey_url, "--namespace", client.namespace]
    said = tmp_path / "said"
    with said.open("w") as file:
        process = tarry_command.start(words, file, {}, tmp_path)
    try:
        until(lambda: len(client.workers()) == 2, "both report")
        first, second = (info.name for info in client.workers())
        client.set_worker_mode(first, "stop")
        until(lambda: [info.name for info in client.workers()] == [second], "one has ended")
        client.topic("orders").add(1)
        until(lambda: client.topic("orders").stats().finished == 1, "the other works")
        client.set_worker_mode(second, "stop")
        assert process.wait(LONGEST_S) == 0
    finally:
        process.terminate()
        process.wait(LONGEST_S)
    assert said.read_text().count("was asked to stop; no other one starts") == 2
