"""One awaited client in several event loops, and many verbs in one turn."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

import tarry
from faults.blocked_clients import until_blocked
from faults.loop_turns import real
from tarry.connections.embedded.server_process import ServerProcess


def test_a_client_that_was_closed_in_one_loop_is_closed_in_the_next(running: ServerProcess, at: Any) -> None:
    client = tarry.AsyncClient(running.url)

    async def story() -> Any:
        topic = client.topic(at.name)
        waiting = asyncio.ensure_future(topic.pop(wait=5))
        await topic.add("tea")
        await topic.finish(await waiting)
        await client.close()

    async def later() -> None:
        with pytest.raises(tarry.BadInput, match="closed"):
            await client.topic(at.name).stats()

    asyncio.run(story())
    asyncio.run(later())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_client_serves_a_second_loop_if_the_first_did_not_close_it(running: ServerProcess, at: Any) -> None:
    client = tarry.AsyncClient(running.url)

    async def story(n: int) -> Any:
        topic = client.topic(at.name)
        waiting = asyncio.ensure_future(topic.pop(wait=5))
        await topic.add(n)
        return (await waiting).body

    async def end() -> None:
        await client.close()

    assert [asyncio.run(story(n)) for n in range(3)] == [0, 1, 2]
    asyncio.run(end())
    gc.collect()  # what those loops left behind complains here


def test_a_second_close_waits_for_the_first(running: ServerProcess, at: Any) -> None:
    """Else a loop could end while connections are still being closed."""

    async def story(client: Any) -> None:
        waiting = [asyncio.ensure_future(client.topic(at.name).pop(wait=None)) for _ in range(10)]
        await until_blocked(running)
        first = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        await client.close()
        await asyncio.sleep(0)
        assert first.done()
        assert all(isinstance(one, tarry.Unavailable) for one in await asyncio.gather(*waiting, return_exceptions=True))

    real(running.url, story)


def test_two_loops_at_once_are_refused_with_a_message(running: ServerProcess, at: Any) -> None:
    client = tarry.AsyncClient(running.url)

    async def inner() -> None:
        with pytest.raises(tarry.BadInput, match="another event loop"):
            await client.topic(at.name).stats()

    async def outer() -> None:
        await client.topic(at.name).stats()
        await asyncio.to_thread(lambda: asyncio.run(inner()))
        assert (await client.topic(at.name).stats()).ready == 0
        await client.close()

    asyncio.run(outer())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_ends_cleanly_while_pops_wait(running: ServerProcess, at: Any, caplog: pytest.LogCaptureFixture) -> None:
    """``asyncio.run`` cancels all that is left: nothing hangs, nothing complains, nothing is lost."""
    tea = at.add("tea", delay="1h")  # somebody has promised to look; and is gone before it is due

    async def story() -> None:
        client = tarry.AsyncClient(running.url)
        tasks = [asyncio.ensure_future(client.topic(at.name).pop(wait=None)) for _ in range(10)]
        await until_blocked(running)
        del tasks

    gc.collect()  # what earlier tests left behind complains now
    caplog.clear()
    asyncio.run(story())
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]
    at.reschedule(tea.id, delay=0)
    assert at.pop(wait=30, ttr=1).body == "tea"


def test_calls_of_one_loop_iteration_do_not_disturb_each_other(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        adds = await asyncio.gather(*[topic.add(n, id=f"job-{n}") for n in range(300)])
        assert [added.id for added in adds] == [f"job-{n}" for n in range(300)]
        jobs = await asyncio.gather(*[topic.pop() for _ in range(300)])
        assert sorted(job.body for job in jobs) == list(range(300))
        answers = await asyncio.gather(
            *[topic.finish(job) for job in jobs],
            topic.add("new", id="new"),
            topic.add("newer", id="new"),
            topic.get("new"),
            topic.delete("nobody"),
            topic.stats(),
            return_exceptions=True,
        )
        assert answers[:300] == [None] * 300
        assert answers[300].is_new
        assert isinstance(answers[301], tarry.JobExists)
        assert answers[302].body == "new"

    real(running.url, story)
    assert at.stats().finished == 300


def test_an_id_added_twice_in_one_loop_iteration_is_added_once(running: ServerProcess, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        await topic.stats()
        first, second, third = await asyncio.gather(
            topic.add("tea", id="a"),
            topic.add("milk", id="a"),
            topic.add("salt", id="a", if_exists="keep"),
            return_exceptions=True,
        )
        assert first.is_new
        assert (second.state, third.state) == ("ready", "ready")

    real(running.url, story)


@pytest.mark.slow
def test_nine_thousand_finishes_in_one_loop_iteration_fit_into_scripts(running: ServerProcess, at: Any) -> None:
    """Nine thousand ids in one script are more than Lua unpacks."""
    at.add_many(range(9000))

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        batches = await asyncio.gather(*[topic.pop_many(1000) for _ in range(9)])
        await asyncio.gather(*[topic.finish_many(jobs) for jobs in batches])

    real(running.url, story)
    assert at.stats().finished == 9000


def test_a_job_finished_twice_in_one_loop_iteration_counts_once(running: ServerProcess, at: Any) -> None:
    at.add("tea")

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        job = await topic.pop()
        await asyncio.gather(topic.finish(job), topic.finish(job), return_exceptions=True)

    real(running.url, story)
    assert at.stats().finished == 1
