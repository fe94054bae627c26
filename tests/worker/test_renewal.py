"""Renewal of reservations, and what a worker does when it cannot renew."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.worker import renewal
from tarry.worker.renewal import Renewal
from until import until

TTR = "1h"


def work(url: str, namespace: str, prepare: Callable[[tarry.Worker], None], body: Any, **options: Any) -> tarry.Stats:
    """Works until nothing is due; answers what the topic is then."""
    worker = tarry.Worker(url=url, namespace=namespace, **options)
    prepare(worker)
    with tarry.Client(url, namespace=namespace) as client:
        client.topic("n").add(body, id="7")
        asyncio.run(worker.run_until_idle())
        found = client.topic("n")
        assert found.check().ok
        return found.stats()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reservations are renewed after a fifth of a second, of an hour: a busy machine loses none."""
    monkeypatch.setattr(renewal, "CHECK_PARTS", 36_000)
    monkeypatch.setattr(renewal, "RENEW_PARTS", 18_000)


class LongRun:
    """A worker whose jobs end, and are renewed, by one imaginary clock: a busy machine loses none."""

    ttr = timedelta(milliseconds=60)

    def __init__(self, url: str, namespace: str, clock: Clock) -> None:
        self.url, self.namespace, self.clock = url, namespace, clock
        self.client = TestClient(url, clock, namespace=namespace)
        self.topic = self.client.topic("n")
        self.checks = 0

    def run(self, handler: Callable[[Any], Any], **options: Any) -> tarry.Stats:
        """Works until nothing is due; answers what the topic is then."""
        client = TestAsyncClient(self.url, self.clock, namespace=self.namespace)
        worker = tarry.Worker(client=client, **options)
        worker.on("n", concurrency=3)(handler)
        asyncio.run(worker.run_until_idle())
        assert self.topic.check().ok
        return self.topic.stats()

    def pass_the_ttr(self) -> None:
        """Blocks its thread, on purpose. The renewal looks in between, and nobody waits for it longer than that."""
        for _ in range(2):
            self.until_checked()
            self.clock.advance(self.ttr * 2 / 3)
        self.until_checked()

    def until_checked(self) -> None:
        """The check that runs now may have begun before."""
        enough = self.checks + 2
        until(lambda: self.checks >= enough, "two checks")


