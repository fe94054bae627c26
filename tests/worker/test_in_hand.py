"""A worker takes more jobs than it has slots while its handlers are fast, and puts back what it cannot start."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import tarry
from tarry.clients.awaited.topic import AsyncTopic
from tarry.verbs.jobs.pop import MOST_JOBS
from tarry.worker import Worker, in_hand
from tarry.worker.in_hand import LONGEST_TURN_S, JobsInHand, LongestTimes
from tarry.worker.registry import CONCURRENCY, THREADS
from tarry.worker.signals import run_in_loop
from until import LONGEST_S
from until import until as until_seen

LONG_S = 3600.0
COUNT = 3 * MOST_JOBS
FEWER = COUNT // 2


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, the handlers count as fast, and nothing waits for too long."""
    monkeypatch.setattr(in_hand, "HANDLED_S", LONG_S)
    monkeypatch.setattr(in_hand, "LONGEST_WAIT_S", LONG_S)
    monkeypatch.setattr(in_hand, "TTR_PARTS", 1 / LONG_S)


@asynccontextmanager
async def topic_with(valkey_url: str, namespace: str, jobs: int) -> AsyncIterator[tarry.AsyncTopic[int]]:
    async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
        topic = client.topic("n", type=int)
        for at in range(0, jobs, MOST_JOBS):
            await topic.add_many(range(at, min(at + MOST_JOBS, jobs)))
        yield topic


async def until(is_so: Callable[[], Any]) -> None:
    async with asyncio.timeout(LONGEST_S):
        while not await is_so():  # noqa: ASYNC110  # the server decides
            await asyncio.sleep(0.01)


def test_slow_handlers_have_as_many_jobs_in_hand_as_slots() -> None:
    jobs = JobsInHand(100, 1000)
    for turn in range(100):
        jobs.ended += 1
        assert jobs.limit(turn * 0.01) == 100


def test_fast_handlers_have_in_hand_what_they_have_handled_lately() -> None:
    jobs = JobsInHand(100, 1000)
    limits = []
    for turn in range(10):
        limits.append(jobs.limit(turn * 0.012))
        jobs.ended += 100
    assert limits == [100, 100, 200, 300, 400, 400, 400, 400, 400, 400]
    jobs.ended += 5000
    assert jobs.limit(0.12) == 1000
    assert jobs.limit(0.25) == 100  # nothing has ended since


def test_the_time_without_a_job_does_not_make_handlers_slow() -> None:
    jobs = JobsInHand(100, 1000)
    for turn in range(6):
        jobs.jobs_came(turn)
        assert jobs.limit(turn) == 100 * max(turn, 1)
        jobs.ended += 100
        jobs.became_idle(turn + 0.001)
    jobs.forget()
    assert jobs.limit(10) == 100


def test_more_slots_than_a_pop_brings_are_kept() -> None:
    assert JobsInHand(5000, 1000).limit(0) == 5000


class Handled:
    """What the handlers saw: how many run at once, and how many jobs the server says are reserved."""

    def __init__(self, topic: tarry.AsyncTopic[int], stop: Callable[[], None], count: int = COUNT) -> None:
        self.topic, self.stop, self.count = topic, stop, count
        self.running = self.most_running = self.done = self.most_reserved = 0

    async def one(self, number: int) -> None:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        if number % 250 == 0:
            self.most_reserved = max(self.most_reserved, (await self.topic.stats()).reserved)
        else:
            await asyncio.sleep(0)
        self.running, self.done = self.running - 1, self.done + 1
        if self.done == self.count:
            self.stop()


async def handled_by(
    worker: Worker, topic: tarry.AsyncTopic[int], kind: str, concurrency: int | None = None
) -> Handled:
    """Runs the worker until it has handled ``FEWER`` jobs, which are all."""
    handled, loop = Handled(topic, worker.stop, FEWER), asyncio.get_running_loop()
    if kind == "async":

        @worker.on("n", concurrency=concurrency)
        async def in_loop(number: int) -> None:
            await handled.one(number)

    elif kind == "plain":

        @worker.on("n", concurrency=concurrency)
        def in_thread(number: int) -> None:
            asyncio.run_coroutine_threadsafe(handled.one(number), loop).result(LONGEST_S)

    await worker.run()
    stats = await topic.stats()
    assert (stats.finished, stats.ready, stats.reserved) == (FEWER, 0, 0)
    return handled


