"""``raise tarry.Pause``: the topic is paused first, then the job and all that has not begun go back to their places."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tarry
from faults.proxy import LOST, Proxy
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.durations import SECOND
from tarry.verbs.jobs.settings import PAUSE
from tarry.verbs.jobs.settle import RELEASE
from tarry.worker import in_hand, registry
from tarry.worker.settler import Settler
from tarry.worker.topic_consumer import TopicConsumer
from until import LONGEST_S, until

LONG_S = 3600.0
COUNT = 400


@pytest.fixture
def imaginary(valkey_url: str, namespace: str, clock: Clock) -> Any:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        yield client


def work(client: TestClient, clock: Clock, handle: Any, **options: Any) -> None:
    """Runs a worker, of one slot if nothing else is given, until nothing is due."""
    awaited = TestAsyncClient(client.engine.config.address.full_url or "", clock, namespace=client.namespace)
    worker = tarry.Worker("shop", client=awaited)
    if options.pop("around", False):
        worker.around(swallowing)
        worker.around(swallowing_awaited)
    worker.on("n", **{"concurrency": 1, **options})(handle)
    asyncio.run(worker.run_until_idle())


def swallowing(job: Any, handle: Callable[[Any], Any]) -> None:
    """Middleware that lets no exception through: the pause was seen all the same."""
    try:
        handle(job)
    except tarry.Pause:
        return


async def swallowing_awaited(job: Any, handle: Callable[[Any], Any]) -> None:
    try:
        await handle(job)
    except tarry.Pause:
        return


@pytest.mark.parametrize("around", [False, True], ids=["alone", "middleware"])
@pytest.mark.parametrize("kind", ["async", "plain"])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_topic_is_paused_by_its_handler_and_its_job_keeps_place_and_attempts(
    imaginary: TestClient, clock: Clock, kind: str, around: bool, partitions: int
) -> None:
    topic = imaginary.topic("n", partitions=partitions)
    ids = [added.id for added in topic.add_many(range(6))]
    begun: list[tuple[str, int]] = []
    clock.advance("1m")

    def plain(job: Any) -> None:
        begun.append((job.id, job.attempt))
        if len(begun) == 2:
            raise tarry.Pause("30s", "429")

    async def awaited(job: Any) -> None:
        plain(job)

    work(imaginary, clock, plain if kind == "plain" else awaited, around=around)
    (done, _), (asked, attempt) = begun
    stats = topic.stats()
    assert (stats.finished, stats.ready, stats.reserved, attempt) == (1, 5, 0, 1)
    assert stats.paused_until == clock.now + timedelta(seconds=30)
    job = topic.get(asked)
    assert job is not None
    assert (job.state, job.attempts, job.reason) == ("ready", 0, "Pause: 429")
    assert topic.pop(wait="29s") is None
    assert topic.pop_many(6) == []
    clock.advance("1s")
    popped = topic.pop_many(6)
    assert {one.attempt for one in popped} == {1}
    left = [id for id in ids if id != done]
    assert sorted(one.id for one in popped) == sorted(left)
    assert partitions > 1 or [one.id for one in popped] == left, "in the order in which they were added"


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_key_is_paused_by_the_handler_of_its_job_and_the_others_go_on(
    imaginary: TestClient, clock: Clock, kind: str, caplog: Any
) -> None:
    topic, begun = imaginary.topic("n"), list[str]()
    topic.add_many([tarry.NewJob(k, id=f"{key}{k}", key=key) for k in (1, 2) for key in ("a", "b")])
    topic.configure(key_concurrency=1)
    clock.advance("1m")

    def plain(job: Any) -> None:
        begun.append(job.id)
        if job.key == "a":
            raise tarry.Pause("30s", "429", key=True)

    async def awaited(job: Any) -> None:
        plain(job)

    with caplog.at_level(logging.WARNING, logger="tarry"):
        work(imaginary, clock, plain if kind == "plain" else awaited)
    assert sorted(begun) == ["a1", "b1", "b2"]
    assert "the key a of n is paused until" in caplog.text
    stats = topic.stats()
    assert (stats.finished, stats.ready, stats.paused_until) == (2, 2, None)
    assert topic.pop() is None
    clock.advance("30s")
    job = topic.pop()
    assert job is not None
    assert (job.id, job.attempt) == ("a1", 1)


def test_a_pause_of_a_key_is_the_topics_for_a_job_without_one() -> None:
    fault = pickle.loads(pickle.dumps(tarry.Pause("30s", "429", key=True)))
    assert (fault.key, fault.duration_us, str(fault)) == (True, 30 * SECOND, "429")
    with pytest.raises(tarry.BadInput, match="key"):
        tarry.Pause("30s", key="a")  # type: ignore[arg-type]


def test_the_topic_is_paused_before_the_job_goes_back(imaginary: TestClient, clock: Clock, monkeypatch: Any) -> None:
    """A worker that is killed between the two leaves the pause, and its job as that of any killed worker."""
    topic, scripts = imaginary.topic("n"), list[str]()
    topic.add(1, id="1")
    pause_first = Settler._pause_first

    async def handle(job: Any) -> None:
        raise tarry.Pause("30s")

    def stopped_after_one(settler: Settler, rulings: Any, dead: Any) -> Any:
        flow = pause_first(settler, rulings, dead)
        step: Any = next(flow)
        scripts.append(step.script.name)
        answer = yield step
        scripts.append(flow.send(answer).script.name)
        raise tarry.BadInput("killed")

    monkeypatch.setattr(Settler, "_pause_first", stopped_after_one)
    work(imaginary, clock, handle)
    assert scripts == [PAUSE.name, RELEASE.script.name]
    job = topic.get("1")
    assert job is not None
    assert job.state == "reserved"
    assert topic.stats().paused_until == clock.now + timedelta(seconds=30)
    clock.advance("29s")
    assert topic.pop() is None
    clock.advance("1s")
    again = topic.pop()
    assert again is not None
    assert again.attempt == 2


@pytest.mark.parametrize(("before", "after"), [("10s", 30), ("1h", 3600), (None, None)])
def test_a_longer_pause_stays(imaginary: TestClient, clock: Clock, before: str | None, after: int | None) -> None:
    topic = imaginary.topic("n")
    topic.add(1)
    begun: list[Any] = []

    async def handle(job: Any) -> None:
        begun.append(job)
        topic.pause(before)
        raise tarry.Pause("30s")

    work(imaginary, clock, handle)
    until_us = topic.stats().paused_until
    assert until_us is not None
    if after is None:
        assert until_us.year == 9999
    else:
        assert until_us == clock.now + timedelta(seconds=after)
    topic.resume()
    assert topic.pop() is not None, "somebody decided otherwise"
    assert len(begun) == 1


def test_one_warning_says_until_when_and_why(
    imaginary: TestClient, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Not one for each job that had begun by then."""
    begun = list[str]()

    async def handle(job: Any) -> None:
        begun.append(job.id)
        async with asyncio.timeout(LONGEST_S):
            while len(begun) % 3:  # noqa: ASYNC110  # until all three have
                await asyncio.sleep(0)
        raise tarry.Pause("2h", "the provider says 429")

    for turn in range(2):
        imaginary.topic("n").add_many([tarry.NewJob(1, id=f"{turn}{slot}") for slot in range(3)])

        with caplog.at_level(logging.DEBUG, "tarry.worker"):
            work(imaginary, clock, handle, concurrency=3)
        lines = [one for one in caplog.records if one.getMessage().startswith("‖")]
        assert [one.levelno for one in lines] == [logging.WARNING, logging.DEBUG, logging.DEBUG]
        first = lines[0].__dict__["tarry"]["id"]
        assert lines[0].getMessage() == (
            f"‖ n is paused until {(clock.now + timedelta(hours=2)).isoformat()}: {first} attempt 1 raised "
            "Pause: the provider says 429; it does not count"
        )
        caplog.clear()
        clock.advance("2h")


