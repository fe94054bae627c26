"""The worker's loop, in this process: what handlers may do, and the state of their jobs afterwards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.worker import Worker
from until import LONGEST_S

Play = Callable[..., None]


def run_beside(
    valkey_url: str, namespace: str, story: Callable[[Worker, tarry.AsyncClient], Any], **options: Any
) -> None:
    """Runs a worker until its story, told beside it, is over."""

    async def both() -> None:
        worker = Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), **options)
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            await story(worker, client)

    asyncio.run(both())


def test_jobs_are_finished_when_their_handlers_return(valkey_url: str, namespace: str) -> None:
    seen: list[int] = []

    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        await client.topic("n").add_many(range(500))

        @worker.on("n", concurrency=16)
        async def handle(job: tarry.AsyncJob[int]) -> None:
            seen.append(job.body)
            if len(seen) == 500:
                worker.stop()

        await worker.run()
        stats = await client.topic("n").stats()
        assert (stats.finished, stats.ready, stats.reserved) == (500, 0, 0)

    run_beside(valkey_url, namespace, story)
    assert sorted(seen) == list(range(500))


def test_no_more_handlers_run_at_once_than_there_are_slots(valkey_url: str, namespace: str) -> None:
    running, most, done = 0, 0, 0

    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        await client.topic("n").add_many(range(60))
        all_taken = asyncio.Event()

        @worker.on("n", concurrency=7)
        async def handle(job: tarry.AsyncJob[int]) -> None:
            nonlocal running, most, done
            running += 1
            most = max(most, running)
            if running == 7:
                all_taken.set()
            async with asyncio.timeout(LONGEST_S):
                await all_taken.wait()
            await asyncio.sleep(0.001)
            running, done = running - 1, done + 1
            if done == 60:
                worker.stop()

        await worker.run()

    run_beside(valkey_url, namespace, story)
    assert most == 7


def test_each_topic_has_its_own_handler(valkey_url: str, namespace: str) -> None:
    seen: dict[str, Any] = {}

    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        def note(topic: str) -> Callable[[tarry.AsyncJob[Any]], Any]:
            async def handle(job: tarry.AsyncJob[Any]) -> None:
                seen[topic] = job.body
                if len(seen) == 3:
                    worker.stop()

            return handle

        for topic in ("a", "b", "测试"):
            worker.on(topic)(note(topic))
            await client.topic(topic).add(topic * 2)
        await worker.run()

    run_beside(valkey_url, namespace, story)
    assert seen == {"a": "aa", "b": "bb", "测试": "测试测试"}


def test_a_job_is_retried_later_when_its_handler_raises(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add_many([tarry.NewJob(n, id=str(n)) for n in range(2)])

        @worker.on("n")
        async def handle(job: tarry.AsyncJob[int]) -> None:
            if job.body == 0:
                raise ValueError("broken")
            worker.stop()

        await worker.run()
        job = await topic.get("0")
        assert job is not None
        assert (job.state, job.attempts, job.reason) == ("delayed", 1, "ValueError: broken")
        assert await topic.get("1") is None

    run_beside(valkey_url, namespace, story)
    [line] = [line for line in caplog.records if "↻" in line.message]
    assert line.message.startswith("↻ n/0 attempt 1 failed: ValueError: broken; again in ")
    assert line.levelname == "WARNING"


def test_a_failed_last_attempt_makes_the_job_dead(valkey_url: str, namespace: str) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add("x", id="x", max_attempts=1)

        @worker.on("n")
        async def handle(job: tarry.AsyncJob[str]) -> None:
            worker.stop()
            raise LookupError("no such customer")

        await worker.run()
        job = await topic.get("x")
        assert job is not None
        assert job.state == "dead"
        assert job.reason == "attempts exhausted"
        lines = str(job.error).splitlines()
        assert lines[0] == lines[-1] == "LookupError: no such customer"
        assert lines[1] == "Traceback (most recent call last):"

    run_beside(valkey_url, namespace, story)


def test_an_undecodable_body_fails_its_job(valkey_url: str, namespace: str) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add("not a number", id="x")

        @worker.on("n", type=int)
        async def handle(job: tarry.AsyncJob[int]) -> None:
            worker.stop()
            job.body + 1

        await worker.run()
        job = await topic.get("x")
        assert job is not None
        assert str(job.reason).startswith("BodyError")

    run_beside(valkey_url, namespace, story)


def test_a_stale_receipt_is_logged_and_the_worker_continues(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add("first", id="first")

        @worker.on("n", concurrency=1)
        async def handle(job: tarry.AsyncJob[str]) -> None:
            if job.body == "first":
                await topic.delete("first")  # the producer changed its mind: final
                await topic.add("second", id="second")
            else:
                worker.stop()

        await worker.run()
        stats = await topic.stats()
        assert (stats.finished, stats.refused, stats.reserved) == (1, 1, 0)

    run_beside(valkey_url, namespace, story)
    assert any("Job first was finished or deleted" in line.message for line in caplog.records)


def test_a_handler_may_settle_its_job_itself(valkey_url: str, namespace: str) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add("x", id="x")

        @worker.on("n")
        async def handle(job: tarry.AsyncJob[str]) -> None:
            await job.bury(reason="not for me")
            worker.stop()

        await worker.run()
        job = await topic.get("x")
        assert job is not None
        assert (job.state, job.reason) == ("dead", "not for me")
        assert (await topic.stats()).refused == 0

    run_beside(valkey_url, namespace, story)


def test_a_timeout_inside_a_handler_fails_its_job(valkey_url: str, namespace: str) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add("x", id="x")

        @worker.on("n")
        async def handle(job: tarry.AsyncJob[str]) -> None:
            worker.stop()
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()

        await worker.run()
        job = await topic.get("x")
        assert job is not None
        assert job.reason == "TimeoutError"

    run_beside(valkey_url, namespace, story)


def test_a_stopping_worker_gives_back_jobs_not_yet_started(valkey_url: str, namespace: str) -> None:
    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        topic = client.topic("n")
        await topic.add_many(range(300))

        @worker.on("n", concurrency=100)
        async def handle(job: tarry.AsyncJob[int]) -> None:
            worker.stop()

        await worker.run()
        stats = await topic.stats()
        assert stats.finished + stats.ready == 300
        assert (stats.reserved, stats.timed_out) == (0, 0)
        assert (await topic.check()).ok

    run_beside(valkey_url, namespace, story)


def test_each_job_is_logged_on_its_own_line_at_debug(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tarry.worker")

    async def story(worker: Worker, client: tarry.AsyncClient) -> None:
        await client.topic("n").add("x", id="x")

        @worker.on("n")
        async def handle(job: tarry.AsyncJob[str]) -> None:
            worker.stop()

        await worker.run()

    run_beside(valkey_url, namespace, story)
    told = [line.message for line in caplog.records if line.name == "tarry.worker"]
    assert [line[:3] for line in told] == ["▶ n", "→ n", "✓ n", "■ s", "∑ n", "■ s"] or "".join(
        sorted(line[0] for line in told)
    ) == "".join(sorted("▶→✓■■∑")), told


def test_a_worker_without_handlers_or_slots_is_refused(valkey_url: str) -> None:
    worker = Worker(client=tarry.AsyncClient(valkey_url))
    with pytest.raises(tarry.BadInput, match="no handler"):
        asyncio.run(worker.run())
    with pytest.raises(tarry.BadInput, match="concurrency"):
        worker.on("n", concurrency=0)
    worker.on("n")(_never)
    with pytest.raises(tarry.BadInput, match="handler already"):
        worker.on("n")


async def _never(job: tarry.AsyncJob[Any]) -> None:
    raise AssertionError
