"""Ends of jobs: each once, in the order of their moments, and no gap without a word."""

from __future__ import annotations

import inspect
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from story.adapters import Adapter
from tarry import BadInput, End, NewJob, UnknownEnds
from tarry.clients.testing import Clock
from tarry.errors import NotKept
from tarry.verbs.jobs import settle

ALWAYS = datetime(1970, 1, 1, tzinfo=timezone.utc)


async def read(adapter: Adapter, topic: Any, since: Any) -> tuple[list[Any], str]:
    """What is kept after ``since``, and where the reader is then. The reader comes a microsecond after what it reads."""
    ends = topic.ends(since=since, wait=0)
    if inspect.isawaitable(ends):
        ends = await ends
    return await adapter.walk(ends), ends.position


async def finish(topic: Any, id: str, result: Any = None) -> None:
    await topic.add("tea", id=id)
    await topic.finish(await topic.pop(), result=result)


async def bury(topic: Any, id: str, reason: str = "spilt") -> None:
    await topic.add("tea", id=id)
    await topic.bury(await topic.pop(), reason=reason)


def names(found: list[Any]) -> list[str]:
    return [f"{one.job.id} {one.state}" if isinstance(one, End) else "?" for one in found]


async def test_ends_come_in_their_order_and_once(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1d")
    clock.advance("1s")
    begin = clock.now
    await finish(topic, "b", {"sum": 3})
    found, between = await read(adapter, topic, begin)
    assert found == [], "more may end in this microsecond"
    await finish(topic, "a")
    clock.advance("1s")
    await bury(topic, "c")
    await topic.add("tea", id="d", max_lateness="1s")
    clock.advance("2s")
    assert await topic.pop() is None
    clock.advance("1s")
    found, position = await read(adapter, topic, begin)
    assert names(found) == ["a finished", "b finished", "c dead", "d late"]
    assert found[1].job.result == {"sum": 3}
    assert (found[0].at, found[2].at) == (begin, begin + timedelta(seconds=1))
    assert found[2].job.reason == "spilt"
    assert found[0].id.startswith(f"{int(begin.timestamp() * 1_000_000)}-a-")
    for at, end in enumerate(found):
        assert names((await read(adapter, topic, end.id))[0]) == names(found[at + 1 :])
    await finish(topic, "e")
    clock.advance("1s")
    assert names((await read(adapter, topic, position))[0]) == ["e finished"]
    assert names((await read(adapter, topic, between))[0])[:2] == ["a finished", "b finished"]


async def test_without_since_it_begins_now(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1d")
    await finish(topic, "a")
    clock.advance("1s")
    found, position = await read(adapter, topic, None)
    assert found == []
    await finish(topic, "b")
    clock.advance("1s")
    assert names((await read(adapter, topic, position))[0]) == ["b finished"]


async def test_where_nothing_is_kept_it_is_refused(adapter: Adapter, topic: Any) -> None:
    await bury(topic, "a")
    with pytest.raises(NotKept, match=r'topic\.configure\(keep_finished="1d"\)') as refused:
        await read(adapter, topic, None)
    assert refused.value.topic == "测试"
    for since in ("yesterday", "7-", "-7", 7, "12345678901234567890", "1-\n-1"):
        with pytest.raises(BadInput, match="since"):
            await read(adapter, topic, since)


async def test_what_is_no_longer_kept_is_said(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1h")
    clock.advance("1s")
    _, position = await read(adapter, topic, None)
    await bury(topic, "a")
    clock.advance("1s")
    died = clock.now - timedelta(seconds=1)
    await bury(topic, "b")
    clock.advance("1s")
    seen, _ = await read(adapter, topic, position)
    await topic.kick("a")
    found, _ = await read(adapter, topic, position)
    assert names(found) == ["?", "b dead"]
    assert found[0].since <= died <= found[0].until
    assert names((await read(adapter, topic, seen[0].id))[0]) == ["b dead"], "who has read it misses nothing"
    await topic.delete("b")
    assert names((await read(adapter, topic, seen[0].id))[0]) == ["?"]
    assert (await read(adapter, topic, seen[1].id))[0] == []


async def test_a_gap_begins_where_the_reader_is(adapter: Adapter, topic: Any, clock: Clock) -> None:
    """Not at one that it has passed: the beginning of the keeping here."""
    await topic.configure(keep_finished="1h")
    clock.advance("1s")
    reached = clock.now
    _, position = await read(adapter, topic, None)
    clock.advance("2h")
    [gap], _ = await read(adapter, topic, position)
    assert (gap.since, gap.until) == (reached, clock.now - timedelta(hours=1, microseconds=-1))


@pytest.mark.parametrize("how", ["purge", "purge all", "expire", "replace", "again", "pop by id", "off and on"])
async def test_each_way_to_lose_an_end_is_said(adapter: Adapter, topic: Any, clock: Clock, how: str) -> None:
    await topic.configure(keep_finished="1h")
    clock.advance("1s")
    _, before = await read(adapter, topic, None)
    await (bury if how in ("replace", "pop by id") else finish)(topic, "a")
    clock.advance("1s")
    [end], after = await read(adapter, topic, before)
    if how == "purge":
        await topic.purge("finished")
    elif how == "purge all":
        await topic.purge()
    elif how == "expire":
        clock.advance("1h")
    elif how == "replace":
        await topic.add("tea", id="a", if_exists="replace")
    elif how == "again":
        await finish(topic, "a")
    elif how == "pop by id":
        await adapter.run(topic.verbs.pop_by_id("a", ["dead"]))
    else:
        await topic.configure(keep_finished=None)
        await topic.configure(keep_finished="1h")
    clock.advance("1s")
    found, _ = await read(adapter, topic, before)
    assert names(found) == ["?", "a finished"] if how == "again" else ["?"]
    assert found[0].since <= end.at <= found[0].until
    if how not in ("expire", "off and on"):
        assert "?" not in names((await read(adapter, topic, end.id))[0]), "who has read it misses nothing"
        assert "?" not in names((await read(adapter, topic, after))[0])


async def test_a_gap_is_said_once_to_one_reader(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1h")
    clock.advance("1s")
    for ms in range(9):
        await topic.add_many([NewJob("tea", id=f"{50 * ms + n:03}") for n in range(50)])
        await topic.finish_many(await topic.pop_many(50))
        clock.advance("1ms")
    await bury(topic, "last")
    await topic.kick("last")
    clock.advance("1ms")
    found, _ = await read(adapter, topic, ALWAYS)
    assert isinstance(found[0], UnknownEnds)
    assert names(found[1:]) == [f"{n:03} finished" for n in range(450)]


async def test_jobs_that_are_kept_for_different_times_are_in_one_order(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(keep_finished="1h")
    clock.advance("1s")
    begin = clock.now
    for n in range(9):
        await topic.add("tea", id=str(n))
        job = await topic.pop()
        own = (None, b"7200000000", b"1800000000")[n % 3]
        given = None if own is None else [own + b"n"]
        await adapter.run(topic.verbs.settle(settle.FINISH, [job], results=given))
        clock.advance("1s")
        if n == 4:
            await topic.configure(keep_finished="10m")
    found, _ = await read(adapter, topic, begin)
    assert names(found) == [f"{n} finished" for n in range(9)]
    await topic.add("tea", id="none")
    await adapter.run(topic.verbs.settle(settle.FINISH, [await topic.pop()], results=[b"0n"]))
    clock.advance("1s")
    assert names((await read(adapter, topic, found[-1].id))[0]) == ["?"], "one that is not kept"
    clock.advance("25m")
    assert names((await read(adapter, topic, begin))[0]) == ["?", *(f"{n} finished" for n in (0, 1, 2, 3, 4, 5, 7, 8))]