@pytest.mark.parametrize(("kind", "slots"), [("async", CONCURRENCY), ("plain", THREADS)])
def test_a_worker_with_fast_handlers_takes_jobs_ahead_and_runs_no_more_than_it_has_slots(
    fast: None, valkey_url: str, namespace: str, kind: str, slots: int
) -> None:
    async def story() -> Handled:
        async with topic_with(valkey_url, namespace, FEWER) as topic:
            return await handled_by(Worker("shop", url=valkey_url, namespace=namespace), topic, kind)

    handled = asyncio.run(story())
    assert handled.most_running <= slots
    assert handled.most_reserved > 3 * slots


@pytest.mark.parametrize(("kind", "shared"), [("async", True), ("plain", False)])
def test_a_given_concurrency_limits_what_is_in_hand(
    fast: None, valkey_url: str, namespace: str, kind: str, shared: bool
) -> None:
    given = 30

    async def story() -> Handled:
        async with topic_with(valkey_url, namespace, FEWER) as topic:
            worker = Worker("shop", url=valkey_url, namespace=namespace, concurrency=given if shared else None)
            return await handled_by(worker, topic, kind, None if shared else given)

    handled = asyncio.run(story())
    assert handled.most_running <= given
    assert handled.most_reserved <= 2 * given  # some are done, and finished with the next pop


def test_a_job_that_ends_makes_room_for_one_and_no_more(valkey_url: str, namespace: str) -> None:
    async def story() -> int:
        first, others, started = asyncio.Event(), asyncio.Event(), asyncio.Queue[int]()
        worker = Worker("shop", url=valkey_url, namespace=namespace)

        @worker.on("n", concurrency=4)
        async def wait(number: int) -> None:
            started.put_nowait(number)
            await (others if number else first).wait()

        async with topic_with(valkey_url, namespace, 10) as topic, worker:
            async with asyncio.timeout(LONGEST_S):
                assert [await started.get() for _ in range(4)] == [0, 1, 2, 3]
                first.set()
                assert await started.get() == 4
            reserved = (await topic.stats()).reserved
            others.set()
            return reserved

    assert asyncio.run(story()) == 4


@pytest.mark.parametrize("given", [None, 40])
def test_tasks_take_ahead_unless_one_has_a_concurrency(
    fast: None, valkey_url: str, namespace: str, given: int | None
) -> None:
    async def story() -> Handled:
        async with topic_with(valkey_url, namespace, 0) as topic:
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            handled = Handled(topic, worker.stop)

            @worker.task(topic="n", concurrency=given)
            async def count(number: int) -> None:
                await handled.one(number)

            @worker.task(topic="n", name="other")
            def other() -> None: ...

            async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
                for at in range(0, COUNT, MOST_JOBS):
                    await client.topic("n").add_many(
                        [{"task": "count", "args": {"number": at + n}} for n in range(MOST_JOBS)]
                    )
            await worker.run()
            return handled

    handled = asyncio.run(story())
    slots = given or CONCURRENCY
    assert handled.most_running <= slots
    assert (handled.most_reserved > 3 * slots) is (given is None)


@pytest.mark.parametrize("expected", [True, False])
def test_a_pop_brings_few_jobs_while_another_topic_expects_one(
    fast: None, monkeypatch: pytest.MonkeyPatch, valkey_url: str, namespace: str, expected: bool
) -> None:
    """With few, no job of the other topic waits for long behind them, on the server or in the loop."""
    monkeypatch.setattr(in_hand, "EXPECTED_S", LONG_S if expected else 0.0)

    async def story() -> list[int]:
        async with (
            topic_with(valkey_url, namespace, 0) as topic,
            tarry.AsyncClient(valkey_url, namespace=namespace) as client,
        ):
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            handled = Handled(topic, worker.stop)
            other_ran = asyncio.Event()

            @worker.on("n")
            async def handle(number: int) -> None:
                await handled.one(number)

            @worker.on("other")
            async def other(_: None) -> None:
                other_ran.set()

            popped = sizes_of_pops(monkeypatch, "n")
            await client.topic("other").add(None)
            async with worker:
                await other_ran.wait()
                for at in range(0, COUNT, MOST_JOBS):
                    await topic.add_many(range(at, at + MOST_JOBS))
                await until(lambda: is_finished(topic, COUNT))
            return popped

    popped = asyncio.run(story())
    assert sum(popped) == COUNT
    assert max(popped) == (in_hand.FEW_AT_ONCE if expected else in_hand.LESS_AT_ONCE)


