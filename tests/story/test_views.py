"""Views of a topic. They change nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from story.adapters import Adapter
from story.conftest import Snapshot
from story.test_add import US, now
from tarry import NewJob
from tarry.clients.testing import Clock


async def fill(topic: Any, clock: Clock) -> dict[str, list[str]]:
    """Seven jobs in each state, one of the ready ones a reservation that ran out; answers the ids of each in order."""
    await topic.add_many([NewJob(n, id=f"dead{n}") for n in range(7)])
    for job in await topic.pop_many(7):
        await topic.bury(job, reason="no")
        clock.advance(US)
    await topic.add("ran out", id="ready0")
    await topic.pop(ttr=1)
    await topic.add_many([NewJob(n, id=f"reserved{n}") for n in range(7)])
    await topic.pop_many(7, ttr="1h")
    clock.advance(2)
    await topic.add_many([NewJob(n, id=f"ready{n}") for n in range(1, 7)])
    await topic.add_many([NewJob(n, id=f"delayed{n}", delay=60 * (n + 1)) for n in range(7)])
    clock.advance(timedelta(microseconds=7))
    return {state: [f"{state}{n}" for n in range(7)] for state in ("delayed", "ready", "reserved", "dead")}


async def pages(topic: Any, state: str | None, **options: Any) -> list[str]:
    found, cursor = [], None
    while True:
        page = await topic.list(state, cursor=cursor, **options)
        assert len(page) <= options.get("limit", 100)
        found += [job.id for job in page]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_jobs_of_a_state_are_listed_in_pages(
    adapter: Adapter, topic: Any, clock: Clock, written: Snapshot
) -> None:
    by_state, before = await fill(topic, clock), written()
    for state in ("delayed", "ready", "reserved", "dead"):
        for limit in (1, 2, 3, 6, 7, 8, 100):
            found, expected = await pages(topic, state, limit=limit), by_state[state]
            # the ready lie in two places: what is due, and what ran out
            assert (sorted(found) if state == "ready" else found) == expected, (state, limit)
        assert {job.state for job in await topic.list(state)} == {state}
    assert written() == before, "looking changes nothing"


async def test_a_job_is_ready_from_the_microsecond_at_which_it_is_due(topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7", delay=1)
    clock.advance(timedelta(microseconds=999_999))
    assert (await pages(topic, "ready"), await pages(topic, "delayed")) == ([], ["7"])
    clock.advance(US)
    assert (await pages(topic, "ready"), await pages(topic, "delayed")) == (["7"], [])


async def test_jobs_of_all_states_are_listed(adapter: Adapter, topic: Any, clock: Clock) -> None:
    expected = await fill(topic, clock)
    for limit in (1, 5, 100):
        found = await pages(topic, None, limit=limit)
        assert sorted(found) == sorted(id for ids in expected.values() for id in ids), limit


async def test_jobs_with_one_due_time_are_each_listed_once(adapter: Adapter, topic: Any, clock: Clock) -> None:
    midnight = now(clock) + timedelta(hours=1)
    ids = [f"{n}" for n in range(60)] + ["Z", "a", "é", "测", "~", "_", "-"]
    await topic.add_many([NewJob(0, id=id) for id in ids], at=midnight)
    for limit in (1, 7, 50):
        found = await pages(topic, "delayed", limit=limit)
        assert sorted(found) == sorted(ids)


async def test_jobs_are_listed_by_a_window_of_due_times(adapter: Adapter, topic: Any, clock: Clock) -> None:
    began = now(clock)
    await topic.add_many([NewJob(n, id=str(n), at=began + timedelta(seconds=n)) for n in range(10)])

    def second(n: int) -> Any:
        return began + timedelta(seconds=n)

    assert await pages(topic, None, due_after=second(3), due_before=second(6)) == ["3", "4", "5"]
    assert await pages(topic, None, due_after=second(8), limit=1) == ["8", "9"]
    assert await pages(topic, "delayed", due_before=second(3), limit=1) == ["1", "2"]
    assert await pages(topic, "ready", due_before=second(3)) == ["0"]
    assert await pages(topic, "delayed", due_after=second(20)) == []


async def test_paging_continues_correctly_while_jobs_come_and_go(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many([NewJob(n, id=str(n), delay=n) for n in range(1, 9)])
    first = await topic.list("delayed", limit=3)
    await topic.delete("3")
    await topic.add("early", id="early", delay=0.5)
    second = await topic.list("delayed", limit=3, cursor=first.cursor)
    assert [job.id for job in second] == ["4", "5", "6"]


async def test_stats_count_states_and_events(adapter: Adapter, topic: Any, clock: Clock, written: Snapshot) -> None:
    await fill(topic, clock)
    before = written()
    stats = await topic.stats()
    assert (stats.delayed, stats.ready, stats.reserved, stats.dead) == (7, 7, 7, 7)
    assert stats.ready == 7, "a reservation whose TTR is over counts as ready"
    assert (stats.topic, stats.now) == ("测试", now(clock))
    assert stats.next_due == now(clock) - timedelta(microseconds=7) + timedelta(seconds=60)
    assert stats.oldest_ready == (await topic.get("ready0")).due
    assert stats.oldest_ready < now(clock)
    assert (stats.added, stats.popped, stats.died, stats.finished) == (28, 15, 7, 0)
    assert written() == before, "looking changes nothing"


async def test_counters_count_every_event(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many([NewJob(n, id=str(n), max_attempts=1) for n in range(6)])
    jobs = await topic.pop_many(5, ttr=10)
    await topic.finish(jobs[0])
    await topic.release(jobs[1], delay=0, counted=False)
    await topic.release(jobs[2], delay=0)  # its last attempt
    await topic.bury(jobs[3])
    await topic.kick("3")
    await topic.delete("3")
    clock.advance(20)
    await topic.pop_many(10)  # 1 and 5; 4 timed out, and dies of it
    stats = await topic.stats()
    told = {name: getattr(stats, name) for name in "added popped finished released timed_out died kicked".split()}
    assert told == {"added": 6, "popped": 7, "finished": 1, "released": 1, "timed_out": 1, "died": 3, "kicked": 1}
    assert (stats.deleted, stats.refused, stats.repeated, stats.lost, stats.swept) == (1, 0, 0, 0, 0)
    assert stats.too_late == 0
    assert stats.lateness.count == 7
    assert timedelta(seconds=20) <= stats.lateness.max <= timedelta(seconds=25)


async def test_stats_say_what_died_lately_and_when_a_job_was_last_handed_out(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.add_many([NewJob(n, id=str(n)) for n in range(3)])
    jobs = await topic.pop_many(2, ttr=10)
    await topic.bury(jobs[0])
    popped = died = now(clock)
    clock.advance("10m")
    stats = await topic.stats()
    assert (stats.died_lately, stats.last_died, stats.expired) == (1, died, 1)
    assert timedelta(0) <= stats.last_popped - popped < timedelta(milliseconds=1)
    clock.advance("1s")
    assert (await topic.stats()).died_lately == 0, "the last one died more than ten minutes ago"
    await topic.kick("0")
    stats = await topic.stats()
    assert (stats.died_lately, stats.last_died, stats.damaged) == (0, None, 0)


async def test_lateness_percentiles_are_accurate_within_a_fifth(adapter: Adapter, topic: Any, clock: Clock) -> None:
    moment = now(clock)
    await topic.add_many([NewJob(n, at=moment + timedelta(milliseconds=n)) for n in range(100)])
    clock.advance("99ms")
    await topic.pop_many(100)
    late = (await topic.stats()).lateness
    assert late.count == 100
    assert timedelta(milliseconds=49) <= late.p50 <= timedelta(milliseconds=60)
    assert timedelta(milliseconds=98) <= late.p99 <= late.max <= timedelta(milliseconds=119)


async def test_an_empty_topic_has_stats_too(adapter: Adapter, topic: Any) -> None:
    stats = await topic.stats()
    assert (stats.delayed, stats.ready, stats.reserved, stats.dead, stats.added) == (0, 0, 0, 0, 0)
    assert (stats.next_due, stats.oldest_ready, stats.paused_until) == (None, None, None)
    assert (stats.lateness.count, stats.lateness.max) == (0, timedelta(0))
    assert (await topic.list()).jobs == ()
    assert (await topic.check()).looked_at == 0


async def test_the_histogram_counts_jobs_by_due_time(adapter: Adapter, topic: Any, clock: Clock) -> None:
    moment = now(clock)
    await topic.add_many([NewJob(n, at=moment + timedelta(minutes=n)) for n in range(-5, 70)])
    shown = await topic.histogram(span="1h", buckets=6)
    assert (shown.now, shown.start, shown.width) == (moment, moment, timedelta(minutes=10))
    assert (shown.before, shown.counts, shown.after) == (5, (10,) * 6, 10)
    shown = await topic.histogram(start="30m", span="10m", buckets=2)
    assert (shown.before, shown.counts, shown.after) == (35, (5, 5), 30)
    shown = await topic.histogram(past="5m", span="10m", buckets=1)
    assert (shown.before, shown.counts, shown.after) == (0, (10,), 65)


async def test_topics_lists_all_topics_with_jobs(adapter: Adapter) -> None:
    assert await adapter.topics() == []
    for name in ("b", "a", "测试"):
        await adapter.topic(name).add(1)
    assert await adapter.topics() == ["a", "b", "测试"]


async def test_check_examines_everything(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await fill(topic, clock)
    found = await topic.check()
    assert found.ok
    assert found.looked_at == 28 + 15 + 8, "jobs, runs and reservations; the other places are counted"
