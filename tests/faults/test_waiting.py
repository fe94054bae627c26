"""Waiting on a real server, many in one process: one blocked connection, everybody served in order."""

from __future__ import annotations

import asyncio
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tarry
from faults.blocked_clients import async_story, blocked, calls, until_blocked, waiting
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until


@pytest.mark.slow
def test_a_thousand_waiting_pops_share_one_blocked_connection(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(1000)]
        await until_blocked(running)
        assert len(blocked(running)) == 1
        for n in range(10):
            await topic.add_many(range(100 * n, 100 * n + 100))
        jobs = await asyncio.gather(*tasks)
        assert [job.body for job in jobs] == list(range(1000))  # first come, first served

    async_story(running.url, story)
    until(lambda: not blocked(running))
    assert at.stats().watching == 0


def test_a_hundred_threads_share_one_blocked_connection(
    running: ServerProcess, client: tarry.Client, at: Any, threads: ThreadPoolExecutor
) -> None:
    topic = client.topic(at.name)
    pops = [threads.submit(topic.pop, wait=None) for _ in range(100)]
    until(lambda: len(blocked(running)) == 1 and waiting(client) == 100)
    assert len(blocked(running)) == 1
    at.add_many(range(60))
    for n in range(60, 100):
        at.add(n)
    jobs = [pop.result(LONGEST_S) for pop in pops]
    assert sorted(job.body for job in jobs if job) == list(range(100))
    until(lambda: not blocked(running))
    assert at.stats().watching == 0


def test_waiting_threads_are_served_in_order(
    running: ServerProcess, client: tarry.Client, at: Any, threads: ThreadPoolExecutor
) -> None:
    topic, pops = client.topic(at.name), []
    for n in range(8):
        pops.append(threads.submit(topic.pop, wait=None))
        until(lambda n=n: waiting(client) == n + 1)  # type: ignore[misc]
    for n in range(8):
        at.add(n)
        job = pops[n].result(LONGEST_S)
        assert job is not None
        assert job.body == n


@pytest.mark.slow
def test_sixteen_threads_use_one_client(client: tarry.Client, at: Any, threads: ThreadPoolExecutor) -> None:
    topic = client.topic(at.name)

    def work(worker: int) -> list[Any]:
        done = []
        for n in range(40):
            topic.add([worker, n], delay=random.choice([0, 0, 0.002]))
            job = topic.pop(wait=LONGEST_S)
            assert job is not None
            done.append(tuple(job.body))
            topic.finish(job)
        return done

    done = [pair for work_done in threads.map(work, range(16)) for pair in work_done]
    assert sorted(done) == [(worker, n) for worker in range(16) for n in range(40)]
    stats = at.stats()
    assert (stats.finished, stats.ready, stats.reserved, stats.watching) == (640, 0, 0, 0)


def test_a_wait_for_several_topics_takes_the_first_ready_job(
    client: tarry.Client, at: Any, name: str, threads: ThreadPoolExecutor, running: ServerProcess
) -> None:
    names = [f"{name}-{n}" for n in range(3)]
    pop = threads.submit(client.pop, *names, wait=None)
    until(lambda: blocked(running))
    client.topic(names[1]).add("tea")
    job = pop.result(LONGEST_S)
    assert job is not None
    assert (job.topic, job.body) == (names[1], "tea")
    for n in (2, 0, 1):
        client.topic(names[n]).add(n)
    got = [client.pop(*names, wait=1) for _ in names]
    assert [job.body for job in got if job] == [0, 1, 2]
    assert [client.topic(one).stats().watching for one in names] == [0, 0, 0]


def test_a_topic_named_twice_is_waited_for_once(client: tarry.Client, at: Any) -> None:
    at.add_many(["tea", "milk"])
    job = client.pop(at.name, at.name, wait=1)
    assert job is not None
    assert (job.body, at.stats().ready, at.stats().reserved) == ("tea", 1, 1)


