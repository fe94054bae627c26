"""Cancelling an awaited verb, at any moment, loses nothing and leaves the connection usable."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import tarry
from faults.cancelling import MOMENTS, Cut, cancelled_at
from tarry.clients.aio.topic import AsyncTopic
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.links.embedded.launch import Running
from tarry.verbs import registry

HANG_S = 30
"""No test needs so long; it is there so that a hang is told."""


@dataclass
class Scene:
    """Before the verb, the verb, and what must be true after it."""

    at: Any
    """the topic from the side"""
    jobs: list[Any]
    """held by the client that is cancelled"""


async def nothing(topic: Any) -> list[Any]:
    return []


async def hold_three(topic: Any) -> list[Any]:
    return list(await topic.pop_many(3, ttr="60s"))


def total(at: Any) -> int:
    stats = at.stats()
    return int(stats.delayed + stats.ready + stats.reserved + stats.dead)


def as_before(at: Any, before: dict[str, Any]) -> None:
    """Every job is ready, due when it was, and its attempt was not counted."""
    now = {info.id: info for info in at.list()}
    assert now.keys() == before.keys()
    for id, info in now.items():
        assert (info.state, info.due, info.attempts) == ("ready", before[id].due, 0)


Act = Callable[[Any, list[Any]], Any]
ADDS: dict[str, Act] = {
    "add": lambda topic, _: topic.add("new"),
    "add with an id": lambda topic, _: topic.add("new", id="new"),
    "add replacing": lambda topic, _: topic.add("new", id="job-0", if_exists="replace"),
    "add_many": lambda topic, _: topic.add_many(["new", "newer"]),
}


def beside(topic: Any) -> AsyncTopic[Any]:
    """An empty topic of the same client."""
    return AsyncTopic(topic.engine, topic.engine.origin.verbs("faults-empty", None))


POPS: dict[str, Act] = {
    "pop": lambda topic, _: topic.pop(),
    "pop_many": lambda topic, _: topic.pop_many(3),
    "pop that waits by its own clock": lambda topic, _: topic.pop(wait="1m"),
    "pop of several": lambda topic, _: topic.engine.take([beside(topic), topic], 1, 0, None),
}
SETTLES: dict[str, Act] = {
    "finish": lambda topic, jobs: topic.finish(jobs[0]),
    "finish_many": lambda topic, jobs: topic.finish_many(jobs),
    "touch": lambda topic, jobs: topic.touch(jobs[0]),
    "touch_many": lambda topic, jobs: topic.touch_many(jobs),
    "release": lambda topic, jobs: topic.release(jobs[0]),
    "release_many": lambda topic, jobs: topic.release_many(jobs, "1h"),
    "bury": lambda topic, jobs: topic.bury(jobs[0], "cold"),
    "bury_many": lambda topic, jobs: topic.bury_many(jobs),
}
OTHERS: dict[str, Act] = {
    "kick": lambda topic, _: topic.kick("job-0"),
    "delete": lambda topic, _: topic.delete("job-0"),
    "reschedule": lambda topic, _: topic.reschedule("job-0", delay="1h"),
    "get": lambda topic, _: topic.get("job-0"),
    "list": lambda topic, _: topic.list(),
    "stats": lambda topic, _: topic.stats(),
    "histogram": lambda topic, _: topic.histogram(),
    "check": lambda topic, _: topic.check(),
    "pause": lambda topic, _: topic.pause("1s"),
    "resume": lambda topic, _: topic.resume(),
    "configure": lambda topic, _: topic.configure(max_attempts=9),
    "purge": lambda topic, _: topic.purge(),
    "topics": lambda topic, _: topic.engine.run(registry.known(topic.engine.origin.namespace)),
    "gather": lambda topic, _: asyncio.gather(topic.add("new"), topic.pop(), topic.stats(), topic.pop_many(2)),
}


async def sweep(
    url: str, clock: Clock, direct: TestClient, name: str, act: Act, prepare: Any, moment: str, after: Any
) -> int:
    """Cancels at every suspension in turn, each time with a new client and three jobs; answers how many there were."""
    at = direct.topic(name)
    for k in range(1, 200):
        at.purge()
        at.resume()
        at.add_many([tarry.NewJob(f"job {i}", id=f"job-{i}") for i in range(3)])
        clock.advance("1s")
        before = {info.id: info for info in at.list()}
        client = TestAsyncClient(url, clock)
        topic = client.topic(name)
        jobs = await prepare(topic)
        cut = await asyncio.wait_for(cancelled_at(act_on(act, topic, jobs), k, moment), HANG_S)
        assert (await topic.get("nobody")) is None  # the connection is usable
        await client.close()
        assert at.check().ok
        after(at, cut, before)
        if not cut.cancelled and not cut.reached:
            return k
    raise AssertionError("it never ended")


async def act_on(act: Act, topic: Any, jobs: list[Any]) -> Any:
    return await act(topic, jobs)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", ADDS)
def test_a_cancelled_add_is_done_or_not_done(
    verb: str, moment: str, running: Running, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        new = {"add_many": 2, "add replacing": 0}.get(verb, 1)
        assert total(at) in ((3, 3 + new) if cut.cancelled else (3 + new,))

    assert asyncio.run(sweep(running.url, clock, direct, name, ADDS[verb], nothing, moment, after)) > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", POPS)
def test_what_a_cancelled_pop_took_is_back_as_it_was(
    verb: str, moment: str, running: Running, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        if cut.cancelled:
            as_before(at, before)
        else:
            assert cut.answer
            assert at.stats().reserved == (3 if verb == "pop_many" else 1)

    assert asyncio.run(sweep(running.url, clock, direct, name, POPS[verb], nothing, moment, after)) > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", SETTLES)
def test_a_cancelled_settling_is_done_or_not_done(
    verb: str, moment: str, running: Running, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        gone = {"finish": 1, "finish_many": 3}.get(verb, 0)
        assert total(at) in ((3, 3 - gone) if cut.cancelled else (3 - gone,))
        assert at.stats().stale == 0

    assert asyncio.run(sweep(running.url, clock, direct, name, SETTLES[verb], hold_three, moment, after)) > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", OTHERS)
def test_any_other_verb_may_be_cancelled(
    verb: str, moment: str, running: Running, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        if verb == "gather" and cut.cancelled:  # those of it that had ended are in nobody's hands
            assert total(at) in (3, 4)

    assert asyncio.run(sweep(running.url, clock, direct, name, OTHERS[verb], nothing, moment, after)) > 1


# ── pops that wait, in real time ─────────────────────────────────────────────────────────────────────────────────────


def real(url: str, story: Callable[[Any], Any]) -> Any:
    """A story with a client of its own, in real time, that must not hang."""

    async def told() -> Any:
        client = tarry.AsyncClient(url)
        try:
            async with asyncio.timeout(HANG_S):
                return await story(client)
        finally:
            await client.close()

    return asyncio.run(told(), debug=False)


async def turns(n: int) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


def all_ready(at: Any, n: int) -> None:
    stats = at.stats()
    assert (stats.ready, stats.reserved) == (n, 0)
    assert [info.attempts for info in at.list()] == [0] * n
    assert at.check().ok


@pytest.fixture
def at(running: Running, name: str) -> Any:
    """The topic from the side, in real time."""
    with tarry.Client(running.url) as client:
        yield client.topic(name)


def test_a_waiting_pop_may_be_cancelled_in_any_turn(running: Running, at: Any) -> None:
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
                await topic.release(task.result(), 0, count=False)

    real(running.url, story)
    all_ready(at, 1)
    assert at.stats().watching == 0


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_waiting_pop_may_be_cancelled_at_every_suspension(moment: str, running: Running, at: Any) -> None:
    at.add("tea")

    async def story(client: Any) -> None:
        for k in range(1, 30):
            fresh = tarry.AsyncClient(running.url)
            cut = await cancelled_at(fresh.topic(at.name).pop(wait=5), k, moment)
            if cut.answer is not None:
                await fresh.topic(at.name).release(cut.answer, 0, count=False)
            await fresh.close()
            all_ready(at, 1)
            if not cut.reached:
                return
        raise AssertionError("it never ended")

    real(running.url, story)


@pytest.mark.parametrize("limit", ["timeout", "wait_for"])
def test_a_pop_that_is_timed_out_loses_nothing(limit: str, running: Running, at: Any) -> None:
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
                await topic.release(job, 0.003, count=False)

    real(running.url, story)
    assert at.pop(wait=1).attempt == 1


def test_of_a_thousand_waiting_pops_all_but_one_may_be_cancelled(running: Running, at: Any) -> None:
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


async def until_blocked(running: Running) -> None:
    while not clients_blocked(running):  # noqa: ASYNC110  # the server tells nobody when somebody waits
        await asyncio.sleep(0.001)


def clients_blocked(running: Running) -> int:
    listed = running.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return sum("cmd=blpop" in row and "flags=b" in row for row in listed.decode().splitlines())


def test_of_many_pops_each_job_reaches_one_that_was_not_cancelled(running: Running, at: Any) -> None:
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


# ── closing, and loops that end ──────────────────────────────────────────────────────────────────────────────────────


def test_closing_the_client_tells_those_who_wait(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(20)]
        await until_blocked(running)
        await client.close()
        for answer in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(answer, tarry.Unavailable)
            assert "closed" in str(answer)
        assert await topic.pop() is None  # the next verb opens it again

    real(running.url, story)
    assert at.stats().watching == 0


def test_closing_in_any_turn_loses_nothing(running: Running, at: Any) -> None:
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
                    await topic.release(answer, 0, count=False)
            await fresh.close()

    real(running.url, story)
    all_ready(at, 3)


def test_closing_twice_and_from_two_tasks_is_once(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        await client.topic(at.name).stats()
        await asyncio.gather(client.close(), client.close(), client.close())
        await client.close()

    real(running.url, story)


def test_one_client_serves_two_loops_one_after_the_other(running: Running, at: Any) -> None:
    client = tarry.AsyncClient(running.url)

    async def story(n: int) -> Any:
        topic = client.topic(at.name)
        waiting = asyncio.ensure_future(topic.pop(wait=5))
        await topic.add(n)
        job = await waiting
        await topic.finish(job)
        await client.close()
        return job.body

    assert [asyncio.run(story(n)) for n in range(3)] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_client_serves_two_loops_even_if_the_first_did_not_close_it(running: Running, at: Any) -> None:
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


def test_two_loops_at_once_are_refused_in_words(running: Running, at: Any) -> None:
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
def test_a_loop_that_ends_while_pops_wait_ends(running: Running, at: Any, caplog: pytest.LogCaptureFixture) -> None:
    """``asyncio.run`` cancels all that is left: nothing hangs, nothing complains, nothing is lost."""
    at.add("tea", delay=0.1)

    async def story() -> None:
        client = tarry.AsyncClient(running.url)
        tasks = [asyncio.ensure_future(client.topic(at.name).pop(wait=None)) for _ in range(10)]
        await until_blocked(running)
        del tasks

    asyncio.run(story())
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]
    assert at.pop(wait=2, ttr=1).body == "tea"


def test_verbs_of_one_turn_do_not_disturb_each_other(running: Running, at: Any) -> None:
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
        assert answers[300].created
        assert isinstance(answers[301], tarry.JobExists)
        assert answers[302].body == "new"

    real(running.url, story)
    assert at.stats().finished == 300


def test_an_id_added_twice_in_one_turn_is_where_it_is(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        await topic.stats()
        first, second, third = await asyncio.gather(
            topic.add("tea", id="a"),
            topic.add("milk", id="a"),
            topic.add("salt", id="a", if_exists="keep"),
            return_exceptions=True,
        )
        assert first.created
        assert (second.state, third.state) == ("ready", "ready")

    real(running.url, story)


def test_many_that_are_finished_in_one_turn_fit_into_scripts(running: Running, at: Any) -> None:
    """Nine thousand ids in one script are more than Lua unpacks."""
    at.add_many(range(9000))

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        batches = await asyncio.gather(*[topic.pop_many(1000) for _ in range(9)])
        await asyncio.gather(*[topic.finish_many(jobs) for jobs in batches])

    real(running.url, story)
    assert at.stats().finished == 9000


def test_a_job_finished_twice_in_one_turn_is_counted_once(running: Running, at: Any) -> None:
    at.add("tea")

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        job = await topic.pop()
        await asyncio.gather(topic.finish(job), topic.finish(job), return_exceptions=True)

    real(running.url, story)
    assert at.stats().finished == 1
