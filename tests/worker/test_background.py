"""The threads and tasks of a worker go on after any error, it is counted and shown, and a worker that fails again and again ends."""

from __future__ import annotations

import asyncio
import errno
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import tarry
from faults.failing_once import BUG, failing_once
from tarry.connections import background
from tarry.core.patience import RetryDelay
from tarry.worker import settler
from tarry.worker.consumers import Consumers
from tarry.worker.liveness import Liveness
from tarry.worker.parent import Child, Parent
from tarry.worker.topic_consumer import TopicConsumer
from until import until

Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def worker(valkey_url: str, namespace: str) -> tarry.Worker:
    found = tarry.Worker(url=valkey_url, namespace=namespace)

    @found.on("n")
    async def handle(job: tarry.AsyncJob[Any]) -> None: ...

    @found.on("plain", concurrency=1)
    def plain(job: tarry.Job[Any]) -> None: ...

    return found


async def run_until(worker: tarry.Worker, is_so: Callable[[], object]) -> None:
    async with worker:
        await asyncio.to_thread(until, is_so)


def test_the_renewal_goes_on_is_counted_and_shown(worker: tarry.Worker, client: tarry.Client, cli: Cli) -> None:
    worker.inner.on_alive = failing_once(worker.inner.on_alive)

    async def look() -> None:
        async with worker:
            await asyncio.to_thread(until, client.workers, "its report")
            [info] = client.workers()
            assert info.restarts == {"tarry renewal": 1}
            done = await asyncio.to_thread(cli, "doctor", "--json")
            assert f"worker {info.name}  tarry renewal has failed 1 time and was started again" in done.stderr
            assert json.loads(done.stdout)["restarts"] == {info.name: {"tarry renewal": 1}}

    asyncio.run(look())


