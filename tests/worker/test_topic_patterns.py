"""Handlers of patterns: topics that begin to exist while the worker runs, two handlers for one topic, what is shared."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
import redis

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.values.keys import topics_key
from tarry.values.topic_patterns import matches, overlap
from tarry.worker import discovery, registry
from tarry.worker import worker_process as process
from tarry.worker.worker import override, topics_of
from until import until
from walked import cases


def worker_of(url: str, namespace: str, **options: Any) -> tuple[tarry.Worker, list[str]]:
    worker, seen = tarry.Worker("shop", url=url, namespace=namespace, **options), list[str]()

    @worker.on("notify-*")
    async def notify(job: tarry.AsyncJob[Any]) -> None:
        seen.append(job.topic)

    return worker, seen


async def run_until(worker: tarry.Worker, is_so: Any) -> None:
    async with worker:
        await asyncio.to_thread(until, is_so)


@cases(
    ("pattern", "topic", "does"),
    [
        ("notify-*", "notify-7", True),
        ("notify-*", "notify-", True),
        ("notify-*", "my-notify-7", False),
        ("*-mails", "a-b-mails", True),
        ("a*b*c", "abc", True),
        ("a*b*c", "acb", False),
        ("a.*", "a.b", True),
        ("a.*", "axb", False),
        ("测*", "测试", True),
        (r"a\**", "a*7", True),
        (r"a\**", "ab7", False),
        ("*", "x", True),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, topic: str, does: bool) -> None:
    assert matches(pattern, topic) is does


@cases(
    ("one", "other", "do"),
    [
        ("a-*", "*-b", True),
        ("a-*", "b-*", False),
        ("*-a", "*-b", False),
        ("a*a", "aa*", True),
        ("a*b", "a*c", False),
        ("*ab*", "*ba*", True),
        (r"a\*", "a*", True),
        (r"a\*-*", "ab-*", False),
    ],
)
def test_two_patterns_overlap_if_a_name_can_match_both(one: str, other: str, do: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is do


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("a-*", "*-b", "a topic may match both '*-b' and 'a-*'"),
        ("a-*", "a-7", "'a-*' matches 'a-7'"),
        ("a-7", "a-*", "'a-*' matches 'a-7'"),
        ("a-*", "a-*", "'a-*' has a handler already"),
        ("a-*", r"a-\*", "'a-*' matches 'a-*'"),
    ],
)
def test_two_handlers_of_a_topic_are_refused_before_there_is_one(first: str, second: str, said: str) -> None:
    worker, included = tarry.Worker(), tarry.Registry()
    worker.on(first)(lambda job: None)
    with pytest.raises(tarry.BadInput) as refused:
        worker.on(second)(lambda job: None)
    assert said in str(refused.value)
    included.on(second)(lambda job: None)
    with pytest.raises(tarry.BadInput, match="include: "):
        worker.include(included)
    worker.on("b-*")(lambda job: None)


def test_a_topic_with_a_star_in_its_name_is_written_with_a_backslash(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker, seen = tarry.Worker("sh*p", url=valkey_url, namespace=namespace), list[str]()

    @worker.on(r"a\*b")
    async def starred(job: tarry.AsyncJob[Any]) -> None:
        seen.append(job.topic)

    @worker.task
    async def remind() -> None:
        seen.append("task")

    client.topic("a*b").add("x")
    client.topic("a-b").add("x")
    remind.add()
    asyncio.run(worker.run_until_idle())
    assert sorted(seen) == ["a*b", "task"]


def test_a_task_and_a_pattern_are_refused_in_one_topic() -> None:
    async def remind() -> None: ...

    worker = tarry.Worker("shop")
    worker.on("sh*")(lambda job: None)
    with pytest.raises(tarry.BadInput, match="the topic 'shop' has a handler, that of 'sh\\*'"):
        worker.task(remind)
    other = tarry.Worker("shop")
    other.task(remind)
    with pytest.raises(tarry.BadInput, match="'\\*' matches 'shop'"):
        other.on("*")(lambda job: None)
    with pytest.raises(tarry.BadInput, match="'mail-\\*' is a pattern, and the jobs of a task are in one topic"):
        other.task(topic="mail-*")


def test_topics_of_a_pattern_are_found_before_and_while_it_runs(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker, seen = worker_of(valkey_url, namespace)
    client.topic("notify-old").add("x")
    client.topic("other").add("x")

    async def story() -> None:
        async with worker:
            await asyncio.to_thread(until, lambda: seen == ["notify-old"])
            await asyncio.to_thread(client.topic("notify-new").add, "x")
            await asyncio.to_thread(until, lambda: seen == ["notify-old", "notify-new"])
            async with tarry.AsyncClient(valkey_url, namespace=namespace) as awaited:
                await awaited.topic("notify-awaited").add("x")
            await asyncio.to_thread(until, lambda: len(seen) == 3)

    asyncio.run(story())
    assert client.topic("other").stats().ready == 1


def test_a_new_topic_is_found_by_its_message_alone(
    valkey_url: str, namespace: str, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "LOOK_EVERY_S", 1e6)
    worker, seen = worker_of(valkey_url, namespace)

    async def story() -> None:
        async with worker:
            for number in range(5):
                await asyncio.to_thread(client.topic(f"notify-{number}").add, "x")
                await asyncio.to_thread(until, lambda number=number: len(seen) == number + 1)

    client.topic("notify-first").add("x")
    asyncio.run(run_until(worker, lambda: seen == ["notify-first"]))
    seen.clear()
    asyncio.run(story())


def test_a_new_topic_is_found_without_its_message(
    valkey_url: str, namespace: str, client: tarry.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list itself is enough: here nothing is published."""
    monkeypatch.setattr(discovery, "LOOK_EVERY_S", 0.05)
    worker, seen = worker_of(valkey_url, namespace)
    client.topic("notify-first").add("x")

    async def story() -> None:
        async with worker:
            await asyncio.to_thread(until, lambda: seen)
            redis.Redis.from_url(valkey_url).sadd(topics_key(namespace), "notify-2")
            client.engine._registered["notify-2"] = 1e12
            await asyncio.to_thread(client.topic("notify-2").add, "x")
            await asyncio.to_thread(until, lambda: len(seen) == 2)

    asyncio.run(story())


