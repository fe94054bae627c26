"""`result(wait=…)` on real clients: a message wakes it; the read every ten seconds is for lost messages only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tarry import AsyncClient, Client, NoResult
from tarry.clients.awaited import finished_jobs as awaited
from tarry.clients.blocking import finished_jobs as blocking
from tarry.core.requests import Command
from tarry.values.keys import finished_channel
from until import LONGEST_S, until


@pytest.fixture
def client(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    for module in (awaited, blocking):
        monkeypatch.setattr(module, "READ_EVERY_S", 3600.0)  # only a message wakes
    with Client(valkey_url, namespace=namespace) as made:
        yield made


def subscribers(client: Client, topic: Any) -> int:
    command = Command((b"PUBSUB", b"NUMSUB", finished_channel(topic.verbs.keys)), lambda reply: int(reply[1]))
    return client.engine.run(command)


def test_a_waiting_caller_is_woken_when_the_job_is_finished(client: Client) -> None:
    topic = client.topic("t")
    topic.configure(keep_finished="1h")
    topic.add("tea", id="7")
    topic.add("coffee", id="8")
    with ThreadPoolExecutor() as pool:
        found, job = pool.submit(topic.result, "7", wait=60), pool.submit(topic.get, "7", wait=60)
        until(lambda: subscribers(client, topic) == 1)
        jobs = {job.id: job for job in topic.pop_many(2)}
        topic.finish(jobs["8"], result="other")
        topic.finish(jobs["7"], result=42)
        assert found.result(LONGEST_S) == job.result(LONGEST_S).result == 42
    until(lambda: subscribers(client, topic) == 0)


def test_an_awaited_caller_is_woken_and_one_that_is_cancelled_leaves_nothing(
    client: Client, valkey_url: str, namespace: str
) -> None:
    plain = client.topic("t")
    plain.configure(keep_finished="1h")
    plain.add("tea", id="7")

    async def wait() -> None:
        async with AsyncClient(valkey_url, namespace=namespace) as other:
            topic = other.topic("t")
            first, second = (asyncio.ensure_future(topic.result("7", wait=60)) for _ in range(2))
            await asyncio.to_thread(until, lambda: subscribers(client, plain) == 1)
            first.cancel()
            await asyncio.wait({first})
            job = await topic.pop()
            assert job is not None
            await topic.finish(job, result=[1])
            assert await second == [1]
            await asyncio.to_thread(until, lambda: subscribers(client, plain) == 0)

    asyncio.run(wait())


def test_it_does_not_wait_for_what_will_not_come(client: Client) -> None:
    topic = client.topic("t")
    with pytest.raises(NoResult) as refused:
        topic.result("never", wait=None)
    assert refused.value.reason == "unknown"


def test_the_end_of_the_wait_is_an_error(client: Client) -> None:
    topic = client.topic("t")
    topic.add("tea", id="7", delay=60)
    with pytest.raises(NoResult, match="is delayed, not finished") as refused:
        topic.result("7", wait=0.01)
    assert refused.value.reason == "unfinished"
    assert "wait=" not in str(refused.value)
    with pytest.raises(NoResult, match=r'is delayed, not finished; give wait=, such as wait="30s"\.$'):
        topic.result("7")


def test_a_topic_with_partitions_keeps_results(client: Client) -> None:
    topic = client.topic("parted", partitions=3)
    topic.configure(keep_finished="1h")
    topic.add_many(list(range(20)))
    ids = [job.id for job in topic.list()]
    with ThreadPoolExecutor() as pool:
        found = pool.submit(topic.result, ids[5], wait=60)
        done = 0
        while done < 20:
            for job in topic.pop_many(20):
                topic.finish(job, result=job.id)
                done += 1
        assert found.result(LONGEST_S) == ids[5]
    assert [job.result for job in topic.list("finished")] == [job.id for job in topic.list("finished")]
    assert topic.stats().finished_kept == 20