def test_the_look_for_dead_workers_goes_on(worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[None] = []
    monkeypatch.setattr(Liveness, "_work", failing_once(Liveness._work, lambda: again.append(None)))
    asyncio.run(run_until(worker, lambda: again))
    assert background.failures.counts == {"tarry liveness": 1}


def test_the_last_requests_of_both_threads_may_fail(worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Liveness, "_withdraw", failing_once(lambda _: None))
    monkeypatch.setattr("tarry.worker.heartbeat.WorkerReports.unregister", failing_once(lambda _: None))
    asyncio.run(run_until(worker, lambda: True))
    assert background.failures.counts == {"tarry liveness": 1, "tarry renewal": 1}


def test_a_job_that_cannot_be_settled_is_noted_and_comes_back(
    worker: tarry.Worker, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settler, "finish_with_results", failing_once(settler.finish_with_results))
    topic = client.topic("n")
    topic.add("x")
    asyncio.run(run_until(worker, lambda: background.failures.counts))
    assert background.failures.counts == {"tarry settling": 1}
    assert topic.stats().reserved == 1, "until its TTR is over"
    topic.add("y")
    asyncio.run(run_until(worker, lambda: topic.stats().finished))


@pytest.mark.parametrize("topic", ["n", "plain"])
def test_a_failed_job_that_nobody_can_settle_frees_its_slot_and_comes_back(
    valkey_url: str, namespace: str, client: tarry.Client, monkeypatch: pytest.MonkeyPatch, topic: str
) -> None:
    """Its own error must not stop the other jobs, nor be the end of the worker."""
    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    @worker.on("n", concurrency=2)
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        raise ValueError(job.id)

    @worker.on("plain", concurrency=2)
    def plain(job: tarry.Job[Any]) -> None:
        raise ValueError(job.id)

    monkeypatch.setattr(settler, "decide", failing_once(settler.decide))
    client.topic(topic).add_many([1, 2, 3])
    asyncio.run(run_until(worker, lambda: client.topic(topic).stats().released == 2))
    assert background.failures.counts == {"tarry settling": 1}
    assert client.topic(topic).stats().reserved == 1, "until its TTR is over"


@pytest.mark.parametrize("topic", ["n", "plain"])
def test_an_error_whose_text_cannot_be_shown_is_a_failed_attempt(
    valkey_url: str, namespace: str, client: tarry.Client, topic: str
) -> None:
    class Shy(Exception):
        def __str__(self) -> str:
            raise TypeError("no text")

    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    @worker.on("n")
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        raise Shy

    @worker.on("plain")
    def plain(job: tarry.Job[Any]) -> None:
        raise Shy

    id = client.topic(topic).add("x").id
    asyncio.run(run_until(worker, lambda: client.topic(topic).stats().released))
    failed = client.topic(topic).get(id)
    assert failed is not None
    assert failed.reason is not None
    assert failed.reason.startswith("Shy: its text cannot be shown")
    assert background.failures.counts == {}


def test_the_end_of_one_thread_s_job_does_not_hold_up_the_others(
    valkey_url: str, namespace: str, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace, grace=0)

    @worker.on("plain", concurrency=2)
    def plain(job: tarry.Job[Any]) -> None: ...

    monkeypatch.setattr(TopicConsumer, "thread_ended", failing_once(TopicConsumer.thread_ended))
    client.topic("plain").add_many([1, 2])
    asyncio.run(run_until(worker, lambda: client.topic("plain").stats().finished == 1))
    assert background.failures.counts == {"tarry handlers": 1}


def test_the_lines_of_the_log_go_on(worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[None] = []
    monkeypatch.setattr(
        Consumers, "_log_periodically", failing_once(Consumers._log_periodically, lambda: again.append(None))
    )
    asyncio.run(run_until(worker, lambda: again))
    assert background.failures.counts == {"tarry log": 1}


# ── ten in a minute ──────────────────────────────────────────────────────────────────────────────────────────────────


def boom(*_: object) -> None:
    raise TypeError(BUG)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pauses."""
    monkeypatch.setattr(background, "RetryDelay", lambda: RetryDelay(0, 0))


@pytest.mark.usefixtures("at_once")
def test_a_worker_in_an_application_raises_after_ten_failures_and_the_process_goes_on(
    worker: tarry.Worker, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    worker.inner.on_alive = boom
    with pytest.raises(tarry.ServerUnfit, match=f"tarry renewal failed 10 times within a minute.*TypeError: {BUG}"):
        asyncio.run(worker.run())
    assert "The worker stops, because its process is not fit to work: tarry renewal failed 10 times" in caplog.text
    worker.inner.on_alive = lambda worked: None
    client.topic("n").add("x")
    asyncio.run(run_until(worker, lambda: client.topic("n").stats().finished))


@pytest.mark.usefixtures("at_once")
def test_jobs_that_run_when_a_worker_becomes_unfit_are_completed(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace)
    taken = asyncio.Event()

    @worker.on("n")
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        taken.set()
        await worker._stopping.wait()

    worker.inner.on_alive = lambda worked: boom() if taken.is_set() else None
    worker.inner.warn_blocked_after_s = 0.01  # how often the renewal looks while a job runs
    client.topic("n").add("x")
    with pytest.raises(tarry.ServerUnfit):
        asyncio.run(worker.run())
    assert client.topic("n").stats().finished == 1


@pytest.mark.usefixtures("at_once")
def test_a_parent_whose_own_work_fails_ten_times_ends_with_its_children(
    worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Parent, "_renew_for_silent_children", boom)
    assert asyncio.run(Parent(worker, ["sleep", "36000"], 2).run()) == 3
    assert "The workers stop, because their parent is not fit to work: tarry renewal for children failed" in caplog.text


def test_a_parent_renews_again_after_any_error(worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    again = asyncio.Event()

    async def renew(parent: Parent) -> None:
        again.set()
        parent.stop()

    monkeypatch.setattr(Parent, "_renew_for_silent_children", failing_once(renew))
    assert asyncio.run(Parent(worker, ["sleep", "36000"], 1).run()) == 0
    assert background.failures.counts == {"tarry renewal for children": 1}


@pytest.mark.usefixtures("at_once")
def test_a_parent_that_can_start_no_child_ends_as_unfit(
    worker: tarry.Worker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert asyncio.run(Parent(worker, [str(tmp_path / "gone")], 2).run()) == 3
    assert "tarry children failed 10 times within a minute, at last by FileNotFoundError" in caplog.text


def test_a_child_that_cannot_be_started_or_forgotten_is_replaced(
    worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Child] = []
    start, release = Child.start, failing_once(Parent._release_jobs_of)

    async def starting(child: Child, command: Sequence[str]) -> None:
        started.append(child)
        if len(started) == 1:
            raise OSError(errno.EAGAIN, "no process")
        await start(child, command)

    def releasing(parent: Parent, holder: str, counts: bool) -> int:
        if len(started) == 3:
            parent.stop()
        return int(release(parent, holder, counts))

    monkeypatch.setattr(Child, "start", starting)
    monkeypatch.setattr(Parent, "_release_jobs_of", releasing)
    monkeypatch.setattr("tarry.worker.parent.FIRST_PAUSE_S", 0)
    assert asyncio.run(Parent(worker, ["false"], 1).run()) == 1
    assert background.failures.counts == {"tarry children": 2}