def test_a_look_at_the_list_is_one_command_until_it_has_grown(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    sent: list[str] = []

    async def story() -> None:
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as awaited:
            found: list[dict[str, str]] = []
            topics = discovery.TopicDiscovery(awaited, ["notify-*"], [], found.append, discovery.Outage())
            run = awaited.engine.run
            awaited.engine.run = lambda request: sent.append(request.args[0].decode()) or run(request)  # type: ignore[method-assign]
            await topics.look()
            sent.clear()
            for _ in range(3):
                assert not await topics.look()
            assert sent == ["SCARD"] * 3
            client.topic("notify-1").add("x")
            client.topic("other").add("x")
            assert await topics.look()
            assert found == [{"notify-1": "notify-*"}]

    asyncio.run(story())


@pytest.mark.parametrize("imaginary", [False, True])
def test_until_idle_works_off_topics_that_handlers_bring_into_being(
    valkey_url: str, namespace: str, imaginary: bool
) -> None:
    client = TestClient(valkey_url, Clock(), namespace=namespace) if imaginary else None
    worker = tarry.Worker("shop", **({"client": client} if client else {"url": valkey_url, "namespace": namespace}))
    seen: list[str] = []

    @worker.on("step-*")
    async def step(job: tarry.AsyncJob[Any]) -> None:
        seen.append(job.topic)
        if job.body:
            await worker.async_client.topic(f"step-{job.body - 1}").add(job.body - 1)
            await worker.async_client.topic("count").add(1)

    @worker.on("count")
    async def count(job: tarry.AsyncJob[Any]) -> None:
        seen.append(job.topic)

    worker.client.topic("step-4").add(4)
    asyncio.run(worker.run_until_idle())
    assert sorted(seen) == ["count"] * 4 + [f"step-{number}" for number in range(5)]


def test_a_worker_of_patterns_alone_ends_when_there_is_nothing(valkey_url: str, namespace: str) -> None:
    worker, seen = worker_of(valkey_url, namespace)
    asyncio.run(worker.run_until_idle())
    assert not seen


@pytest.mark.parametrize("kind", ["async", "thread"])
@pytest.mark.parametrize("shared", [None, 8])
def test_the_concurrency_of_a_pattern_is_that_of_all_its_topics(
    valkey_url: str, namespace: str, client: tarry.Client, kind: str, shared: int | None
) -> None:
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace, concurrency=shared)
    lock, running, most, threads = threading.Lock(), 0, 0, set[str]()

    def enter(by: int) -> None:
        nonlocal running, most
        with lock:
            running += by
            most = max(most, running)

    if kind == "async":

        @worker.on("notify-*", concurrency=2)
        async def notify(job: tarry.AsyncJob[Any]) -> None:
            enter(1)
            await job.touch()
            enter(-1)

    else:

        @worker.on("notify-*", concurrency=2)
        def plain(job: tarry.Job[Any]) -> None:
            threads.add(threading.current_thread().name)
            enter(1)
            job.touch()
            enter(-1)

    for number in range(20):
        client.topic(f"notify-{number}").add_many([1, 2])
    asyncio.run(worker.run_until_idle())
    assert 1 <= most <= 2
    assert len(threads) <= 2, "the topics share the threads, too"
    assert all(client.topic(f"notify-{number}").stats().finished == 2 for number in range(20))


