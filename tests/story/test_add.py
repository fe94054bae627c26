"""Adding jobs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from story.adapters import Adapter
from tarry import BadInput, JobExists, NewJob
from tarry.clients.testing import Clock

US = timedelta(microseconds=1)


def now(clock: Clock) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=clock.us)


async def in_state(topic: Any, clock: Clock, state: str) -> int | None:
    """A job with the id "7" in that state; answers the receipt it was handed out under."""
    await topic.add("old", id="7", delay=60 if state == "delayed" else 0)
    if state in ("delayed", "ready"):
        return None
    job = await topic.pop(ttr=600)
    if state == "dead":
        await topic.bury(job, reason="no")
    return int(job.receipt)


# ── one ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_job_without_delay_is_ready(adapter: Adapter, topic: Any, clock: Clock) -> None:
    added = await topic.add("tea")
    assert (added.is_new, added.state) == (True, "ready")
    assert now(clock) - 2 * US <= added.due <= now(clock)
    assert (await topic.pop()).body == "tea"


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90), "90", "90s", "1m30s", "PT1M30S", "1.5m"])
async def test_a_delay_can_be_written_in_many_ways(adapter: Adapter, topic: Any, clock: Clock, delay: Any) -> None:
    added = await topic.add("tea", delay=delay)
    assert added.state == "delayed"
    assert added.due == now(clock) + timedelta(seconds=90)


async def test_at_sets_the_due_time_itself(adapter: Adapter, topic: Any, clock: Clock) -> None:
    moment = now(clock) + timedelta(days=1, microseconds=7)
    added = await topic.add("tea", at=moment.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert (added.due, added.state) == (moment, "delayed")


async def test_at_in_the_past_makes_a_ready_job_that_is_late(adapter: Adapter, topic: Any, clock: Clock) -> None:
    added = await topic.add("tea", at=now(clock) - timedelta(hours=1))
    assert added.state == "ready"
    assert (await topic.pop()).lateness == timedelta(hours=1)


async def test_a_job_without_an_id_gets_a_short_unique_one(adapter: Adapter, topic: Any) -> None:
    ids = [(await topic.add(n)).id for n in range(50)]
    assert len(set(ids)) == 50
    assert max(map(len, ids)) <= 24, "short"


async def test_unicode_names_and_ids_work(adapter: Adapter, clock: Clock) -> None:
    topic = adapter.topic("订单/未付款 😀")
    await topic.add("茶", id="七号 é")
    job = await topic.pop()
    assert (job.topic, job.id, job.body) == ("订单/未付款 😀", "七号 é", "茶")
    await topic.finish(job)


async def test_headers_round_trip(adapter: Adapter, topic: Any) -> None:
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "測": "茶"}
    await topic.add("tea", id="7", headers=headers)
    assert (await topic.get("7")).headers == headers
    assert (await topic.pop()).headers == headers
    await topic.add("plain", id="8")
    assert (await topic.get("8")).headers == {}


# ── the id is taken ──────────────────────────────────────────────────────────────────────────────────────────────────

STATES = pytest.mark.parametrize("state", ["delayed", "ready", "reserved", "dead"])


@STATES
async def test_if_exists_error_names_the_state_of_the_existing_job(
    adapter: Adapter, topic: Any, clock: Clock, state: str
) -> None:
    await in_state(topic, clock, state)
    with pytest.raises(JobExists) as told:
        await topic.add("new", id="7")
    assert (told.value.id, told.value.state, told.value.done) == ("7", state, 0)
    assert state in str(told.value)
    assert ((await topic.get("7")).body, (await topic.get("7")).state) == ("old", state)


@pytest.mark.parametrize("atomic", [None, True, False], ids=["add", "atomic", "many"])
async def test_if_exists_error_says_since_when_a_job_is_dead_and_what_revives_it(
    adapter: Adapter, topic: Any, clock: Clock, atomic: bool | None
) -> None:
    await in_state(topic, clock, "dead")
    since = (await topic.get("7")).died.strftime("%Y-%m-%d %H:%M:%S")
    clock.advance("1d")
    again = topic.add("new", id="7") if atomic is None else topic.add_many([NewJob("new", id="7")], atomic=atomic)
    with pytest.raises(JobExists, match=f'Job 7 is dead since {since} UTC; if_exists="replace" revives it') as told:
        await again
    assert told.value.state == "dead"
    assert (await topic.add("new", id="7", if_exists="keep")).state == "dead"
    await topic.add("new", id="7", if_exists="replace")
    assert (await topic.pop()).attempt == 1


@STATES
async def test_if_exists_keep_leaves_the_existing_job_alone(
    adapter: Adapter, topic: Any, clock: Clock, state: str
) -> None:
    await in_state(topic, clock, state)
    before = await topic.get("7")
    added = await topic.add("new", id="7", delay=5, if_exists="keep")
    assert (added.is_new, added.state) == (False, state)
    after = await topic.get("7")
    assert (after.body, after.state, after.due, after.attempts) == ("old", state, before.due, before.attempts)


@STATES
async def test_if_exists_replace_is_delete_and_add(adapter: Adapter, topic: Any, clock: Clock, state: str) -> None:
    await in_state(topic, clock, state)
    added = await topic.add("new", id="7", delay=5, if_exists="replace", headers={"a": "b"})
    assert (added.is_new, added.state, added.due) == (True, "delayed", now(clock) + timedelta(seconds=5))
    job = await topic.pop(wait=10)
    assert (job.body, job.attempt, job.headers) == ("new", 1, {"a": "b"})
    await topic.finish(job)
    assert await topic.get("7") is None


async def test_a_finished_job_leaves_its_id_free(adapter: Adapter, topic: Any) -> None:
    await topic.add("old", id="7")
    await topic.finish(await topic.pop())
    assert (await topic.add("new", id="7")).is_new


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_jobs_of_add_many_may_have_their_own_options(adapter: Adapter, topic: Any, clock: Clock) -> None:
    moment = now(clock) + timedelta(hours=1)
    added = await topic.add_many(
        [
            "plain",
            NewJob("delayed", delay="2h", id="d"),
            NewJob("at", at=moment, id="a"),
            NewJob("own", id="o", ttr=7, max_attempts=2, headers={"k": "own"}, delay=0),
        ],
        delay=60,
        headers={"k": "all"},
    )
    assert [one.is_new for one in added] == [True] * 4
    due = [one.due - now(clock) for one in added]
    assert due[0] == timedelta(seconds=60)
    assert due[1] == timedelta(hours=2) + US
    assert added[2].due == moment
    assert added[3].state == "ready"
    own = await topic.get("o")
    assert (own.ttr, own.max_attempts, own.headers) == (timedelta(seconds=7), 2, {"k": "own"})
    assert (await topic.get("a")).headers == {"k": "all"}


@pytest.mark.parametrize("delay", [0, 60])
async def test_add_many_returns_what_get_returns_of_each_job(
    adapter: Adapter, topic: Any, clock: Clock, delay: int
) -> None:
    bodies: list[Any] = ["first", b"\xff", {"k": [1]}, None, "last"]
    moment = now(clock) + timedelta(hours=1)
    two = [NewJob(body, at=moment) for body in bodies[:2]]
    added = await topic.add_many([*bodies, *two, *bodies], delay=delay)
    infos = await topic.get_many([one.id for one in added])
    assert [(one.due, one.state) for one in added] == [(info.due, info.state) for info in infos]
    assert [info.body for info in infos] == [*bodies, *bodies[:2], *bodies]


async def test_empty_batches_are_no_error(adapter: Adapter, topic: Any) -> None:
    assert await topic.add_many([]) == []
    await topic.finish_many([])
    await topic.touch_many([])
    await topic.release_many([])
    await topic.bury_many([])
    assert await topic.kick_many([]) == await topic.delete_many([]) == await topic.get_many([]) == []
    assert await topic.reschedule_many([], delay=1) == []


async def test_add_many_splits_2500_jobs_into_scripts(adapter: Adapter, topic: Any, clock: Clock) -> None:
    added = await topic.add_many([{"n": n} for n in range(2500)], delay=10)
    assert len({one.id for one in added}) == 2500
    assert (await topic.stats()).delayed == 2500
    clock.advance(20)
    jobs = await topic.pop_many(1000)
    jobs += await topic.pop_many(1000)
    assert len(jobs) == 2000
    assert len(await topic.pop_many(1000)) == 500


async def test_add_many_reports_how_many_were_added_before_a_refusal(adapter: Adapter, topic: Any) -> None:
    await topic.add("old", id="taken", delay=5)
    batch: list[Any] = [NewJob(n, id=f"{n}") for n in range(1500)]
    batch[1200] = NewJob(1200, id="taken")
    with pytest.raises(JobExists) as told:
        await topic.add_many(batch, delay=10)
    assert (told.value.done, told.value.id, told.value.state) == (1000, "taken", "delayed")
    assert (await topic.stats()).delayed == 1001, "the second script added none of its 500"


async def test_add_many_splits_scripts_by_size_too(adapter: Adapter, topic: Any) -> None:
    await topic.add("old", id="taken", delay=5)
    batch: list[Any] = [NewJob(b"x" * 400_000, id=f"{n}") for n in range(5)]
    batch.append(NewJob(b"x", id="taken"))
    with pytest.raises(JobExists) as told:
        await topic.add_many(batch, delay=10)
    assert told.value.done == 4


async def test_atomic_adds_everything_in_one_script_or_nothing(adapter: Adapter, topic: Any) -> None:
    """Promise: One verb, one script, one round trip."""
    with pytest.raises(BadInput, match="1000"):
        await topic.add_many(range(1001), atomic=True)
    with pytest.raises(BadInput, match="atomic"):
        await topic.add_many([b"x" * 600_000] * 2, atomic=True)
    assert (await topic.stats()).added == 0
    assert len(await topic.add_many(range(1000), atomic=True)) == 1000


async def test_an_existing_id_keeps_its_whole_script_out(adapter: Adapter, topic: Any) -> None:
    await topic.add("old", id="b")
    with pytest.raises(JobExists, match="Job b "):
        await topic.add_many([NewJob(n, id=n) for n in "abc"])
    assert await topic.get_many(["a", "c"]) == [None, None]


async def test_add_many_supports_keep_and_replace(adapter: Adapter, topic: Any) -> None:
    await topic.add("old", id="b")
    kept = await topic.add_many([NewJob("new", id=n) for n in "abc"], if_exists="keep")
    assert [one.is_new for one in kept] == [True, False, True]
    assert (await topic.get("b")).body == "old"
    replaced = await topic.add_many([NewJob("newest", id=n) for n in "abc"], if_exists="replace")
    assert [one.is_new for one in replaced] == [True] * 3
    assert [info.body for info in await topic.get_many(list("abc"))] == ["newest"] * 3
    assert (await topic.stats()).ready == 3


async def test_an_id_given_twice_is_refused_before_anything_is_written(adapter: Adapter, topic: Any) -> None:
    with pytest.raises(BadInput, match="job 2: id: 'a' is given twice"):
        await topic.add_many([NewJob(1, id="a"), NewJob(2, id="b"), NewJob(3, id="a")])
    assert (await topic.stats()).ready == 0


async def test_with_replace_the_last_job_with_an_id_wins(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(1, id="a"), NewJob(2, id="a")], if_exists="replace")
    assert [job.body for job in await topic.pop_many(5)] == [2]


async def test_with_keep_the_first_job_with_an_id_wins(adapter: Adapter, topic: Any) -> None:
    added = await topic.add_many([NewJob(1, id="a"), NewJob(2, id="a")], if_exists="keep")
    assert [(one.is_new, one.state) for one in added] == [(True, "ready"), (False, "ready")]
    assert [job.body for job in await topic.pop_many(5)] == [1]
