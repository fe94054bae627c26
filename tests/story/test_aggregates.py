"""Aggregates for operators: counts of a filter, what happened lately."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from story.adapters import Adapter
from story.test_add import now
from tarry import NewJob
from tarry.clients.testing import Clock


async def test_a_filter_counts_the_jobs_that_it_lists(adapter: Adapter, topic: Any, clock: Clock) -> None:
    began = now(clock)
    keys = [None, "a", "b"]
    await topic.add_many([NewJob(n, id=str(n), at=began + timedelta(seconds=n), key=keys[n % 3]) for n in range(10)])
    await topic.add("now", at=began + timedelta(milliseconds=4500))
    clock.advance("4500ms")
    for state in (None, "delayed", "ready"):
        for after in (None, began, began + timedelta(seconds=3), began + timedelta(seconds=7)):
            for before in (None, began + timedelta(seconds=4), now(clock), began + timedelta(seconds=8)):
                counted = await adapter.run(topic.verbs.count_due_between(now(clock), state, after, before))
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