def test_a_killed_worker_and_its_parent_know_the_topics_of_the_patterns(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    worker, _ = worker_of(valkey_url, namespace)
    client.topic("notify-1").add("x")
    client.topic("other").add("x")
    assert topics_of(worker, client.topics) == ["notify-1"]


def test_reports_and_the_banner_name_the_topics(valkey_url: str, namespace: str, client: tarry.Client) -> None:
    worker, _ = worker_of(valkey_url, namespace)
    assert "  topics   notify-*  100 at a time together  notify" in process.banner(worker, 1).splitlines()
    client.topic("notify-1").add("x")

    async def story() -> None:
        async with worker:
            await asyncio.to_thread(
                until, lambda: [topic.name for one in client.workers() for topic in one.topics] == ["notify-1"]
            )
            assert [one.slots for one in client.workers()] == [registry.CONCURRENCY]

    asyncio.run(story())


def test_the_option_topics_takes_a_pattern_or_topics_that_match_one(valkey_url: str, namespace: str) -> None:
    worker, _ = worker_of(valkey_url, namespace)
    override(worker, topics=["notify-7", "notify-8"])
    assert topics_of(worker) == ["notify-7", "notify-8"]
    worker, _ = worker_of(valkey_url, namespace)
    override(worker, topics=["notify-*"])
    assert topics_of(worker, lambda: ["notify-1", "x"]) == ["notify-1"]
    for wrong in ("notify-a*", "letters"):
        with pytest.raises(tarry.BadInput, match="no handler for"):
            override(worker, topics=[wrong])


def test_a_topic_is_registered_again_after_a_minute(valkey_url: str, namespace: str) -> None:
    """A fail-over may lose the list, and the jobs that are added later would not be found."""
    clock = Clock()
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        client.topic("notify-1").add("x")
        assert redis.Redis.from_url(valkey_url).delete(topics_key(namespace))
        client.topic("notify-1").add("x")
        assert client.topics() == []
        clock.advance("61s")
        client.topic("notify-1").add("x")
        assert client.topics() == ["notify-1"]
