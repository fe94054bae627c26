"""A plain function that takes longer than its timeout: it cannot be stopped, so its job is not handed out beside it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tarry
from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages import job_page as job_part
from tarry.programs.dashboard.pages import workers_page as workers_part
from tarry.worker import renewal
from until import LONGEST_S, until

TTR = "10m"
"""No busy machine lets it end; renewed all the same, see ``often``."""
TOO_LONG = "TimeoutError: close took longer than its timeout of 0.02 s"
Again = tarry.BackOff(first="1ms", jitter=0)


class Runs:
    """The runs of a function, and how many of them went on at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = self.now = self.most = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        with self._lock:
            self.count, self.now = self.count + 1, self.now + 1
            self.most = max(self.most, self.now)
        try:
            yield
        finally:
            with self._lock:
                self.now -= 1


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reservations are renewed five times a second, not after a third of their time to run."""
    monkeypatch.setattr(renewal, "CHECK_PARTS", 6000)
    monkeypatch.setattr(renewal, "RENEW_PARTS", 3000)


def until_renewed(client: tarry.Client, job: tarry.Job[Any]) -> None:
    """Until the run's reservation was renewed three times; or until somebody else has the job."""

    def ends() -> Any:
        found = client.topic("n").get(job.id)
        return None if found is None or found.attempts != job.attempt else found.reserved_until

    for _ in range(3):
        if (first := ends()) is not None:
            until(lambda first=first: ends() != first, "a renewed reservation")  # type: ignore[misc]


@pytest.mark.slow
@pytest.mark.parametrize("middleware", [False, True])
@pytest.mark.parametrize("raises", [False, True])
def test_a_run_that_timed_out_never_runs_beside_its_own_retry(
    valkey_url: str,
    namespace: str,
    client: tarry.Client,
    middleware: bool,
    raises: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace, ttr=TTR)
    runs, seen = Runs(), list[BaseException]()

    @worker.on("n", timeout="20ms", max_attempts=2, retry=Again)
    def close(job: tarry.Job[Any]) -> None:
        with runs.one():
            until(lambda: job.lost, "the timeout")
            until_renewed(client, job)
            if raises:
                raise ValueError("too late")

    def watch(job: Any, handle: Callable[[Any], Any]) -> Any:
        try:
            return handle(job)
        except BaseException as fault:
            seen.append(fault)
            raise

    if middleware:
        worker.around(watch)
    client.topic("n").add("x", id="7")
    asyncio.run(asyncio.wait_for(_until_dead(worker, client), LONGEST_S))
    job = client.topic("n").get("7")
    assert job is not None
    assert (runs.count, runs.most) == (2, 1)
    assert (job.state, job.attempts, job.reason) == ("dead", 2, "attempts exhausted")
    assert job.error is not None
    assert job.error.startswith(TOO_LONG)
    assert ("too late" in job.error) is raises
    assert client.topic("n").stats().timed_out == 0
    assert "was settled, and then its handler raised" not in caplog.text
    assert [type(fault) for fault in seen] == [TimeoutError, tarry.JobDied] * middleware


async def _until_dead(worker: tarry.Worker, client: tarry.Client) -> None:
    async with worker:
        await asyncio.to_thread(until, lambda: client.topic("n").stats().dead, "the last attempt")


def test_an_overrunning_run_is_shown_and_occupies_its_slot(
    valkey_url: str, namespace: str, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    worker, enough = tarry.Worker(url=valkey_url, namespace=namespace, ttr=TTR), threading.Event()
    seen: list[Any] = []

    @worker.on("n", timeout="20ms", concurrency=1)
    def close(job: tarry.Job[Any]) -> None:
        if job.id == "7":
            enough.wait(LONGEST_S)

    def sample() -> None:
        until(lambda: any(info.overrun for info in client.workers()), "the report")
        [info] = client.workers()
        seen.append((info.topics[0].overrun, [(job.id, job.overrun) for job in info.jobs]))
        seen.append([job.id for job in client.topic("n").list("ready")])
        seen.append(asyncio.run(pages()))
        enough.set()
        until(lambda: client.topic("n").stats().finished, "the other job")

    async def pages() -> tuple[str, str]:
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as awaited:
            dashboard = Dashboard(awaited)
            visit = PageRequest(dashboard, "", {"topic": "n", "id": "7"}, "viewer")
            page = dashboard.view(visit, "workers.html", await workers_part.view(visit))
            return page, " ".join((await job_part.view(visit))["why"])

    async def work() -> None:
        async with worker:
            await asyncio.to_thread(sample)

    client.topic("n").add_many([tarry.NewJob("x", id="7"), tarry.NewJob("y", id="8")])
    with caplog.at_level(logging.INFO, "tarry.worker"):
        asyncio.run(work())
    assert seen[:2] == [(1, [("7", True)]), ["8"]]
    workers_page, job_page = seen[2]
    assert "1 past the timeout" in workers_page
    assert "longer than its timeout" in job_page
    [told] = [record for record in caplog.records if getattr(record, "tarry", {}).get("overrun") is True]
    assert told.getMessage().startswith("⧗ n/7 attempt 1 overran: close has taken longer than its timeout of 0.02 s")
    [line] = [record.getMessage() for record in caplog.records if record.getMessage().startswith("∑ n: 2 taken")]
    assert ", 1 overran, " in line


def test_an_overrunning_run_does_not_delay_shutdown_and_keeps_its_reservation(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker, enough = tarry.Worker(url=valkey_url, namespace=namespace, ttr="1h", grace="10ms"), threading.Event()

    @worker.on("n", timeout="20ms")
    def close(job: tarry.Job[Any]) -> None:
        until(lambda: job.lost, "the timeout")
        worker.stop()
        enough.wait(LONGEST_S)

    client.topic("n").add("x", id="7")
    assert asyncio.run(worker.run(signals=False)) == 1
    job = client.topic("n").get("7")
    assert job is not None
    assert (job.state, job.attempts) == ("reserved", 1), "another worker would run it beside this one"
    enough.set()


def test_an_overrunning_handler_may_still_settle_its_job(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    @worker.on("n", timeout="20ms")
    def close(job: tarry.Job[Any]) -> None:
        until(lambda: job.lost, "the timeout")
        if job.id == "buried":
            raise tarry.Bury("nobody wants it")
        job.finish()

    client.topic("n").add_many([tarry.NewJob("x", id="buried"), tarry.NewJob("x", id="finished")])
    asyncio.run(worker.run_until_idle())
    job = client.topic("n").get("buried")
    assert job is not None
    assert (job.state, job.reason) == ("dead", "nobody wants it")
    assert client.topic("n").get("finished") is None


def test_a_job_deleted_during_an_overrun_is_lost_and_not_settled(
    valkey_url: str, namespace: str, client: tarry.Client, caplog: pytest.LogCaptureFixture
) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace, ttr=TTR)

    @worker.on("n", timeout="20ms")
    def close(job: tarry.Job[Any]) -> None:
        until(lambda: job.lost, "the timeout")
        client.topic("n").delete(job.id)
        until(lambda: "✗ n/7 attempt 1 is lost" in caplog.text, "the refused renewal")

    client.topic("n").add("x", id="7")
    asyncio.run(worker.run_until_idle())
    stats = client.topic("n").stats()
    assert (stats.released, stats.dead, stats.deleted) == (0, 0, 1)
