"""Waiting pops that are cancelled, timed out or closed lose nothing."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import tarry
from faults.blocked_clients import until_blocked
from faults.cancellation import MOMENTS, cancelled_at
from faults.loop_turns import real
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import ServerRefused


async def turns(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def all_ready(at: Any, n: int) -> None:
    stats = at.stats()
    assert (stats.ready, stats.reserved) == (n, 0)
    assert [info.attempts for info in at.list()] == [0] * n
    assert at.check().ok


def test_a_waiting_pop_may_be_cancelled_in_any_loop_iteration(running: ServerProcess, at: Any) -> None:
    at.add("tea")

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        for n in range(60):
            task = asyncio.ensure_future(topic.pop(wait=5))
            await turns(n)
            if task.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                await topic.release(task.result(), delay=0, counted=False)

    real(running.url, story)
    all_ready(at, 1)
    assert at.stats().watching == 0


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_waiting_pop_may_be_cancelled_at_every_suspension(moment: str, running: ServerProcess, at: Any) -> None:
    at.add("tea")

    async def story(client: Any) -> None:
        for k in range(1, 30):
            fresh = tarry.AsyncClient(running.url)
            cut = await cancelled_at(fresh.topic(at.name).pop(wait=5), k, moment)
            if cut.answer is not None:
                await fresh.topic(at.name).release(cut.answer, delay=0, counted=False)
            await fresh.close()
            all_ready(at, 1)
            if not cut.reached:
                return
        raise AssertionError("it never ended")

    real(running.url, story)


@pytest.mark.parametrize("limit", ["timeout", "wait_for"])
def test_a_timed_out_pop_loses_no_job(limit: str, running: ServerProcess, at: Any) -> None:
    async def limited(work: Any, seconds: float) -> Any:
        try:
            if limit == "wait_for":
                return await asyncio.wait_for(work, seconds)
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            return None

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        await topic.add("tea", delay=0.02)
        for n in range(40):
            job = await limited(topic.pop(wait=5), n / 2000)
            if job is not None:
                await topic.release(job, delay=0.003, counted=False)

    real(running.url, story)
    assert at.pop(wait=1).attempt == 1


@pytest.mark.slow
def test_all_but_one_of_a_thousand_waiting_pops_may_be_cancelled(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(1000)]
        await until_blocked(running)
        last = tasks.pop()
        for task in tasks:
            task.cancel()
        await topic.add("tea")
        assert (await last).body == "tea"
        assert all(task.cancelled() for task in await asyncio.wait(tasks) and tasks)
        assert (await topic.stats()).reserved == 1

    real(running.url, story)


def test_each_job_reaches_a_pop_that_was_not_cancelled(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        got: list[Any] = []
        for n in range(40):
            tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(4)]
            await topic.add_many([n, n])
            await turns(n % 20)
            tasks[0].cancel()
            tasks[2].cancel()
            while sum(task.done() and not task.cancelled() for task in tasks) < 2:
                await asyncio.wait([task for task in tasks if not task.done()], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            got += [task.result() for task in tasks if not task.cancelled()]
        assert None not in got
        await topic.finish_many(got)

    real(running.url, story)
    while (job := at.pop()) is not None:
        assert job.attempt == 1
        at.finish(job)
    stats = at.stats()
    assert (stats.finished, stats.ready, stats.reserved, stats.delayed) == (80, 0, 0, 0)


def test_closing_the_client_ends_waiting_pops_with_unavailable(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(20)]
        await until_blocked(running)
        await client.close()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(answer, tarry.Unavailable)
            assert "closed" in str(answer)
        with pytest.raises(tarry.BadInput, match="closed"):
            await topic.pop()

    real(running.url, story)
    assert at.stats().watching == 0


@pytest.mark.slow
def test_closing_in_any_loop_iteration_loses_no_job(running: ServerProcess, at: Any) -> None:
    at.add_many([1, 2, 3])

    async def story(client: Any) -> None:
        for n in range(40):
            fresh = tarry.AsyncClient(running.url)
            topic = fresh.topic(at.name)
            tasks = [asyncio.ensure_future(topic.pop(wait=wait)) for wait in (None, 0, 5)]
            await turns(n)
            await fresh.close()
            for answer in await asyncio.gather(*tasks, return_exceptions=True):
                if not isinstance(answer, Exception):
                    await client.topic(at.name).release(answer, delay=0, counted=False)

    real(running.url, story)
    all_ready(at, 3)
    gc.collect()  # a connection that was left open complains here


def test_closing_twice_or_from_several_tasks_closes_once(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        await client.topic(at.name).stats()
        await asyncio.gather(client.close(), client.close(), client.close())
        await client.close()

    real(running.url, story)


def test_a_connection_that_is_made_while_its_client_closes_is_closed(running: ServerProcess) -> None:
    async def story(client: Any) -> None:
        fresh = tarry.AsyncClient(running.url)
        await fresh.topic("any").stats()
        connecting = asyncio.ensure_future(fresh.engine.runner._connect(running.url))
        await fresh.close()
        with pytest.raises(ServerRefused):
            await connecting

    real(running.url, story)
    gc.collect()  # a connection that was left open complains here
