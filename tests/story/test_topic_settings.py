"""A topic as a whole: pause, settings, purge."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import US, now
from story.test_views import fill
from tarry.clients.testing import Clock


async def test_a_paused_topic_hands_out_nothing_and_loses_nothing(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    assert await topic.pause() is None
    clock.advance("1000d")
    assert await topic.pop() is None
    assert await topic.pop(wait="1m") is None
    assert (await topic.stats()).ready == 1
    await topic.resume()
    assert (await topic.stats()).paused_until is None
    assert (await topic.pop()).body == "tea"


async def test_a_pause_may_have_a_duration(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea")
    until = await topic.pause(duration="2m")
    assert until == now(clock) + timedelta(minutes=2) == (await topic.stats()).paused_until
    assert await topic.pop(wait="1m59s") is None
    job = await topic.pop(wait="1m")
    assert (job.body, now(clock)) == ("tea", until)
    assert (await topic.stats()).paused_until is None


async def test_reserved_jobs_can_be_settled_during_a_pause(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(list("ab"))
    a, b = await topic.pop_many(2)
    await topic.pause("1h")
    await topic.finish(a)
    await topic.release(b, delay=0)
    await topic.add("c")
    stats = await topic.stats()
    assert (stats.ready, stats.finished, stats.released) == (2, 1, 1)


async def test_a_reservation_expires_during_a_pause(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea")
    await topic.pop(ttr=10)
    await topic.pause("1h")
    clock.advance("59m")
    assert await topic.pop() is None
    job = await topic.pop(wait="2m")
    assert (job.attempt, job.lateness) == (2, timedelta(minutes=59, seconds=50))


@pytest.mark.parametrize("state", ["delayed", "ready", "reserved", "dead"])
async def test_purge_deletes_all_of_a_state(adapter: Adapter, topic: Any, clock: Clock, state: str) -> None:
    expected = await fill(topic, clock)
    assert await topic.purge(state) == 7
    left = sorted(job.id for job in await topic.list())
    assert left == sorted(id for name, ids in expected.items() if name != state for id in ids)
    assert (await topic.stats()).deleted == 7
    assert await topic.purge(state) == 0


async def test_purge_deletes_everything_at_once(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Promise: Places."""
    await fill(topic, clock)
    held = (await topic.list("reserved")).jobs[0].id
    assert await topic.purge() == 28
    assert (await topic.list()).jobs == ()
    assert await topic.get(held) is None
    await topic.add("new", id=held)
    assert (await topic.pop()).attempt == 1


async def test_purge_deletes_many_jobs_in_steps(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(range(1700), delay=60)
    assert await topic.purge("delayed") == 1700


async def test_dead_jobs_are_kept_thirty_days(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    await topic.bury(await topic.pop(), reason="no")
    clock.advance(timedelta(days=30) - US)
    await topic.pop()
    assert (await topic.get("7")).state == "dead"
    clock.advance(US)
    await topic.pop()
    assert await topic.get("7") is None
    assert (await topic.stats()).swept == 1


@pytest.mark.parametrize(("keep", "days"), [("1d", 1), ("90d", 90), (None, 36500)])
async def test_the_retention_of_dead_jobs_is_configurable_per_topic(
    adapter: Adapter, topic: Any, clock: Clock, keep: str | None, days: int
) -> None:
    settings = await topic.configure(keep_dead=keep)
    assert settings.keep_dead == (timedelta(days=days) if keep else None)
    await topic.add("tea", id="7")
    await topic.bury(await topic.pop(), reason="no")
    clock.advance(timedelta(days=days) - US)
    await topic.pop()
    assert (await topic.get("7")).state == "dead"
    if keep:
        clock.advance(US)
        await topic.pop()
        assert await topic.get("7") is None


async def test_dead_jobs_are_swept_a_few_at_a_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(100))
    await topic.bury_many(await topic.pop_many(100))
    clock.advance("31d")
    left = []
    while (dead := (await topic.stats()).dead) and len(left) < 100:
        left.append(dead)
        await topic.pop()
    assert left[0] == 100
    assert all(0 < before - after <= 16 for before, after in pairwise(left))
    assert (await topic.stats()).swept == 100


async def test_configure_shows_sets_and_resets_them(adapter: Adapter, topic: Any) -> None:
    usual = await topic.configure()
    assert (usual.ttr, usual.max_attempts, usual.keep_dead) == (timedelta(seconds=60), 20, timedelta(days=30))
    own = await topic.configure(ttr="5m", max_attempts=3, keep_dead="7d")
    assert (own.ttr, own.max_attempts, own.keep_dead) == (timedelta(minutes=5), 3, timedelta(days=7))
    assert await topic.configure() == own
    assert (await topic.configure(max_attempts=None)).max_attempts is None
    assert (await topic.configure(ttr=None)).ttr == timedelta(seconds=60)


async def test_the_max_attempts_of_the_topic_hold_for_jobs_without_their_own(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(max_attempts=1)
    await topic.add("own", id="own", max_attempts=2)
    await topic.add("plain", id="plain")
    for job in await topic.pop_many(2):
        await topic.release(job, delay=0)
    assert [info.state for info in await topic.get_many(["own", "plain"])] == ["ready", "dead"]
