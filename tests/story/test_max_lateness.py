"""Jobs that are later than ``max_lateness`` are dead as too late."""

from __future__ import annotations

from typing import Any

import pytest

from story.adapters import Adapter
from story.drain import MINUTE, drain
from tarry import NewJob
from tarry.clients.testing import Clock
from tarry.errors import StaleReceipt


async def test_a_job_beyond_max_lateness_is_dead_as_too_late(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(max_lateness="5m")
    await topic.add("old", id="old")
    clock.advance("1m")
    await topic.add("new", id="new")
    clock.advance("4m0.001s")
    job = await topic.pop()
    assert job.id == "new"
    info = await topic.get("old")
    assert (info.state, info.reason, info.attempts) == ("dead", "too late", 0)
    stats = await topic.stats()
    assert (stats.died, stats.too_late, stats.refused) == (1, 1, 0)
    assert await topic.kick("old") == "dead"
    assert (await topic.pop()).id == "old", "kicked, it is due again"


async def test_the_max_lateness_of_a_job_beats_that_of_its_topic(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("a", id="a", max_lateness=1, headers={"k": "v"})
    await topic.add_many([NewJob(b"raw", id="b", max_lateness="1h"), NewJob("c", id="c")], max_lateness=2)
    await topic.configure(max_lateness=10)
    await topic.add("d", id="d")
    clock.advance(1)
    clock.advance(1)
    a = await topic.get("a")
    assert (a.body, a.headers) == ("a", {"k": "v"})
    clock.advance(30)
    job = await topic.pop()
    assert (job.id, job.body) == ("b", b"raw")
    assert await topic.pop() is None
    assert [info.reason for info in await topic.get_many(["a", "c", "d"])] == ["too late"] * 3


async def test_many_late_jobs_do_not_delay_the_others(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(450), max_lateness=1)
    clock.advance(2)
    await topic.add("fresh")
    assert (await topic.pop()).body == "fresh"
    stats = await topic.stats()
    assert (stats.dead, stats.died, stats.too_late) == (450, 450, 450)


async def test_a_job_that_waits_too_long_for_a_limit_is_too_late(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="1/10s", max_lateness=15)
    await topic.add_many([NewJob(n, id=str(n)) for n in range(4)])
    assert len(await drain(topic, clock, MINUTE)) == 1
    assert (await topic.get("3")).reason == "too late"


async def test_a_burial_counts_as_too_late_by_its_reason(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(range(3))
    jobs = await topic.pop_many(3)
    await topic.bury(jobs[0], reason="too late")  # as a worker whose handler has a maximum does
    await topic.bury(jobs[1], reason="too late for tea")
    await topic.bury(jobs[2], reason="not too late")
    stats = await topic.stats()
    assert (stats.died, stats.too_late, stats.refused) == (3, 1, 0)


async def test_a_late_finish_is_refused_and_no_job_is_too_late(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(max_lateness="5m")
    await topic.add("tea")
    job = await topic.pop(ttr=1)
    clock.advance(2)
    with pytest.raises(StaleReceipt):
        await topic.finish(job)
    stats = await topic.stats()
    assert (stats.died, stats.too_late, stats.refused) == (0, 0, 1)
