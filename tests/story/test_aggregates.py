"""Aggregates for operators: causes of death, counts of a filter, what happened lately."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from story.adapters import Adapter
from story.test_add import US, now
from tarry import NewJob
from tarry.clients.testing import Clock
from tarry.verbs.jobs import aggregates


async def die(topic: Any, clock: Clock, id: str, error: str) -> None:
    """Of its only attempt."""
    await topic.add(0, id=id, max_attempts=1)
    await topic.release(await topic.pop(), 0, reason=error)
    clock.advance(US)


async def test_dead_jobs_are_grouped_by_reason_and_last_error_line(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await die(topic, clock, "1", "declined\nTraceback\n  line 7\nValueError: no card\n")
    await die(topic, clock, "2", "declined\nTraceback\n  line 9\nValueError: no card")
    await die(topic, clock, "3", "declined\nTraceback\nValueError: no money")
    await topic.add(0, id="4")
    await topic.bury(await topic.pop(), "测试")
    clock.advance(US)
    await die(topic, clock, "5", "测试")
    found = await adapter.run(aggregates.causes(topic.verbs))
    assert (found.dead, found.looked_at) == (5, 5)
    assert [(cause.reason, cause.error, cause.count, cause.id) for cause in found.groups] == [
        ("attempts exhausted", "ValueError: no card", 2, "2"),
        ("attempts exhausted", "测试", 1, "5"),
        ("测试", "", 1, "4"),
        ("attempts exhausted", "ValueError: no money", 1, "3"),
    ]
    assert found.groups[0].last - found.groups[0].first == US


async def test_only_the_latest_dead_jobs_are_examined(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for n in range(5):
        await die(topic, clock, str(n), f"reason {n}")
    found = await adapter.run(aggregates.causes(topic.verbs, 2))
    assert (found.dead, found.looked_at) == (5, 2)
    assert [cause.id for cause in found.groups] == ["4", "3"]


async def test_a_filter_counts_the_jobs_that_it_lists(adapter: Adapter, topic: Any, clock: Clock) -> None:
    began = now(clock)
    await topic.add_many([NewJob(n, id=str(n), at=began + timedelta(seconds=n)) for n in range(10)])
    clock.advance("4500ms")
    for state in (None, "delayed", "ready"):
        for after in (None, began, began + timedelta(seconds=3), began + timedelta(seconds=7)):
            for before in (None, began + timedelta(seconds=4), began + timedelta(seconds=8)):
                counted = await adapter.run(aggregates.due_between(topic.verbs, now(clock), state, after, before))
                listed = await topic.list(state, due_after=after, due_before=before)
                assert counted == len(listed), (state, after, before)


async def test_lateness_can_be_computed_since_an_earlier_snapshot(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add(0)
    clock.advance("1h")
    await topic.pop()
    before = (await topic.stats()).lateness
    await topic.add_many([1, 2, 3])
    clock.advance("10ms")
    await topic.pop_many(3)
    lately = (await topic.stats()).lateness.since(before)
    assert lately.count == 3
    assert timedelta(milliseconds=10) <= lately.max < timedelta(milliseconds=12)


async def test_a_histogram_may_start_at_a_given_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    began = now(clock)
    await topic.add_many([0, 1, 2], delay="10m")
    clock.advance("5m")
    shown = await topic.histogram(start=began, span="20m", buckets=2)
    assert (shown.start, shown.before, shown.counts, shown.after) == (began, 0, (0, 3), 0)
    assert shown.now == now(clock)


async def test_a_job_shows_its_last_receipt(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add(0, id="a")
    assert (await topic.get("a")).receipt is None
    job = await topic.pop()
    assert (await topic.get("a")).receipt == job.receipt