@pytest.mark.parametrize(("names", "most"), [(("n",), in_hand.MOST_AT_ONCE), (("n", "other"), in_hand.LESS_AT_ONCE)])
def test_topics_that_all_have_a_backlog_take_many_jobs_at_a_time(
    fast: None, monkeypatch: pytest.MonkeyPatch, valkey_url: str, namespace: str, names: tuple[str, ...], most: int
) -> None:
    monkeypatch.setattr(in_hand, "EXPECTED_S", LONG_S)

    async def story() -> list[int]:
        async with (
            topic_with(valkey_url, namespace, COUNT) as topic,
            tarry.AsyncClient(valkey_url, namespace=namespace) as client,
        ):
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            for name in names:

                @worker.on(name)
                async def handle(number: int) -> None: ...

            for at in range(0, COUNT, MOST_JOBS):
                await client.topic("other").add_many(range(at, at + MOST_JOBS))
            popped = sizes_of_pops(monkeypatch, "n")
            async with worker:
                await until(lambda: is_finished(topic, COUNT))
            return popped

    assert max(asyncio.run(story())) == most


def sizes_of_pops(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """Notes how many jobs each pop of a topic brings."""
    sizes, pop_many = list[int](), AsyncTopic.pop_many

    async def noting(topic: tarry.AsyncTopic[Any], n: int, **options: Any) -> list[Any]:
        jobs = await pop_many(topic, n, **options)
        if topic.name == name:
            sizes.append(len(jobs))
        return jobs

    monkeypatch.setattr(AsyncTopic, "pop_many", noting)
    return sizes


def test_jobs_that_wait_for_too_long_are_put_back_for_other_workers(
    fast: None, monkeypatch: pytest.MonkeyPatch, valkey_url: str, namespace: str
) -> None:
    """The handlers were fast, and then they are slow: each slot keeps its job, and the others are handed out again."""
    monkeypatch.setattr(in_hand, "LONGEST_WAIT_S", 0.05)

    async def story() -> None:
        async with topic_with(valkey_url, namespace, COUNT) as topic:
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            slow, may_end, reserved = asyncio.Event(), asyncio.Event(), list[int]()

            @worker.on("n")
            async def handle(number: int) -> None:
                if number == 1000:
                    monkeypatch.setattr(in_hand, "HANDLED_S", 0.001)
                    reserved.append((await topic.stats()).reserved)
                    slow.set()
                if number >= 1000:
                    await may_end.wait()

            async with worker:
                await slow.wait()
                assert reserved[0] > 2 * CONCURRENCY
                await until(lambda: is_reserved(topic, CONCURRENCY))
                stats = await topic.stats()
                assert (stats.ready, stats.finished) == (COUNT - 1000 - CONCURRENCY, 1000)
                [other] = await topic.pop_many(1)
                assert (other.body, other.attempt) == (1000 + CONCURRENCY, 1)  # in its old place, and nothing counted
                await topic.finish(other)
                may_end.set()
                await until(lambda: is_done(topic))
            stats = await topic.stats()
            assert (stats.finished, stats.dead, stats.timed_out) == (COUNT, 0, 0)

    asyncio.run(story())


def test_done_jobs_are_finished_while_others_wait_for_a_slot(fast: None, valkey_url: str, namespace: str) -> None:
    """All slots are taken and more jobs wait: nothing is popped, and what is done is finished nevertheless."""

    async def story() -> None:
        async with topic_with(valkey_url, namespace, COUNT) as topic:
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            may_end, may_end_all, begun = asyncio.Event(), asyncio.Event(), set[int]()

            @worker.on("n")
            async def handle(number: int) -> None:
                begun.add(number)
                if number >= 1000:
                    await (may_end if number < 1020 else may_end_all).wait()

            async with worker:
                await until(lambda: is_finished(topic, 1000))
                may_end.set()
                await until(lambda: is_finished(topic, 1020))
                assert (await topic.stats()).reserved > CONCURRENCY
                may_end_all.set()
                await until(lambda: is_done(topic))

    asyncio.run(story())


def test_a_stopped_worker_puts_back_what_it_took_ahead(fast: None, valkey_url: str, namespace: str) -> None:
    async def story() -> None:
        async with topic_with(valkey_url, namespace, COUNT) as topic:
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            may_end = asyncio.Event()

            @worker.on("n")
            async def handle(number: int) -> None:
                if number >= 1000:
                    await may_end.wait()

            async with worker:
                await until(lambda: is_finished(topic, 1000))
                worker.stop()
                await until(lambda: is_reserved(topic, CONCURRENCY))
                [first] = await topic.pop_many(1)
                assert (first.body, first.attempt) == (1000 + CONCURRENCY, 1)
                await topic.finish(first)
                may_end.set()
            stats = await topic.stats()
            assert (stats.finished, stats.ready, stats.reserved) == (1001 + CONCURRENCY, COUNT - 1001 - CONCURRENCY, 0)

    asyncio.run(story())


def test_a_worker_reports_the_jobs_that_run_and_not_those_that_wait(
    fast: None, valkey_url: str, namespace: str
) -> None:
    async def story() -> None:
        async with topic_with(valkey_url, namespace, COUNT) as topic:
            worker = Worker("shop", url=valkey_url, namespace=namespace)
            may_end = asyncio.Event()

            @worker.on("n")
            async def handle(number: int) -> None:
                if number >= 1000:
                    await may_end.wait()

            async with worker, tarry.AsyncClient(valkey_url, namespace=namespace) as client:
                await until(lambda: is_finished(topic, 1000))
                assert (await topic.stats()).reserved > CONCURRENCY

                async def is_reported() -> bool:
                    return any(one.busy == CONCURRENCY for one in await client.workers())

                await until(is_reported)
                [report] = await client.workers()
                assert len(report.jobs) == 10
                may_end.set()
                await until(lambda: is_done(topic))

    asyncio.run(story())


async def is_reserved(topic: tarry.AsyncTopic[int], jobs: int) -> bool:
    return (await topic.stats()).reserved == jobs


async def is_finished(topic: tarry.AsyncTopic[int], jobs: int) -> bool:
    return (await topic.stats()).finished == jobs


async def is_done(topic: tarry.AsyncTopic[int]) -> bool:
    stats = await topic.stats()
    return stats.ready == stats.reserved == 0


def test_what_a_worker_has_imported_is_left_out_of_garbage_collections() -> None:
    """A collection of all of it would stop the loop in each burst, for as long as some thousand handlers."""

    async def counts() -> tuple[int, int]:
        return gc.get_freeze_count(), len(gc.get_objects())

    try:
        frozen, left = run_in_loop(counts())
    finally:
        gc.unfreeze()
    assert frozen > 10 * left


def test_the_longest_times_are_those_of_the_last_half_hours() -> None:
    longest = LongestTimes()
    assert longest.in_ms(0.0) == {}
    longest.now["mail"] = 6.9001
    longest.now["print"] = 0.0001
    assert longest.in_ms(10.0) == {"mail": 6901, "print": 1}, "rounded up"
    assert longest.in_ms(LONGEST_TURN_S + 1)["mail"] == 6901
    longest.now["mail"] = 2.0
    assert longest.in_ms(2 * LONGEST_TURN_S)["mail"] == 6901, "it was in the half hour before"
    assert longest.in_ms(2 * LONGEST_TURN_S + 2) == {"mail": 2000}
    assert longest.in_ms(4 * LONGEST_TURN_S) == {}


@pytest.mark.parametrize("is_async", [True, False])
def test_a_worker_reports_how_long_it_had_a_job_of_each_task(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    monkeypatch.setattr("tarry.worker.heartbeat.REPORT_EVERY_S", 0.0)
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    seen: dict[str, int] = {}

    def look() -> bool:
        with tarry.Client(valkey_url, namespace=namespace) as client:
            seen.update(*[one.longest_ms for info in client.workers() for one in info.topics])
        return "mail" in seen

    def note() -> None:
        until_seen(look, "the length of the first is told")

    async def mail(n: int) -> None:
        if n:
            await asyncio.to_thread(note)

    def plain(n: int) -> None:
        if n:
            note()

    task = worker.task(name="mail")(mail if is_async else plain)

    @worker.task
    def never() -> None: ...

    task.add(0)
    task.options(delay=0.001).add(1)
    asyncio.run(worker.run_until_idle())
    assert set(seen) == {"mail"}
    assert seen["mail"] > 0
