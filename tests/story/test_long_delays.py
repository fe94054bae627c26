"""Long delays: beyond 2³¹ and 2³² of any unit, ten years, the end of the year 9999."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from story.adapters import Adapter
from story.conftest import Snapshot
from story.test_add import US, now
from tarry import BadInput, NewJob
from tarry.clients.testing import Clock

LAST = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=timezone.utc)
LONG = {
    "ten years": timedelta(days=3652),
    "2^31 ms": timedelta(milliseconds=2**31),
    "2^31 ms + 1 us": timedelta(milliseconds=2**31) + US,
    "2^32 ms": timedelta(milliseconds=2**32),
    "2^31 s": timedelta(seconds=2**31),
    "2^32 s": timedelta(seconds=2**32),
    "2^31 - 1 s and 999999 us": timedelta(seconds=2**31) - US,
}


@pytest.mark.parametrize("delay", LONG.values(), ids=LONG)
async def test_a_long_delay_is_exact(adapter: Adapter, topic: Any, clock: Clock, delay: timedelta) -> None:
    added = await topic.add("tea", delay=delay, id="7")
    assert added.due == now(clock) + delay == (await topic.get("7")).due
    assert (await topic.stats()).next_due == added.due
    clock.advance(delay - US)
    assert await topic.pop() is None
    clock.advance(US)
    job = await topic.pop()
    assert (job.due, job.lateness) == (added.due, timedelta(0))
    await topic.release(job, delay=delay)
    assert (await topic.get("7")).due == now(clock) + delay


@pytest.mark.parametrize("delay", LONG.values(), ids=LONG)
async def test_a_long_delay_can_be_written_in_several_ways(
    adapter: Adapter, topic: Any, clock: Clock, delay: timedelta
) -> None:
    us = delay // US
    assert (await topic.add(1, delay=f"{us}us")).due == now(clock) + delay
    assert (await topic.add(1, at=now(clock) + delay)).due == now(clock) + delay
    assert (await topic.add(1, delay=us / 1e6)).due == now(clock) + delay, "as a float of seconds, to the microsecond"
    await topic.add(1, id="7")
    await topic.reschedule("7", delay=delay)
    assert (await topic.get("7")).due == now(clock) + delay


@pytest.mark.parametrize("offset_us", [1, 31, 32, 33, 63, 64, 999_999])
async def test_due_times_in_9999_are_exact_to_32_microseconds(
    adapter: Adapter, topic: Any, clock: Clock, offset_us: int
) -> None:
    moment = LAST - timedelta(days=1, microseconds=offset_us)
    added = await topic.add("tea", at=moment, id="7")
    assert abs((await topic.get("7")).due - moment) <= 32 * US, "steps of 32 µs in 9999"
    assert added.state == "delayed"


async def test_the_last_second_of_the_year_9999_is_accepted(adapter: Adapter, topic: Any) -> None:
    moment = LAST.replace(microsecond=0)
    assert (await topic.add("tea", at=moment)).due == moment


REFUSED = ["reschedule", "add", "add_many", "atomic"]


@pytest.mark.parametrize("verb", REFUSED)
@pytest.mark.parametrize("delay", ["beyond", "far beyond", "never"])
async def test_times_beyond_the_year_9999_are_refused_before_anything_is_written(
    adapter: Adapter, topic: Any, clock: Clock, written: Snapshot, verb: str, delay: str
) -> None:
    await topic.add("there", id="7", delay=5)
    before = written()
    until_the_end = LAST - now(clock)
    late: Any = {"beyond": until_the_end + timedelta(seconds=1), "far beyond": timedelta.max, "never": 1e300}[delay]
    with pytest.raises(BadInput, match="year 9999"):
        await _ask(topic, verb, late)
    assert written() == before


async def _ask(topic: Any, verb: str, late: Any) -> None:
    match verb:
        case "add":
            await topic.add("tea", delay=late)
        case "reschedule":
            await topic.reschedule("7", delay=late)
        case "add_many":
            await topic.add_many([1, NewJob(2, delay=late), 3])
        case "atomic":
            await topic.add_many([1, NewJob(2, delay=late), 3], atomic=True)


async def test_a_release_beyond_the_year_9999_is_refused_too(
    adapter: Adapter, topic: Any, clock: Clock, written: Snapshot
) -> None:
    await topic.add("tea")
    job = await topic.pop()
    before = written()
    for late in (LAST - now(clock) + timedelta(seconds=1), timedelta.max):
        with pytest.raises(BadInput, match="year 9999"):
            await topic.release(job, delay=late)
    assert written() == before
