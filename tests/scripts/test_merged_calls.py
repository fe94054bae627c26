"""Calls of many tasks in one turn of the loop are one script, and each gets the answer that it would get alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient

Act = Callable[[Any, Any], Coroutine[Any, Any, Any]]


@pytest.fixture
def together(client: TestClient, valkey_url: str, clock: Clock) -> Callable[[Act], Any]:
    """Performs something with an awaiting client's topic, the same one."""

    def perform(act: Act) -> Any:
        async def live() -> Any:
            async with TestAsyncClient(valkey_url, clock, namespace=client.namespace) as awaiting:
                return await act(awaiting, awaiting.topic("t"))

        return asyncio.run(live())

    return perform


def scripts(server: Any) -> int:
    told = server.info("commandstats")
    return sum(told.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


async def pops(topic: Any, n: int) -> list[Any]:
    return await asyncio.gather(*(topic.pop() for _ in range(n)))


def test_pops_of_one_loop_iteration_share_a_script_and_get_different_jobs(
    topic: Any, server: Any, together: Any
) -> None:
    topic.add_many(range(50))

    async def act(client: Any, same: Any) -> tuple[list[Any], int]:
        await same.pop(ttr="1h")  # connected, and its scripts are known
        before = scripts(server)
        jobs = await pops(same, 40)
        spent = scripts(server) - before
        await asyncio.gather(*(job.finish() for job in jobs))
        return jobs, spent

    jobs, spent = together(act)
    assert [job.body for job in jobs] == list(range(1, 41))
    assert all(job.attempt == 1 and job.topic == "t" for job in jobs)
    assert (topic.stats().finished, spent) == (40, 1)


def test_the_first_tasks_get_the_jobs_when_there_are_too_few(topic: Any, together: Any) -> None:
    topic.add_many(range(3))
    found = together(lambda client, same: pops(same, 7))
    assert [job.body if job else None for job in found] == [0, 1, 2, None, None, None, None]
    assert topic.stats().popped == 3


def test_all_tasks_get_jobs_when_bodies_exceed_one_script(topic: Any, together: Any) -> None:
    topic.add_many(["x" * 900_000 for _ in range(9)])
    found = together(lambda client, same: pops(same, 10))
    assert [job is not None for job in found] == [True] * 9 + [False]


def test_all_tasks_get_jobs_behind_damaged_ones(topic: Any, server: Any, together: Any) -> None:
    topic.add_many(range(250))
    ids = [job.id for job in topic.list(limit=250)]
    for id in ids[2:240]:
        server.hset(topic.verbs.keys.jobs, id, b"nothing that anybody wrote")
    found = together(lambda client, same: pops(same, 12))
    assert [job.body for job in found] == [0, 1, *range(240, 250)]


def test_all_tasks_get_jobs_that_a_schedule_adds(client: TestClient, topic: Any, clock: Clock, together: Any) -> None:
    client.schedules.put(topic, "tick", "tick", every="1m")
    topic.add("before", delay="30s")
    topic.add("after", delay="90s")
    clock.advance("2m")
    found = together(lambda client, same: pops(same, 3))
    assert found[0].body == "before"
    assert {job.body for job in found[1:]} == {"tick", "after"}


def test_a_limit_holds_for_pops_that_share_a_script(topic: Any, together: Any) -> None:
    topic.configure(concurrency=4)
    topic.add_many(range(20))
    found = together(lambda client, same: pops(same, 10))
    assert [job is not None for job in found] == [True] * 4 + [False] * 6


def test_pops_with_other_options_use_their_own_script(topic: Any, together: Any) -> None:
    topic.add_many(range(20))

    async def act(client: Any, same: Any) -> Any:
        return await asyncio.gather(same.pop(), same.pop_many(5), same.pop(ttr="1h"), same.pop())

    first, many, longer, last = together(act)
    assert sorted(job.body for job in (first, *many, longer, last)) == list(range(8))
    assert [job.ttr.total_seconds() for job in (first, longer, last)] == [60, 3600, 60]


def test_a_cancelled_task_gives_back_only_its_own_job(topic: Any, together: Any) -> None:
    topic.add_many(range(3))

    async def act(client: Any, same: Any) -> Any:
        await same.stats()
        tasks = [asyncio.ensure_future(same.pop()) for _ in range(3)]
        for _ in range(3):  # all three have asked, and it is on its way
            await asyncio.sleep(0)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, cancelled, last = together(act)
    assert (first.body, last.body) == (0, 2)
    assert isinstance(cancelled, asyncio.CancelledError)
    stats = topic.stats()
    assert (stats.ready, stats.reserved) == (1, 2)
    assert topic.pop().attempt == 1


def test_each_task_reads_its_own_job(topic: Any, together: Any) -> None:
    topic.add_many(tarry.NewJob(id, id=id) for id in ("a", "b"))
    found = together(lambda client, same: asyncio.gather(same.get("a"), same.get("none"), same.get("b")))
    assert [job and (job.id, job.body) for job in found] == [("a", "a"), None, ("b", "b")]
