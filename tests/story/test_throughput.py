"""What was added, finished, failed and died in each minute of the last day, whether or not somebody watched."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from tarry.clients.testing import Clock
from tarry.core.requests import Command
from tarry.values.keys import part_key

MINUTE = timedelta(minutes=1)


async def minutes(topic: Any, span: str = "1d") -> list[tuple[int, ...]]:
    """Minutes ago, then the numbers."""
    at = (await topic.stats()).now
    found = await topic.throughput(span=span)
    return [(-((at - one.start) // MINUTE), one.added, one.finished, one.failed, one.died) for one in found]


async def test_each_minute_has_its_numbers(topic: Any, clock: Clock) -> None:
    await topic.add_many(range(5), max_attempts=1)
    await topic.finish_many(await topic.pop_many(2))
    assert await minutes(topic) == [(0, 5, 2, 0, 0)]
    clock.advance("1m")
    await topic.bury(await topic.pop(), reason="no")
    await topic.add("late")
    assert await minutes(topic) == [(-1, 5, 2, 0, 0), (0, 1, 0, 1, 1)]
    clock.advance("1m")
    await topic.release(await topic.pop(), delay=60, counted=False)
    assert await minutes(topic) == [(-2, 5, 2, 0, 0), (-1, 1, 0, 1, 1)], "nothing failed in this one"


async def test_what_is_added_while_nobody_pops_counts_for_the_last_minute(topic: Any, clock: Clock) -> None:
    await topic.add("tea")
    job = await topic.pop()
    await topic.finish(job)
    clock.advance("1h")
    await topic.add_many(range(3))
    assert await minutes(topic) == [(-60, 1, 1, 0, 0), (0, 3, 0, 0, 0)]
    clock.advance("10m")
    await topic.pop()
    assert await minutes(topic) == [(-70, 1, 1, 0, 0), (-1, 3, 0, 0, 0)]


@pytest.mark.slow
async def test_a_day_is_kept_in_bounded_memory(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(range(1501))
    for _ in range(1500):
        await topic.finish(await topic.pop())
        clock.advance("1m")
    await topic.pop()
    found = await minutes(topic)
    assert len(found) == 1439
    assert found == [(-n, 0, 1, 0, 0) for n in range(1439, 0, -1)]
    assert await minutes(topic, "3m") == found[-2:], "the present minute is one of the three"
    key = part_key(topic.verbs.keys, "minutes")
    assert await adapter.run(Command((b"LLEN", key), int)) in range(1441, 1441 + 60 + 3), "a day, and some hours"
    assert await adapter.run(Command((b"MEMORY", b"USAGE", key), int)) < 100_000


@pytest.mark.slow
async def test_a_week_is_kept_by_the_hour_in_bounded_memory(adapter: Adapter, topic: Any, clock: Clock) -> None:
    key, by_hour = part_key(topic.verbs.keys, "minutes"), Counter[int]()
    await topic.add("tea")
    for n in range(9 * 24 * 4):  # nine days, first by quarters of an hour
        await topic.finish(await topic.pop())
        by_hour[clock.us // 3_600_000_000] += 1
        await topic.add("tea")
        clock.advance("15m")
        if n % 200 == 0:
            assert await adapter.run(Command((b"LLEN", key), int)) <= 192 + 96 + 4 + 3
    await topic.pop()
    at = (await topic.stats()).now
    week = await topic.throughput(span="7d")
    day = await topic.throughput(span="1d")
    assert week[-len(day) :] == day, "the last day has its minutes"
    hours = week[: -len(day)]
    assert all(one.start.minute == 0 for one in hours)
    assert at - hours[0].start <= timedelta(days=7)
    whole = [one for one in hours if one.start + timedelta(hours=1) <= at - timedelta(days=1)]
    assert len(whole) in range(6 * 24 - 1, 6 * 24 + 1)
    for one in whole:
        assert one.finished == by_hour[round(one.start.timestamp()) // 3600] == 4, one
    assert sum(one.added for one in whole) == sum(one.finished for one in whole)
    assert sum(one.finished for one in week) == 7 * 96 - round(
        (timedelta(days=7) - (at - hours[0].start)) / timedelta(minutes=15)
    )


@pytest.mark.slow
async def test_minutes_that_are_old_all_at_once_are_folded_in_portions(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    key = part_key(topic.verbs.keys, "minutes")
    await topic.add_many(range(1301))
    for _ in range(1300):
        await topic.finish(await topic.pop())
        clock.advance("1m")
    clock.advance("3d")
    seen = []
    for _ in range(6):
        await topic.release(await topic.pop(), delay=0)
        seen.append(await adapter.run(Command((b"LLEN", key), int)))
        clock.advance("1h")
    assert [before > after for before, after in zip([1301, *seen], seen, strict=False)][:4] == [True] * 4, seen
    assert seen[-1] < 40, "an entry for each hour"
    found = await topic.throughput(span="7d")
    assert sum(one.finished for one in found) == 1300


async def test_nothing_is_kept_of_a_topic_without_hand_outs(topic: Any, clock: Clock) -> None:
    assert await topic.pop() is None
    await topic.add("tea", delay="1h")
    assert await topic.pop() is None
    assert await minutes(topic) == []
