"""Jobs that are later than ``max_lateness`` are dead as stale."""

from __future__ import annotations

from typing import Any

from story.adapters import Adapter
from story.drain import MINUTE, drain
from tarry import NewJob
from tarry.clients.testing import Clock


async def test_a_job_beyond_max_lateness_is_dead_as_stale(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(max_lateness="5m")
    await topic.add("old", id="old")
    clock.advance("1m")
    await topic.add("new", id="new")
    clock.advance("4m0.001s")
    job = await topic.pop()
    assert job.id == "new"
    info = await topic.get("old")
    assert (info.state, info.reason, info.attempts) == ("dead", "stale", 0)
    assert (await topic.stats()).died == 1
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
    assert [info.reason for info in await topic.get_many(["a", "c", "d"])] == ["stale"] * 3


async def test_many_stale_jobs_do_not_delay_the_others(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(450), max_lateness=1)
    clock.advance(2)
    await topic.add("fresh")
    assert (await topic.pop()).body == "fresh"
    assert (await topic.stats()).dead == 450


async def test_a_job_that_waits_too_long_for_a_limit_is_stale_too(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(rate="1/10s", max_lateness=15)
    await topic.add_many([NewJob(n, id=str(n)) for n in range(4)])
    assert len(await drain(topic, clock, MINUTE)) == 1
    assert (await topic.get("3")).reason == "stale"