@pytest.fixture
def long_run(valkey_url: str, namespace: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[LongRun]:
    made = LongRun(valkey_url, namespace, clock)
    renew = Renewal._renew_due

    def noted(self: Renewal, now: float) -> None:
        renew(self, now)
        made.checks += 1

    monkeypatch.setattr(Renewal, "_renew_due", noted)
    monkeypatch.setattr(renewal, "time", SimpleNamespace(monotonic=clock.seconds))
    yield made
    made.client.close()


def blocking_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about handlers that block the event loop."""
    lines = [line.getMessage() for line in caplog.records]
    return [line for line in lines if " attempt " in line and "block" in line]


def test_a_handler_that_blocks_the_loop_keeps_its_job_and_is_logged(
    long_run: LongRun, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    async def careless(job: tarry.AsyncJob[Any]) -> None:
        seen.append(job.attempt)
        if job.attempt == 1:
            long_run.pass_the_ttr()
        assert not job.lost

    long_run.topic.add("x", id="7")
    stats = long_run.run(careless, ttr=long_run.ttr, warn_blocked_after="30ms")
    assert (seen, stats.finished, stats.timed_out, stats.refused) == ([1], 1, 0, 0)
    told = blocking_lines(caplog)
    assert told[0].startswith("✗ careless (n/7 attempt 1) blocks")
    assert "long_run.pass_the_ttr()" in told[0], "the stack says where"
    assert told[1].startswith("✓ careless (n/7 attempt 1) blocked the event loop for ")
    assert len(told) == 2


@pytest.mark.usefixtures("often")
def test_a_logged_stack_starts_at_the_handler(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    def deeper(frames: int) -> None:
        if frames:
            deeper(frames - 1)
        else:
            until(lambda: blocking_lines(caplog), "it is logged")

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("n")
        async def careless(job: tarry.AsyncJob[Any]) -> None:
            deeper(30)

    work(valkey_url, namespace, prepare, "x", ttr=TTR, warn_blocked_after="100ms")
    told = blocking_lines(caplog)[0]
    assert told.splitlines()[1].endswith("in careless")
    assert "deeper(30)" in told
    assert " frames …" in told
    assert len(told.splitlines()) < 20
    assert "asyncio" not in told


@pytest.mark.parametrize("own_ttr", [False, True], ids=["the worker's TTR", "their own"])
@pytest.mark.parametrize("plain", [False, True])
def test_long_handlers_keep_their_jobs_beyond_the_ttr(long_run: LongRun, plain: bool, own_ttr: bool) -> None:
    begun: list[int] = []

    def handle(job: tarry.Job[Any]) -> None:
        begun.append(job.attempt)
        until(lambda: len(begun) >= 3, "all are taken")
        if job.id == "0" and job.attempt == 1:
            long_run.pass_the_ttr()
            ended.set()
        ended.wait()

    async def awaited(job: Any) -> None:
        await asyncio.to_thread(handle, job)

    ended = threading.Event()
    long_run.topic.add_many([tarry.NewJob("x", id=f"{n}", ttr=long_run.ttr if own_ttr else None) for n in range(3)])
    stats = long_run.run(handle if plain else awaited, ttr="10h" if own_ttr else long_run.ttr)
    assert (begun, stats.finished, stats.timed_out) == ([1, 1, 1], 3, 0)


@pytest.mark.usefixtures("often")
def test_jobs_far_from_their_ttr_are_not_renewed(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the thread looks, for the TTR of one of them is short."""
    touched: list[list[str]] = []
    enough = asyncio.Event()
    worker = tarry.Worker(url=valkey_url, namespace=namespace)
    touch = Renewal._touch

    def noted_touch(self: Renewal, consumer: Any, jobs: Any) -> bool:
        touched.append([job.id for job in jobs])
        if len(touched) == 3:
            self._loop.call_soon_threadsafe(enough.set)
        return touch(self, consumer, jobs)

    monkeypatch.setattr(Renewal, "_touch", noted_touch)

    @worker.on("n")
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        await enough.wait()

    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add("x", id="short", ttr=TTR)
        client.topic("n").add_many([tarry.NewJob(n, ttr="1000h") for n in range(50)])
        asyncio.run(worker.run_until_idle())
        assert client.topic("n").stats().finished == 51
    assert touched[:3] == [["short"]] * 3


@pytest.mark.usefixtures("often")
def test_a_renewal_that_meets_the_end_of_its_own_job_counts_as_no_stale_receipt(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, client: tarry.Client
) -> None:
    touch = Renewal._touch
    answers: list[bool] = []

    def late_touch(self: Renewal, consumer: Any, jobs: Any) -> bool:
        self._loop.call_soon_threadsafe(renewing.set)
        until(lambda: client.topic("n").stats().finished, "the job ends before its renewal is sent")
        answers.append(touch(self, consumer, jobs))
        return answers[-1]

    monkeypatch.setattr(Renewal, "_touch", late_touch)
    renewing = asyncio.Event()

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("n")
        async def handle(job: tarry.AsyncJob[Any]) -> None:
            await renewing.wait()

    stats = work(valkey_url, namespace, prepare, "x", ttr=TTR)
    assert (answers, stats.finished, stats.refused) == ([True], 1, 0)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("plain", [False, True])
def test_a_handler_sees_the_loss_of_its_job_and_its_finish_is_refused(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture, client: tarry.Client, plain: bool
) -> None:
    learned: list[bool] = []

    def lose(job: Any) -> None:
        client.topic("n").delete("7")
        while not job.lost:
            time.sleep(0.01)
        learned.append(job.lost)

    async def awaited(job: tarry.AsyncJob[Any]) -> None:
        await asyncio.to_thread(lose, job)

    stats = work(valkey_url, namespace, lambda worker: void(worker.on("n")(lose if plain else awaited)), "x", ttr=TTR)
    assert (learned, stats.finished, stats.deleted) == ([True], 0, 1)
    told = "\n".join(line.getMessage() for line in caplog.records)
    assert "✗ n/7 attempt 1 is lost" in told
    assert "Job 7 was finished or deleted, or belongs to another topic; stop working on it." in told


def void(_: object) -> None: ...


@pytest.mark.usefixtures("often")
def test_cancel_when_lost_cancels_the_handler(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    cancelled: list[str] = []

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("n", cancel_when_lost=True)
        async def stuck(job: tarry.AsyncJob[Any]) -> None:
            client.topic("n").delete("7")
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(job.id)

    stats = work(valkey_url, namespace, prepare, "x", ttr=TTR)
    assert (cancelled, stats.released, stats.refused) == (["7"], 0, 1)


@pytest.mark.parametrize("plain", [False, True])
def test_a_timeout_ends_a_handler(valkey_url: str, namespace: str, client: tarry.Client, plain: bool) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace)
    told: list[bool] = []

    def long(job: tarry.Job[Any]) -> None:
        while not job.lost:
            time.sleep(0.001)
        told.append(True)

    async def longer(job: tarry.AsyncJob[Any]) -> None:
        await asyncio.Event().wait()

    worker.on("n", timeout="20ms")(long if plain else longer)
    client.topic("n").add("x", id="7")
    asyncio.run(worker.run_until_idle())
    job = client.topic("n").get("7")
    assert job is not None
    assert job.state == "delayed"
    name = "long" if plain else "longer"
    assert job.reason == f"TimeoutError: {name} took longer than its timeout of 0.02 s"
    assert told == [True] * plain
