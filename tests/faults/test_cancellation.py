"""Every verb, cancelled at every suspension: done or not done, and nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from faults.cancellation import MOMENTS, Cut, cancelled_at
from tarry.clients.awaited.topic import AsyncTopic, pop_first
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs import namespaces
from until import LONGEST_S


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
    return AsyncTopic(topic.engine, topic.engine.config.verbs("faults-empty", None))


POPS: dict[str, Act] = {
    "pop": lambda topic, _: topic.pop(),
    "pop_many": lambda topic, _: topic.pop_many(3),
    "pop that waits by its own clock": lambda topic, _: topic.pop(wait="1m"),
    "pop of several": lambda topic, _: pop_first(topic.engine, [beside(topic), topic], 1, 0, None),
}


SETTLES: dict[str, Act] = {
    "finish": lambda topic, jobs: topic.finish(jobs[0]),
    "finish_many": lambda topic, jobs: topic.finish_many(jobs),
    "touch": lambda topic, jobs: topic.touch(jobs[0]),
    "touch_many": lambda topic, jobs: topic.touch_many(jobs),
    "release": lambda topic, jobs: topic.release(jobs[0]),
    "release_many": lambda topic, jobs: topic.release_many(jobs, delay="1h"),
    "bury": lambda topic, jobs: topic.bury(jobs[0], reason="cold"),
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
    "throughput": lambda topic, _: topic.throughput(),
    "dead_groups": lambda topic, _: topic.dead_groups(),
    "check": lambda topic, _: topic.check(),
    "pause": lambda topic, _: topic.pause("1s"),
    "resume": lambda topic, _: topic.resume(),
    "configure": lambda topic, _: topic.configure(max_attempts=9),
    "purge": lambda topic, _: topic.purge(),
    "topics": lambda topic, _: topic.engine.run(namespaces.list_topics(topic.engine.config.namespace)),
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
        cut = await asyncio.wait_for(cancelled_at(act_on(act, topic, jobs), k, moment), LONGEST_S)
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
def test_a_cancelled_add_is_done_completely_or_not_at_all(
    verb: str, moment: str, running: ServerProcess, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        new = {"add_many": 2, "add replacing": 0}.get(verb, 1)
        assert total(at) in ((3, 3 + new) if cut.cancelled else (3 + new,))

    assert asyncio.run(sweep(running.url, clock, direct, name, ADDS[verb], nothing, moment, after)) > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", POPS)
def test_a_cancelled_pop_puts_its_jobs_back_unchanged(
    verb: str, moment: str, running: ServerProcess, clock: Clock, direct: TestClient, name: str
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
def test_a_cancelled_settlement_is_done_completely_or_not_at_all(
    verb: str, moment: str, running: ServerProcess, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        gone = {"finish": 1, "finish_many": 3}.get(verb, 0)
        assert total(at) in ((3, 3 - gone) if cut.cancelled else (3 - gone,))
        assert at.stats().refused == 0

    assert asyncio.run(sweep(running.url, clock, direct, name, SETTLES[verb], hold_three, moment, after)) > 1


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("verb", OTHERS)
def test_any_other_verb_may_be_cancelled(
    verb: str, moment: str, running: ServerProcess, clock: Clock, direct: TestClient, name: str
) -> None:
    def after(at: Any, cut: Cut, before: Any) -> None:
        if verb == "gather" and cut.cancelled:  # those of it that had ended are in nobody's hands
            assert total(at) in (3, 4)

    assert asyncio.run(sweep(running.url, clock, direct, name, OTHERS[verb], nothing, moment, after)) > 1