@pytest.fixture
def one_fast_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job runs at a time, and very many are taken ahead."""
    monkeypatch.setattr(in_hand, "HANDLED_S", LONG_S)
    monkeypatch.setattr(in_hand, "LONGEST_WAIT_S", LONG_S)
    monkeypatch.setattr(in_hand, "TTR_PARTS", 1 / LONG_S)
    monkeypatch.setattr(registry, "CONCURRENCY", 1)
    monkeypatch.setattr(registry, "THREADS", 1)


@pytest.mark.parametrize("kind", ["async", "plain"])
def test_what_a_worker_holds_and_has_not_begun_goes_back(
    one_fast_slot: None, valkey_url: str, namespace: str, kind: str
) -> None:
    begun, most_reserved = list[int](), list[int]()
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    def plain(number: int) -> None:
        begun.append(number)
        if number == COUNT // 2:
            most_reserved.append(worker.client.topic("n").stats().reserved)
            raise tarry.Pause("1h")

    async def awaited(number: int) -> None:
        plain(number)

    worker.on("n")(plain if kind == "plain" else awaited)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        topic = client.topic("n", type=int)
        topic.add_many(range(COUNT))
        asyncio.run(worker.run_until_idle())
        stats = topic.stats()
        assert most_reserved[0] > 10, "it held many"
        assert begun == list(range(COUNT // 2 + 1))
        assert (stats.finished, stats.ready, stats.reserved) == (COUNT // 2, COUNT - COUNT // 2, 0)
        topic.resume()
        left = topic.pop_many(COUNT)
        assert [job.body for job in left] == list(range(COUNT // 2, COUNT))
        assert {job.attempt for job in left} == {1}


@pytest.mark.parametrize("late", [True, False])
def test_a_pop_that_was_under_way_begins_nothing(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """Its answer comes after that to the pause. One that is handed out after the pause does begin."""
    begun: list[int] = []
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)
    pop_many, popped = TopicConsumer._pop_many, asyncio.Event()

    async def held_up(consumer: TopicConsumer, *given: Any, **options: Any) -> Any:
        jobs = await pop_many(consumer, *given, **options)
        if [job.body for job in jobs] == [2]:
            popped.set()
            async with asyncio.timeout(LONGEST_S):
                while consumer.settler.paused_until_us == 0 or consumer._pausing:  # noqa: ASYNC110  # a server answers
                    await asyncio.sleep(0.001)
        return jobs

    monkeypatch.setattr(TopicConsumer, "_pop_many", held_up)

    @worker.on("n", concurrency=5)
    async def handle(job: tarry.AsyncJob[int]) -> None:
        begun.append(job.body)
        if job.body == 1:
            if late:
                await worker.async_client.topic("n").add(2)
                await popped.wait()
            raise tarry.Pause("1h" if late else "10ms")

    async def story(client: tarry.Client) -> None:
        topic = client.topic("n")
        async with worker:
            topic.add(1)
            if late:
                await asyncio.to_thread(until, lambda: topic.stats().ready == 2, "both are back")
            else:
                await asyncio.to_thread(until, lambda: len(begun) > 3, "it begins again after each pause")

    with tarry.Client(valkey_url, namespace=namespace) as client:
        asyncio.run(story(client))
        assert begun == [1] if late else set(begun) == {1}
        job = client.topic("n").list().jobs[0]
        assert job.attempts == 0


@pytest.mark.parametrize("around", [False, True], ids=["alone", "middleware"])
@pytest.mark.parametrize("kind", ["async", "plain"])
def test_a_job_that_is_lost_pauses_its_topic_all_the_same(
    imaginary: TestClient, clock: Clock, kind: str, around: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """What a provider says concerns the topic, not whose the job is."""
    topic = imaginary.topic("n")
    topic.add(1, id="1")
    begun: list[int] = []

    def plain(job: Any) -> None:
        begun.append(job.attempt)
        topic.release(tarry.Reservation("1", job.receipt), delay=0)
        job.lost = True  # as the renewal marks it
        raise tarry.Pause("30s", "429")

    async def awaited(job: Any) -> None:
        plain(job)

    work(imaginary, clock, plain if kind == "plain" else awaited, around=around)
    job, stats = topic.get("1"), topic.stats()
    assert job is not None
    assert (begun, job.state, stats.paused_until) == ([1], "ready", clock.now + timedelta(seconds=30))
    [told] = [line.getMessage() for line in caplog.records if line.getMessage().startswith("‖")]
    assert told.endswith("1 attempt 1 raised Pause: 429; it is lost") or around


@pytest.mark.parametrize("lost", [{"a"}, {"a", "b"}], ids=["one", "all"])
def test_a_batch_whose_jobs_are_lost_pauses_its_topic_all_the_same(
    imaginary: TestClient, clock: Clock, lost: set[str]
) -> None:
    topic = imaginary.topic("n")
    topic.add_many([tarry.NewJob(None, id=id) for id in "ab"])
    begun: list[str] = []

    async def handle(jobs: list[Any]) -> None:
        begun.extend(job.id for job in jobs)
        for job in jobs:
            if job.id in lost:
                topic.release(tarry.Reservation(job.id, job.receipt), delay=0)
                job.lost = True  # as the renewal marks it
        raise tarry.Failed({job: tarry.Pause("1h" if job.id == "a" else "30s") for job in jobs})

    work(imaginary, clock, handle, batch=10)
    stats = topic.stats()
    assert (begun, stats.ready, stats.refused) == (["a", "b"], 2, 0)
    assert stats.paused_until == clock.now + timedelta(hours=1), "the longest counts"


@pytest.mark.parametrize("lost", [PAUSE, RELEASE.script], ids=lambda script: script.name)
def test_a_lost_answer_changes_nothing(own_server: Any, tmp_path: Path, lost: Any) -> None:
    running: ServerProcess = own_server()
    proxy = Proxy(tmp_path, running.address)
    worker = tarry.Worker(url=proxy.url())

    @worker.on("n")
    async def handle(job: Any) -> None:
        if not proxy.struck:
            proxy.arm(LOST, at=lost.sha)
        raise tarry.Pause("1h", "429")

    try:
        with tarry.Client(running.url) as client:
            client.topic("n").add(1, id="1")
            asyncio.run(worker.run_until_idle())
            job, stats = client.topic("n").get("1"), client.topic("n").stats()
            assert job is not None
            assert (job.state, job.attempts, job.reason, proxy.struck) == ("ready", 0, "Pause: 429", 1)
            assert stats.paused_until is not None
            assert stats.refused == 0
            assert timedelta(minutes=59) < stats.paused_until - stats.now <= timedelta(hours=1)
    finally:
        proxy.close()


def test_a_queue_that_is_shared_with_java_cannot_be_paused(valkey_url: str, client: tarry.Client, name: str) -> None:
    worker = tarry.Worker(url=valkey_url, grace=0)

    @worker.on_queue(name, codec="string")
    async def handle(value: str) -> None:
        raise tarry.Pause("30s")

    client.delayed_queue(name, codec="string").offer("a", 0)
    asyncio.run(worker.run_until_idle())
    [aside] = client.blocking_queue(name).poison()
    assert aside.raw == b"a"
    assert aside.reason == (
        "handler: BadInput: Pause: a queue that is shared with Java cannot be paused; raise it in the handler of a topic."
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (0, "Pause: 0 is too short"),
        ("-5m", r"Pause: -5m is negative"),
        ("soon", "Pause: 'soon' is not a duration"),
        (None, "Pause: "),
        ("9000y", "Pause: "),
        (1e12, "reaches beyond the year 9999"),
        (float("nan"), "Pause: "),
    ],
)
def test_a_wrong_duration_is_refused_where_it_is_written(given: Any, why: str) -> None:
    with pytest.raises(tarry.BadInput, match=why):
        tarry.Pause(given)


def test_it_travels_and_is_no_policy() -> None:
    again = pickle.loads(pickle.dumps(tarry.Pause("1h", "429")))
    assert (again.duration_us, str(again)) == (3600 * SECOND, "429")
    with pytest.raises(tarry.BadInput, match="retry: Pause is what a function raises"):
        tarry.Worker("shop").on("n", retry=tarry.Pause)
