"""The story, continued: jobs that come again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from story.adapters import Adapter, Awaited, BlockingAdapter, Seen
from story.test_add import US, now
from tarry import BadInput
from tarry.clients.testing import Clock
from tarry.values.durations import SECOND

MINUTE = timedelta(minutes=1)
UTC = timezone.utc


@pytest.fixture
def schedules(adapter: Adapter) -> Any:
    return ScheduleHandle(
        Awaited(adapter.client.schedules) if isinstance(adapter, BlockingAdapter) else adapter.client.schedules
    )


class ScheduleHandle:
    """Schedules that are given topics as their client knows them."""

    def __init__(self, schedules: Any) -> None:
        self._schedules = schedules

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._schedules, name)
        return lambda *given, **named: verb(*[one.outside if isinstance(one, Seen) else one for one in given], **named)


async def work(topic: Any, clock: Clock, span: timedelta) -> list[tuple[datetime, datetime]]:
    """Waits and works for so long; answers when each job was due, and when it was handed out."""
    end, seen = clock.us + span // US, []
    while clock.us < end:
        job = await topic.pop(wait=(end - clock.us) / SECOND)
        if job is not None:
            seen.append((job.due, now(clock)))
            await topic.finish(job)
    return seen


async def test_an_interval_schedule_fires_without_drift(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    began = now(clock)
    made = await schedules.put(topic, "tidy", {"what": "attic"}, every="1m")
    assert (made.next, made.every, made.fired) == (began + MINUTE, MINUTE, 0)
    seen = await work(topic, clock, timedelta(minutes=12, seconds=1))
    assert [due for due, _ in seen] == [began + k * MINUTE for k in range(1, 13)]
    assert all(due == handed for due, handed in seen), "who waits is there on the microsecond"
    found = await schedules.get(topic, "tidy")
    assert (found.fired, found.skipped, found.next, found.body) == (12, 0, began + 13 * MINUTE, {"what": "attic"})


async def test_a_cron_schedule_follows_local_time_through_a_dst_change(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    clock.us = round(datetime(2026, 3, 20, tzinfo=UTC).timestamp()) * SECOND
    clock.advance(0)
    await schedules.put(topic, "report", cron="0 9 * * 1-5", tz="Europe/Berlin")
    seen = []
    for _ in range(42):  # days
        clock.advance("24h")
        while job := await topic.pop():
            assert job.id == f"report@{job.due:%Y-%m-%dT%H:%M:%SZ}"
            seen.append(job.due)
            await topic.finish(job)
    assert len(seen) == 30
    assert {due.strftime("%H:%M") for due in seen if due < datetime(2026, 3, 29, tzinfo=UTC)} == {"08:00"}
    assert {due.strftime("%H:%M") for due in seen if due > datetime(2026, 3, 29, tzinfo=UTC)} == {"07:00"}


async def test_a_pop_takes_older_jobs_before_scheduled_ones(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await schedules.put(topic, "s", "scheduled", every="10s", missed="all")
    await topic.add("before", delay="9s")
    await topic.add("after", delay="11s")
    clock.advance("15s")
    assert [job.body for job in await topic.pop_many(9)] == ["before"]
    assert [job.body for job in await topic.pop_many(9)] == ["scheduled", "after"]


async def test_a_schedule_waits_while_its_topic_is_full(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await topic.configure(max_pending=1)
    await schedules.put(topic, "s", "scheduled", every="10s", missed="all")
    await topic.add("in the way", delay="1h")
    begin = clock.now
    clock.advance("15s")
    assert await topic.pop() is None
    assert (await topic.stats()).held == 1
    clock.advance("5s")
    assert await topic.pop() is None
    assert (await topic.stats()).held == 2
    assert await topic.pop() is None, "it is not tried at each pop"
    assert (await topic.stats()).held == 2
    shown = await schedules.get(topic, "s")
    assert shown.next == begin + timedelta(seconds=10), "the occurrence that waits, and not the next try"
    assert (await schedules.list(topic))[0] == shown
    await topic.configure(max_pending=3)
    clock.advance("5s")
    assert [job.body for job in await topic.pop_many(9)] == ["scheduled"] * 2, "none is lost"
    assert (await schedules.get(topic, "s")).fired == 2


async def test_a_schedule_adds_as_many_jobs_as_its_topic_has_room_for(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await topic.configure(max_pending=3)
    await schedules.put(topic, "s", "scheduled", every="1s", missed="all")
    begin = clock.now
    clock.advance("8s")
    due: list[Any] = []
    for _ in range(4):
        jobs = await topic.pop_many(9)
        assert len(jobs) == 3, "it fills the topic, and no more"
        due += [(job.due - begin).total_seconds() for job in jobs]
        assert (await schedules.get(topic, "s")).fired == len(due)
        clock.advance("5s")
    assert due == [*range(1, 13)], "each occurrence once, in order"


async def test_a_schedule_waits_while_its_body_has_no_room(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await topic.configure(max_pending_bytes=30)
    clock.advance("1s")
    await topic.add("in the way", id="a", delay="1h")
    await schedules.put(topic, "s", "of twenty-one bytes", every="10s")
    clock.advance("10s")
    assert await topic.pop() is None
    await topic.delete("a")
    clock.advance("5s")
    assert (await topic.pop()).body == "of twenty-one bytes"


async def test_a_job_of_a_schedule_comes_before_those_that_were_due_earlier_if_its_priority_is_higher(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await topic.add_many(["a", "b"])
    await schedules.put(topic, "s", "scheduled", every="10s", priority=2)
    assert (await schedules.get(topic, "s")).head.priority == 2
    clock.advance("10s")
    await topic.add("soon", priority=1)
    clock.advance("1s")
    assert [job.body for job in await topic.pop_many(5)] == ["scheduled", "soon", "a", "b"]


async def test_a_schedule_does_not_hold_back_what_has_a_priority(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await topic.add_many(range(3))
    await schedules.put(topic, "s", "scheduled", every="10s")
    clock.advance("11s")
    await topic.add("urgent", priority=3)
    clock.advance("1s")
    assert [(await topic.pop()).body for _ in range(2)] == ["urgent", 0]


@pytest.mark.parametrize(("missed", "jobs", "skipped"), [("skip", 0, 10), ("once", 1, 9), ("all", 10, 0)])
async def test_missed_occurrences_are_handled_as_configured(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock, missed: Any, jobs: int, skipped: int
) -> None:
    await schedules.put(topic, "s", every="1h", missed=missed)
    clock.advance("10h2m")
    made_up_for = await topic.pop_many(100)
    assert len(made_up_for) == jobs
    await topic.finish_many(made_up_for)
    found = await schedules.get(topic, "s")
    assert (found.fired, found.skipped) == (jobs, skipped)
    assert found.next == now(clock) + timedelta(minutes=58), "the beat is kept"
    clock.advance("58m30s")
    assert len(await topic.pop_many(100)) == 1


async def test_years_of_missed_occurrences_are_bounded(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    await schedules.put(topic, "s", every="1m", missed="all")
    clock.advance("1000d")
    assert len(await topic.pop_many(1000)) == 1000
    assert await topic.pop() is None
    found = await schedules.get(topic, "s")
    assert (found.fired, found.skipped) == (1000, 1_439_000)


async def test_a_resumed_schedule_keeps_its_interval(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    began = now(clock)
    await schedules.put(topic, "s", every="1h", missed="all")
    assert await schedules.pause(topic, "s") is True
    clock.advance("5h30m")
    assert await topic.pop() is None
    assert (await schedules.get(topic, "s")).next is None
    await schedules.put(topic, "s", "another body", every="1h", missed="all")
    assert (await schedules.get(topic, "s")).paused, "a change leaves it paused"
    assert await schedules.resume(topic, "s") is True
    assert (await schedules.get(topic, "s")).next == began + timedelta(hours=6)
    assert await schedules.resume(topic, "s") is True
    assert await topic.pop(wait="1h") is not None
    assert now(clock) == began + timedelta(hours=6)


async def test_a_paused_topic_fires_no_schedule(adapter: Adapter, topic: Any, schedules: Any, clock: Clock) -> None:
    await schedules.put(topic, "s", every="1m")
    await topic.pause("3m30s")
    assert await topic.pop(wait="3m") is None
    assert (await schedules.get(topic, "s")).fired == 0
    assert await topic.pop(wait="1m") is not None
    assert (await schedules.get(topic, "s")).skipped == 2


async def test_putting_a_schedule_again_changes_it(adapter: Adapter, topic: Any, schedules: Any, clock: Clock) -> None:
    first = await schedules.put(topic, "s", 1, every="1h")
    clock.advance("10m")
    same = await schedules.put(topic, "s", 2, every="1h")
    assert (same.next, same.body) == (first.next, 2), "another body, the same rhythm"
    faster = await schedules.put(topic, "s", 2, every="1m")
    assert faster.next == now(clock) + MINUTE
    assert faster.changed > same.changed > first.changed
    late = await schedules.put(topic, "s", 2, every="1d", first=now(clock) + timedelta(hours=2))
    assert late.next == now(clock) + timedelta(hours=2)


async def test_deleting_a_schedule_keeps_its_jobs(adapter: Adapter, topic: Any, schedules: Any, clock: Clock) -> None:
    await schedules.put(topic, "s", every="1m")
    job = await topic.pop(wait="2m")
    await topic.release(job, delay=0)
    assert await schedules.delete(topic, "s") is True
    assert await schedules.delete(topic, "s") is False
    assert await schedules.pause(topic, "s") is await schedules.resume(topic, "s") is False
    assert await schedules.get(topic, "s") is None
    again = await topic.pop()
    assert again.id == job.id
    await topic.finish(again)
    assert await topic.pop(wait="3m") is None


async def test_all_schedules_are_listed(adapter: Adapter, topic: Any, schedules: Any, clock: Clock) -> None:
    for n in range(250):
        await schedules.put(topic, f"s{n:03}", n, every=3600 + n)
    await schedules.put("other", "o", every=60)
    await schedules.pause(topic, "s003")
    listed = await schedules.list(topic)
    assert [one.id for one in listed] == [*[f"s{n:03}" for n in range(250) if n != 3], "s003"]
    assert [one.body for one in listed[:3]] == [0, 1, 2]
    assert len(await schedules.list()) == 251
    assert await schedules.list("nothing") == []


async def test_a_schedule_sets_the_options_of_its_jobs(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    made = await schedules.put(
        topic, "s", b"raw", every=60, ttr=5, max_attempts=1, headers={"k": "v"}, max_lateness="1h"
    )
    assert (made.body, made.headers) == (b"raw", {"k": "v"})
    job = await topic.pop(wait=60)
    assert (job.raw, job.headers, job.ttr) == (b"raw", {"k": "v"}, timedelta(seconds=5))
    await topic.release(job)
    assert (await topic.get(job.id)).state == "dead"


async def test_a_lost_reply_adds_no_second_scheduled_job(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock
) -> None:
    from tarry.verbs.schedules.fire import fire, item_of

    keys = topic.verbs.keys
    await schedules.put(topic, "s", every=60)
    clock.advance(60)
    moment, _, [(id, plan, _)] = await adapter.run(fire(keys, [], 9))
    items, _ = item_of(id, plan, moment, 9)
    assert (await adapter.run(fire(keys, items, 0)))[1] == [1]
    await topic.finish(await topic.pop())
    assert (await adapter.run(fire(keys, items, 0)))[1] == [-1]
    assert await topic.pop_many(9) == []


async def test_an_unreadable_schedule_does_not_block_others(
    adapter: Adapter, topic: Any, schedules: Any, clock: Clock, valkey_url: str
) -> None:
    import redis

    from tarry.values.keys import part_key

    zset, plans = (part_key(topic.verbs.keys, part) for part in ("schedules", "plans"))
    for name in ("short", "broken", "fine"):
        await schedules.put(topic, name, every=60)
    with redis.Redis.from_url(valkey_url) as server:
        good = server.hget(plans, "broken")
        server.hset(plans, "short", b"x")
        server.hset(plans, "broken", good.replace(b"every_us", b"never_us"))
        clock.advance(61)
        await topic.add("job")
        jobs = await topic.pop_many(9)
        jobs += await topic.pop_many(9)
        assert sorted(job.id.partition("@")[0] for job in jobs if job.body is None) == ["fine"]
        assert len(jobs) == 2
        server.hset(plans, "broken", good)
        clock.advance(61)
        assert "broken" in {job.id.partition("@")[0] for job in await topic.pop_many(9)}
        assert server.zscore(zset, "short") is None


@pytest.mark.parametrize(
    ("id", "named", "said"),
    [
        ("s", {}, "every= or cron="),
        ("s", {"every": 5, "missed": "never"}, "missed"),
        ("s", {"every": 5, "ttr": 0}, "ttr"),
        ("s", {"cron": "0 9 * * *", "first": datetime(2030, 1, 1, tzinfo=UTC)}, "first"),
        ("s", {"every": 5, "first": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001  # that is what is refused
        ("", {"every": 5}, "^id: .*empty"),
        ("a b", {"every": 5}, "^id: .*blank"),
        ("x" * 161, {"every": 5}, "^id: .*160"),
    ],
)
async def test_nonsensical_options_are_refused(
    adapter: Adapter, topic: Any, schedules: Any, written: Any, id: str, named: Any, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        await schedules.put(topic, id, **named)
    assert written() == {}
