"""Jobs with a key: a limit, a rate and turns for each key. A topic without such settings hands them out as all others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from tarry import BadInput, NewJob, StaleReceipt
from tarry.clients.testing import Clock


async def ids_of(topic: Any, n: int = 100) -> list[str]:
    return [job.id for job in await topic.pop_many(n)]


async def add(topic: Any, clock: Clock, words: str) -> None:
    """Jobs in turn, such as ``a1 b1 -1``: the letter is the key, ``-`` none."""
    for id in words.split():
        await topic.add(id, id=id, key=None if id[0] == "-" else id[0])
        clock.advance("1ms")


async def test_no_more_jobs_of_a_key_are_reserved_than_its_limit(adapter: Adapter, topic: Any, clock: Clock) -> None:
    settings = await topic.configure(key_concurrency=1)
    assert (settings.key_concurrency, settings.key_rate, settings.fair) == (1, None, False)
    await add(topic, clock, "a1 a2 a3 b1 -1 -2")
    jobs = await topic.pop_many(100)
    assert [job.id for job in jobs] == ["a1", "b1", "-1", "-2"]
    assert [job.key for job in jobs] == ["a", "b", None, None]
    assert await ids_of(topic) == []
    await topic.finish(jobs[0])
    [second] = await topic.pop_many(100)
    assert second.id == "a2"
    await topic.release(second, delay=60)
    assert await ids_of(topic) == ["a3"]
    await topic.add("a6", key="a")
    stats = await topic.stats()
    assert stats.limited is not None
    assert stats.limited.reason == "key"
    await topic.delete((await topic.list("ready")).jobs[0].id)
    stats = await topic.stats()
    assert (stats.ready, stats.delayed, stats.reserved, stats.finished) == (0, 1, 4, 1)
    assert (await topic.check()).ok


async def test_a_key_goes_on_where_its_place_is_free_however_that_came(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(key_concurrency=1)
    await add(topic, clock, "a1 a2 a3 a4 a5")
    await topic.pop(ttr=5)
    clock.advance(6)
    assert (await topic.pop()).id == "a2", "the first one timed out, and is due later than the second"
    await topic.delete("a2")
    third = await topic.pop()
    assert third.id == "a3"
    await topic.bury(third)
    await topic.reschedule("a4", delay=60)
    assert (await topic.pop()).id == "a5"
    await topic.configure(key_concurrency=None)
    assert await ids_of(topic) == ["a1"]
    assert (await topic.check()).ok


async def test_keys_take_turns_and_one_that_comes_is_soon_served(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(fair=True)
    await topic.add_many(range(1000), key="flood")
    await add(topic, clock, "a1 a2 -1 -2")
    assert [job.key for job in await topic.pop_many(5)] == ["flood", "a", None, "flood", "a"]
    await add(topic, clock, "b1")
    assert "b1" in await ids_of(topic, 3)
    assert [job.body for job in await topic.pop_many(3)] == [3, 4, 5]


async def test_of_a_key_no_more_jobs_begin_than_its_rate(adapter: Adapter, topic: Any, clock: Clock) -> None:
    assert str((await topic.configure(key_rate="5/s")).key_rate) == "5/1s"
    await add(topic, clock, "a1 a2 a3 b1")
    assert await ids_of(topic) == ["a1", "b1"]
    clock.advance("199ms")
    assert await ids_of(topic) == []
    clock.advance("1ms")
    assert await ids_of(topic) == ["a2"]
    before = clock.now
    assert (await topic.pop(wait=5)).id == "a3"
    assert 0.15 < (clock.now - before).total_seconds() <= 0.21


async def test_one_key_is_paused(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await add(topic, clock, "a1 b1 a2 b2")
    await topic.pause(30, key="a")
    assert await ids_of(topic) == ["b1", "b2"]
    clock.advance(30)
    assert await ids_of(topic, 1) == ["a1"]
    await topic.pause(60, key="a")
    await topic.resume(key="a")
    assert await ids_of(topic) == ["a2"]


async def test_of_a_key_the_highest_priority_comes_first(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for id, priority in [("a0", 0), ("a3", 3), ("a1", 1), ("b0", 0)]:
        await topic.add(id, id=id, key=id[0], priority=priority)
        clock.advance("1ms")
    await topic.add("later", id="later", key="a", priority=3, delay=60)
    assert await ids_of(topic) == ["a3", "a1", "a0", "b0"]


async def test_an_update_changes_the_key_of_the_next_run(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(key_concurrency=1)
    await add(topic, clock, "a1 a2 b1")
    assert await ids_of(topic) == ["a1", "b1"]
    await topic.add("else", id="a2", key="c", if_exists="update")
    assert await ids_of(topic) == ["a2"]
    assert (await topic.get("a2")).key == "c"


@pytest.mark.parametrize("key", ["k" * 201, "", "a\0b", 7])
async def test_a_wrong_key_is_refused(adapter: Adapter, topic: Any, key: Any) -> None:
    with pytest.raises(BadInput, match="key"):
        await topic.add("tea", key=key)
    assert (await topic.stats()).added == 0


async def test_a_key_without_places_is_a_pause(adapter: Adapter, topic: Any) -> None:
    with pytest.raises(BadInput, match="key_concurrency: 0"):
        await topic.configure(key_concurrency=0)
    with pytest.raises(BadInput, match="key_rate"):
        await topic.configure(key_rate="many")


async def test_the_numbers_of_a_key_say_why_its_jobs_wait(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(key_concurrency=2)
    await add(topic, clock, "a1 a2 a3 b1 -1")
    await topic.add("urgent", id="a4", key="a", priority=3)
    await topic.add("later", id="a5", key="a", delay=60)
    first, *_ = await topic.pop_many(2)
    before = await topic.stats(key="a")
    assert (before.topic, before.key, before.concurrency, before.rate) == (topic.name, "a", 2, None)
    assert (before.delayed, before.ready, before.reserved, before.held_back) == (1, 2, 2, 2)
    assert before.limited is not None
    assert (before.limited.reason, before.limited.until, before.next_run) == ("concurrency", None, None)
    await topic.finish(first)
    after = await topic.stats(key="a")
    assert (after.ready, after.reserved, after.held_back, after.limited, after.next_run) == (2, 1, 1, None, after.now)
    assert (await topic.stats(key="nobody")).next_run is None


async def test_a_key_that_is_paused_or_has_spent_its_rate_says_until_when(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(key_rate="1/10s")
    await add(topic, clock, "a1 a2 b1")
    await topic.pop()
    spent = await topic.stats(key="a")
    assert spent.limited is not None
    assert (spent.limited.reason, spent.held_back, str(spent.rate)) == ("rate", 1, "1/10s")
    assert spent.limited.until == spent.next_run
    await topic.pause("1h", key="a")
    paused = await topic.stats(key="a")
    assert paused.limited is not None
    assert (paused.limited.reason, paused.limited.until, paused.next_run) == ("pause", *[paused.paused_until] * 2)
    await topic.pause(key="later")
    await topic.add("later", key="later", delay=60)
    until = (await topic.stats(key="later")).paused_until
    assert until is not None
    assert until.year == 9999  # until it is resumed
    assert (await topic.stats(key="b")).limited is None


async def test_the_topic_counts_what_its_keys_hold_back(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await add(topic, clock, "a1 a2 a3 a4 b1 b2 -1")
    await topic.add("later", key="a", delay=60)
    for limit, held in [(None, 0), (3, 1), (2, 2), (1, 4)]:
        await topic.configure(key_concurrency=limit)
        job = await topic.pop()  # it finds the turns of the keys again
        await topic.release(job, delay=0)
        assert (await topic.stats()).held_back == held
    await topic.pause(key="b")
    assert (await topic.stats()).held_back == 5
    assert [job.key for job in await topic.pop_many(10)].count("a") == 1
    stats = await topic.stats()
    assert (stats.held_back, stats.ready, stats.delayed) == (5, 5, 1)


async def test_all_jobs_of_a_key_are_deleted(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(key_concurrency=1)
    await topic.add_many(range(250), key="a")
    await add(topic, clock, "a1 b1 -1")
    await topic.add("later", key="a", delay=60)
    job = await topic.pop()
    assert await topic.purge("delayed", key="a") == 1
    dead = await topic.pop()
    await topic.bury(dead)
    assert (job.key, dead.key) == ("a", "b")
    assert await topic.purge("ready", key="a") == 250
    assert (await topic.stats(key="a")).reserved == 1
    assert await topic.purge(key="a") == 1
    stats = await topic.stats()
    assert (stats.delayed, stats.ready, stats.reserved, stats.dead, stats.deleted) == (0, 1, 0, 1, 252)
    with pytest.raises(StaleReceipt):
        await topic.finish(job)
    assert await topic.purge(key="b") == 0
    assert (await topic.check()).ok
    for state in ("dead", "finished", "retrying"):
        with pytest.raises(BadInput, match=r"by their key|is unknown"):
            await topic.purge(state, key="b")
    assert [job.key for job in (await topic.list("dead")).jobs] == ["b"]
    await topic.add("again", key="a")
    assert (await topic.pop(wait=0)).key in ("a", None)


async def test_a_job_that_waits_for_its_key_is_not_late_by_the_workers_but_may_be_too_late(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    """As for the limits of a topic: lateness measures the workers, and max_lateness whether the job is of use."""
    await topic.configure(key_concurrency=1, max_lateness="10m", ttr="1h")
    await add(topic, clock, "a1 a2 a3")
    first = await topic.pop()
    clock.advance("9m")
    await topic.finish(first)
    second = await topic.pop()
    assert second.id == "a2"
    assert (await topic.stats()).lateness.max < timedelta(seconds=1)
    clock.advance("2m")
    await topic.finish(second)
    assert await ids_of(topic) == []
    assert (await topic.get("a3")).reason == "too late"
    assert (await topic.stats()).too_late == 1


async def test_the_busiest_keys_are_those_with_the_most_jobs(adapter: Adapter, topic: Any, clock: Clock) -> None:
    assert await topic.busiest_keys() == ()
    await topic.add_many([NewJob(n, key=f"k{n % 150}") for n in range(450)])
    await topic.add_many(range(20), key="测")
    await topic.add_many(range(10), key="k7\1")
    await topic.pop_many(30)
    found = await topic.busiest_keys(3)
    assert [key.key for key in found] == ["测", "k7\1", "k0"]
    assert [key.ready + key.reserved for key in found] == [20, 10, 3]
    assert len(await topic.busiest_keys(100)) == 100
    with pytest.raises(BadInput, match="limit"):
        await topic.busiest_keys(101)


async def test_a_retry_holds_its_key_where_the_topic_says_so(adapter: Adapter, topic: Any, clock: Clock) -> None:
    assert (await topic.configure(retry_holds_key=True, key_concurrency=2)).retry_holds_key is True
    await add(topic, clock, "a1 a2 a3 a4 b1")
    first, second, *_ = await topic.pop_many(2)
    await topic.release(first, delay=60)
    await topic.finish(second)
    [other] = await topic.pop_many(100)
    assert other.id == "b1", "a has two places, and waits for the retry"
    await topic.finish(other)
    held = await topic.stats(key="a")
    assert (held.delayed, held.ready, held.held_back, held.reserved) == (1, 2, 2, 0)
    assert held.limited is not None
    assert (held.limited.reason, held.limited.until) == ("retry", held.next_run)
    assert (await topic.stats()).held_back == 2
    clock.advance(60)
    assert await ids_of(topic) == ["a1", "a3"]
    clock.advance(61)
    assert await ids_of(topic, 2) == ["a1", "a3"], "both timed out, and come before the others"
    assert (await topic.check()).ok


async def test_retries_that_wait_hold_their_key_only_as_long_as_the_topic_says_so(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(retry_holds_key=True, key_concurrency=3)
    await add(topic, clock, "a1 a2 a3 a4")
    for job in await topic.pop_many(2):
        await topic.release(job, delay=60)
    assert await ids_of(topic) == []
    await topic.configure(retry_holds_key=False)
    key = await topic.stats(key="a")
    assert (key.ready, key.held_back, key.limited) == (2, 0, None)
    assert await ids_of(topic, 1) == ["a3"], "nothing has touched the key since"
    await topic.configure(retry_holds_key=True)
    assert await ids_of(topic) == [], "they hold it again"
    key = await topic.stats(key="a")
    assert (key.ready, key.held_back, key.limited.reason) == (1, 1, "retry")
    clock.advance(60)
    await topic.configure(retry_holds_key=False)
    assert await ids_of(topic) == ["a1", "a2", "a4"], "the retries are still the first of their key"
    assert (await topic.check()).ok


WAYS_OUT = {
    "delete": lambda topic: topic.delete("a1"),
    "purge": lambda topic: topic.purge("delayed"),
    "purge of the retrying": lambda topic: topic.purge("retrying"),
    "purge by key": lambda topic: topic.purge("delayed", key="a"),
    "replace": lambda topic: topic.add("new", id="a1", key="a", delay=60, if_exists="replace"),
    "reschedule": lambda topic: topic.reschedule("a1", delay=90),
    "another key": lambda topic: topic.add("new", id="a1", key="b", if_exists="update"),
}


@pytest.mark.parametrize("way", WAYS_OUT)
async def test_every_way_out_of_a_retry_frees_its_key(adapter: Adapter, topic: Any, clock: Clock, way: str) -> None:
    await topic.configure(retry_holds_key=True)
    await add(topic, clock, "a1 a2")
    await topic.release(await topic.pop(), delay=60)
    assert await ids_of(topic) == []
    await WAYS_OUT[way](topic)
    assert await ids_of(topic) == ["a2"]
    assert (await topic.stats(key="a")).delayed == (1 if way in ("replace", "reschedule") else 0)


async def test_a_retry_that_is_buried_frees_its_key_and_does_not_hold_it_when_kicked(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(retry_holds_key=True)
    await add(topic, clock, "a1 a2 a3")
    await topic.release(await topic.pop(), delay=60)
    clock.advance(60)
    await topic.bury(await topic.pop())
    assert await topic.kick("a1")
    await topic.reschedule("a1", delay=30)
    assert await ids_of(topic) == ["a2", "a3"], "neither dead nor kicked it holds its key"
    clock.advance(30)
    assert await ids_of(topic) == ["a1"]


async def test_a_retry_that_dies_frees_its_key_and_waits_in_line_when_kicked(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(retry_holds_key=True, key_concurrency=1, max_attempts=2)
    await add(topic, clock, "a1 a2 a3")
    await topic.release(await topic.pop(), delay=60)
    clock.advance(60)
    assert await ids_of(topic) == ["a1"]
    clock.advance(61)
    assert await ids_of(topic) == ["a2"], "its last attempt timed out, and the place is free"
    assert (await topic.stats()).dead == 1
    assert await topic.kick("a1")
    assert (await topic.stats(key="a")).held_back == 2
    await topic.delete("a2")
    assert await ids_of(topic) == ["a3"], "it was due before the one that was kicked"
    await topic.delete("a3")
    assert await ids_of(topic) == ["a1"]


async def test_a_retry_that_is_updated_or_paused_goes_on_holding_its_key(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.configure(retry_holds_key=True)
    await add(topic, clock, "a1 a2 a3")
    await topic.release(await topic.pop(), delay=60)
    await topic.add("new", id="a1", if_exists="update")
    await topic.pause(90, key="a")
    clock.advance(61)
    assert await ids_of(topic) == []
    clock.advance(30)
    job = await topic.pop()
    assert (job.id, job.body) == ("a1", "new")
    await topic.release(job, delay=60, counted=False)
    assert await ids_of(topic, 1) == ["a2"], "it is put off, and does not wait for a retry"
    with pytest.raises(BadInput, match="retry_holds_key"):
        await topic.configure(retry_holds_key="yes")