def test_two_waiting_pops_with_different_ttrs_get_a_job_each(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        for _ in range(10):
            one = asyncio.ensure_future(topic.pop(wait=None, ttr="1m"))
            two = asyncio.ensure_future(topic.pop(wait=None, ttr="2m"))
            await until_blocked(running)
            await topic.add("a", delay=0.003)
            await topic.add("b")
            jobs = await asyncio.gather(one, two)
            assert [job.ttr.total_seconds() for job in jobs] == [60, 120]
            await topic.finish_many(jobs)

    async_story(running.url, story)
    assert at.stats().watching == 0


@pytest.mark.slow
def test_a_job_added_by_another_process_wakes_a_waiting_pop(
    running: ServerProcess, at: Any, threads: ThreadPoolExecutor, python_command: Path
) -> None:
    with tarry.Client(running.url) as client:
        pop = threads.submit(client.topic(at.name).pop, wait=None)
        until(lambda: blocked(running))
        script = f"import tarry; tarry.Client({running.url!r}).topic({at.name!r}).add('tea', delay=0.05)"
        subprocess.run([python_command, "-c", script], check=True, timeout=LONGEST_S)
        job = pop.result(LONGEST_S)
        assert job is not None
        assert job.body == "tea"
        assert job.lateness.total_seconds() >= 0


def test_a_pop_never_returns_none_when_a_job_is_ready(client: tarry.Client, at: Any) -> None:
    """The job is due exactly when, or a moment before, the wait is over."""
    topic = client.topic(at.name)
    for n in range(60):
        wait = n / 5000
        at.add(n, delay=wait)
        job = topic.pop(wait=wait or 0.0001)
        assert job is not None
        assert job.body == n
        topic.finish(job)


def test_an_async_pop_never_returns_none_when_a_job_is_ready(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)

        async def add_and_pop(n: int) -> None:
            wait = n / 2000
            await topic.add(n, delay=wait)
            job = await topic.pop(wait=wait or 0.0001)
            assert job is not None
            await topic.finish(job)

        for n in range(40):
            await add_and_pop(n)
        await asyncio.gather(*[add_and_pop(n) for n in range(40)])

    async_story(running.url, story)
    assert at.stats().finished == 80


def test_a_token_that_arrives_as_a_wait_ends_wakes_another_consumer(
    running: ServerProcess, client: tarry.Client, at: Any, threads: ThreadPoolExecutor
) -> None:
    """Short waits end while jobs come: a consumer that waits for ever gets at once what they do not take."""
    patient = threads.submit(lambda: [client.topic(at.name).pop(wait=None) for _ in range(60)])
    with tarry.Client(running.url) as other:

        def hasty() -> int:
            got = 0
            while not patient.done() and got < 60:
                job = other.topic(at.name).pop(wait=random.uniform(0.0005, 0.003))
                if job is not None:
                    other.topic(at.name).release(job, delay=0, counted=False)
                    got += 1
            return got

        hurrying = threads.submit(hasty)
        for n in range(60):
            at.add(n, delay=random.uniform(0, 0.004))
        assert len({job.id for job in patient.result(LONGEST_S) if job}) == 60
        hurrying.result(LONGEST_S)
    assert at.stats().reserved == 60


def test_seats_are_given_back_when_no_pop_waits(running: ServerProcess, client: tarry.Client, at: Any) -> None:
    at.add("tea", delay="5s")
    assert client.topic(at.name).pop(wait=0.02) is None
    assert (at.stats().watching, blocked(running)) == (0, [])

    async def story(client: Any) -> None:
        assert await client.topic(at.name).pop(wait=0.02) is None

    async_story(running.url, story)
    assert at.stats().watching == 0


def test_a_waiting_pop_does_not_poll(running: ServerProcess, at: Any) -> None:
    """Promise: Idle costs nothing."""
    at.add("tea", delay="1d")
    before = calls(running)

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        await asyncio.gather(*[topic.pop(wait=0.4) for _ in range(50)])

    async_story(running.url, story)
    assert calls(running) - before <= 25  # a first look, a last look, the way in and out; not one a moment
