"""Cancelling a run: ``cancel(running=True)``, on every kind of handler."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tarry
from tarry.clients.config import server_verbs
from until import until

TTR = "500ms"
StartWorker = Callable[..., tarry.Worker]


@pytest.fixture
def started(valkey_url: str, namespace: str) -> Iterator[StartWorker]:
    """Starts a worker in a thread: ``started(prepare, ttr="5s")``; stops it at the end."""
    running: list[tuple[asyncio.AbstractEventLoop, tarry.Worker, threading.Thread]] = []

    def start(prepare: Callable[[tarry.Worker], None], ttr: str = TTR) -> tarry.Worker:
        worker = tarry.Worker("shop", url=valkey_url, namespace=namespace, ttr=ttr, grace=0)
        prepare(worker)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=lambda: loop.run_until_complete(worker.run(signals=False)))
        thread.start()
        running.append((loop, worker, thread))
        return worker

    yield start
    for loop, worker, thread in running:
        loop.call_soon_threadsafe(worker.stop)
        thread.join()
        worker.client.close()
        loop.close()


def was_logged(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in line.getMessage() for line in caplog.records)


def test_an_async_task_is_cancelled(
    client: tarry.Client, started: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tarry.worker")
    seen: list[str] = []

    def prepare(worker: tarry.Worker) -> None:
        @worker.task
        async def report(n: int) -> None:
            seen.append("begun")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append(f"cancelled, lost {tarry.current_job().lost}")
                raise

        tasks["report"] = report

    tasks: dict[str, Any] = {}
    started(prepare)
    added = tasks["report"].add(7)
    until(lambda: seen == ["begun"], "it runs")
    assert added.cancel(running=True) == "reserved"
    assert client.topic("shop").get(added.id) is None, "gone at once"
    assert added.cancel(running=True) is None, "as a call whose answer was lost and that is repeated"
    until(lambda: seen == ["begun", "cancelled, lost True"], "it was cancelled")
    until(
        lambda: was_logged(caplog, f"■ shop/{added.id} attempt 1 was cancelled: its handler is cancelled"),
        "it says so",
    )
    stats = client.topic("shop").stats()
    assert (stats.finished, stats.deleted, stats.reserved, stats.dead) == (0, 1, 0, 0)
    assert client.topic("shop").check().ok


def test_a_function_in_a_thread_is_told(
    client: tarry.Client, started: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "tarry.worker")
    seen: list[str] = []

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("n")
        def handle(job: tarry.Job[Any]) -> None:
            seen.append("begun")
            until(lambda: job.lost, "it is told")
            seen.append("told")

    started(prepare)
    client.topic("n").add("x", id="7")
    until(lambda: seen == ["begun"], "it runs")
    assert client.topic("n").delete("7", running=True) == "reserved"
    until(lambda: seen == ["begun", "told"], "it was told")
    until(
        lambda: was_logged(caplog, "was cancelled: its thread cannot be stopped, job.lost is true"), "the log says so"
    )


def test_a_plain_delete_lets_the_run_go_on(
    client: tarry.Client, started: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("n")
        async def handle(job: tarry.AsyncJob[Any]) -> None:
            seen.append("begun")
            while not job.lost:  # noqa: ASYNC110  # the renewal sets it
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            seen.append("ended")

    started(prepare)
    client.topic("n").add("x", id="7")
    until(lambda: seen == ["begun"], "it runs")
    assert client.topic("n").delete("7") == "reserved"
    until(lambda: seen == ["begun", "ended"], "it went on to its end")
    assert not was_logged(caplog, "was cancelled")


def test_the_next_job_of_the_id_is_not_cancelled(client: tarry.Client, started: StartWorker) -> None:
    seen: list[str] = []
    go_on = threading.Event()

    def prepare(worker: tarry.Worker) -> None:
        @worker.on("n")
        async def handle(job: tarry.AsyncJob[str]) -> None:
            seen.append(f"begun {job.body}")
            try:
                while job.body == "first" or not go_on.is_set():  # noqa: ASYNC110  # another thread sets it
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                seen.append(f"cancelled {job.body}")
                raise

    started(prepare)
    topic = client.topic("n")
    topic.add("first", id="7")
    until(lambda: seen == ["begun first"], "it runs")
    topic.delete("7", running=True)
    topic.add("second", id="7")
    until(lambda: "cancelled first" in seen, "the first run was cancelled")
    until(lambda: "begun second" in seen, "the second runs")
    [job] = topic.list("reserved")
    assert job.reserved_until is not None
    until(lambda: topic.stats().now > job.reserved_until, "it was renewed")  # type: ignore[operator]
    go_on.set()
    until(lambda: topic.stats().finished == 1, "the second was finished")
    assert "cancelled second" not in seen


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_consumer_that_pops_by_itself_learns_it_when_it_settles(client: tarry.Client, partitions: int | None) -> None:
    topic = client.topic("n", partitions=partitions)
    topic.add_many([tarry.NewJob("x", id=id) for id in "abc"])
    job, other = topic.pop_many(2)
    waiting = next(id for id in "abc" if id not in (job.id, other.id))
    assert topic.delete_many([job.id, waiting, "none"], running=True) == ["reserved", "ready", None]
    verbs = server_verbs(topic)
    assert client.engine.run(verbs.cancelled(job)) == [True]
    assert client.engine.run(verbs.cancelled(other)) == [False]
    for settle in (topic.touch, topic.finish, topic.release):
        with pytest.raises(tarry.StaleReceipt, match="was finished or deleted"):
            settle(job)
    topic.finish(other)
    assert topic.delete(other.id, running=True) is None, "finished in between"
    stats = topic.stats()
    assert (stats.finished, stats.deleted, stats.reserved) == (1, 2, 0)
    assert topic.check().ok


def test_the_job_of_a_dead_worker_does_not_come_back(client: tarry.Client) -> None:
    topic = client.topic("n")
    topic.add("x", id="7", ttr="1ms")
    job = topic.pop()
    assert job is not None
    topic.delete("7", running=True)
    over = time.monotonic() + 0.05
    until(lambda: time.monotonic() > over, "its TTR is over")
    assert topic.pop() is None


def test_a_cancelled_job_frees_a_place_of_a_limited_topic(client: tarry.Client) -> None:
    topic = client.topic("n")
    topic.configure(concurrency=1)
    topic.add_many(["a", "b"])
    job = topic.pop()
    assert job is not None
    assert topic.pop() is None
    topic.delete(job.id, running=True)
    assert topic.pop() is not None


def test_the_note_of_a_cancelled_run_is_forgotten(client: tarry.Client) -> None:
    topic = client.topic("n")
    topic.add("x", id="7")
    job = topic.pop(ttr="30s")
    assert job is not None
    topic.delete("7", running=True)
    from tarry.core.requests import Command

    key = server_verbs(topic).keys.due.replace(b":due", b":cancelled")
    left = client.engine.run(Command((b"TTL", key), int))
    assert 30 < left <= 90
