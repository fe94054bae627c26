"""A process that knows a topic as a plain one finds out by itself that it has been given partitions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import tarry
from distributed.conftest import PARTS, SERVERS, either
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Command
from tarry.errors import BadInput, ServerUnfit
from tarry.values.keys import keys_of_parts


@pytest.fixture
def url(valkey_url: str) -> str:
    """The rules are the same on a Cluster; there the last story is told too."""
    return valkey_url


@pytest.fixture(params=SERVERS)
def some_url(request: pytest.FixtureRequest) -> str:
    return either(request)


VERBS: dict[str, tuple[Any, ...]] = {
    "get": ("1",),
    "list": (),
    "stats": (),
    "histogram": (),
    "throughput": (),
    "dead_groups": (),
    "pop": (),
    "pop_many": (9,),
    "add": ("three",),
    "add_many": (range(50),),
    "kick": ("1",),
    "delete": ("1",),
    "reschedule": ("1",),
    "pause": ("1h",),
    "resume": (),
    "configure": (),
    "purge": (),
    "purge delayed": ("delayed",),
    "check": (),
    "release_holder": ("nobody",),
    "touch_holder": ("nobody",),
    "schedules.put": ("s",),
    "schedules.list": (),
    "schedules.get": ("s",),
    "schedules.pause": ("s",),
}
NAMED = {
    "touch_holder": {"ttr": 9},
    "reschedule": {"delay": 5},
    "schedules.put": {"every": "1h"},
    "configure": {"concurrency": PARTS},
}


async def answer_of(verb: str, topic: Any, adapter: Any) -> Any:
    """What a verb answers, without what differs from topic to topic."""
    given, named = VERBS[verb], NAMED.get(verb, {})
    name = verb.removeprefix("schedules.").split()[0]
    if verb.startswith("schedules."):
        answer = getattr(adapter.client.schedules, name)(getattr(topic, "plain", topic), *given, **named)
    else:
        answer = getattr(topic, name)(*given, **named)
    answer = await answer if hasattr(answer, "__await__") else answer
    if verb in ("add", "add_many"):
        return len(answer) if verb == "add_many" else (answer.is_new, answer.state)
    if isinstance(answer, tarry.JobPage) or name == "pop_many":
        return [job.id for job in answer]
    return answer.id if hasattr(answer, "id") else str(answer).replace("twin", "orders")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_discovers_new_partitions(adapter: Any, url: str, clock: Clock, verb: str) -> None:
    async def story() -> None:
        stale, fresh = adapter.topic("orders"), adapter.topic("twin", partitions=PARTS)
        assert (await stale.stats()).added == 0
        assert stale.verbs.single is not None
        with TestClient(url, clock, namespace=adapter.client.namespace) as other:
            topic = other.topic("orders", partitions=PARTS)
            for one in (topic, other.topic("twin", partitions=PARTS)):
                one.add("zero", id="0")
                one.add("one", id="1", delay="1h")
            plain = other.engine.run(Command((b"GET", stale.verbs.keys.meta), bytes))
            answers = [await answer_of(verb, one, adapter) for one in (stale, fresh)]
            assert answers[0] == answers[1]
            assert stale.verbs.single is None
            assert other.engine.run(Command((b"GET", stale.verbs.keys.meta), bytes)) == plain == b"%d" % PARTS
            left = (*stale.verbs.keys[:3], *keys_of_parts(("schedules", "plans", "declared"))(stale.verbs.keys))
            assert not any(other.engine.run(Command((b"EXISTS", key), int)) for key in left), (
                "nothing was written there"
            )

    adapter.perform(story())


def test_a_key_of_another_type_stays_refused(adapter: Any) -> None:
    async def story() -> None:
        topic = wrong(adapter, "foreign")
        await topic.stats()
        await adapter.run(Command((b"RPUSH", topic.verbs.keys.meta, b"theirs"), int))
        for _ in range(2):
            with pytest.raises(ServerUnfit, match="WRONGTYPE"):
                await topic.add("tea")
            with pytest.raises(ServerUnfit, match="WRONGTYPE"):
                await topic.pop(wait="1s")

    adapter.perform(story())


def wrong(adapter: Any, name: str, **options: Any) -> Any:
    """A handle that nobody checks at the end."""
    made = adapter.topic(name, **options)
    adapter.topics_made.remove(made)
    return made


def test_a_wait_on_a_plain_topic_continues_on_its_new_partitions(adapter: Any, url: str, clock: Clock) -> None:
    """By the imaginary clock, a wait that finds partitions goes on for what is left of it."""

    async def story() -> None:
        stale = adapter.topic("orders")
        assert await stale.pop(wait="1s") is None
        with TestClient(url, clock, namespace=adapter.client.namespace) as other:
            other.topic("orders", partitions=PARTS).add("tea", delay="20s")
        began = clock.us
        job = await stale.pop(wait="1m")
        assert (job.body, clock.us - began) == ("tea", 20_000_000)
        await stale.finish(job)
        assert await stale.pop(wait="10s") is None

    adapter.perform(story())


@pytest.mark.parametrize("waiting", [1, 3])
def test_all_waiting_clients_notice_new_partitions_quickly(some_url: str, namespace: str, waiting: int) -> None:
    """Real time: clients that are blocked on the plain topic hear of its partitions, one after the other."""
    found: list[Any] = []

    def wait() -> None:
        with tarry.Client(some_url, namespace=namespace) as client:
            job = client.pop("orders", wait=30)
            assert job is not None
            with job:
                found.append((job.body, job.attempt))

    threads = [threading.Thread(target=wait) for _ in range(waiting)]
    for thread in threads:
        thread.start()
    with tarry.Client(some_url, namespace=namespace) as client:
        blocked = 0
        while blocked < waiting:
            listed = [
                server.exchange(((b"CLIENT", b"LIST"),))[0]
                for server in client.engine.runner.ask_all(lambda server: server).values()
            ]
            blocked = sum(line.count(b"cmd=blpop") for line in listed)
        client.topic("orders", partitions=PARTS).add_many(range(waiting), delay="100ms")
        for thread in threads:
            thread.join(8)  # a look-around takes ten
        assert sorted(found) == [(n, 1) for n in range(waiting)]


def test_a_worker_continues_on_new_partitions(url: str, clock: Clock, namespace: str) -> None:
    from tarry.clients.testing import TestAsyncClient

    done: list[Any] = []

    async def story() -> None:
        async with TestAsyncClient(url, clock, namespace=namespace) as client:
            worker = tarry.Worker(client=client)

            @worker.on("orders")
            async def close(order: int) -> None:
                done.append(order)

            await worker.run_until_idle()
            with TestClient(url, clock, namespace=namespace) as other:
                other.topic("orders", partitions=PARTS).add_many(range(30))
            await worker.run_until_idle()

    asyncio.run(story())
    assert sorted(done) == list(range(30))


def test_a_purged_topic_keeps_its_partitions(adapter: Any, topic: Any) -> None:
    async def story() -> None:
        await topic.add_many(range(20))
        assert await topic.purge() == 20
        again = adapter.topic("orders")
        await again.add("tea", id="tea")
        assert len(await adapter.run(again.verbs.partitions())) == PARTS
        plain = adapter.topic("plain")
        await plain.add("tea")
        await plain.purge()
        with pytest.raises(BadInput, match="has been used"):
            await wrong(adapter, "plain", partitions=2).stats()

    adapter.perform(story())
