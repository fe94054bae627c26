"""Verbs by id, for producers and operators."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import STATES, US, in_state, now
from tarry import NewJob
from tarry.clients.testing import Clock


async def test_unknown_ids_return_none(adapter: Adapter, topic: Any) -> None:
    assert await topic.get("7") is None
    assert await topic.kick("7") is None
    assert await topic.delete("7") is None
    assert await topic.reschedule("7", delay=5) is None
    assert await topic.get_many(["7", "8"]) == [None, None]


@STATES
async def test_delete_returns_the_state_and_is_final(adapter: Adapter, topic: Any, clock: Clock, state: str) -> None:
    await in_state(topic, clock, state)
    assert await topic.delete("7") == state
    assert await topic.get("7") is None
    assert await topic.delete("7") is None
    clock.advance("1d")
    assert await topic.pop() is None
    assert (await topic.add("new", id="7")).is_new


async def test_kick_revives_a_dead_job_with_all_its_attempts(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7", max_attempts=1)
    await topic.release(await topic.pop(), delay=0)
    assert await topic.kick("7") == "dead"
    info = await topic.get("7")
    assert (info.state, info.attempts, info.reason, info.first_failure) == ("ready", 0, None, None)
    assert (await topic.pop()).attempt == 1


@pytest.mark.parametrize("state", ["delayed", "ready", "reserved"])
async def test_kick_leaves_jobs_in_other_states_alone(adapter: Adapter, topic: Any, clock: Clock, state: str) -> None:
    await in_state(topic, clock, state)
    before = await topic.get("7")
    assert await topic.kick("7") == state
    after = await topic.get("7")
    assert (after.state, after.due, after.attempts) == (before.state, before.due, before.attempts)


async def test_kick_many_returns_states_in_order(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(n, id=n) for n in "abcd"])
    await topic.bury_many(await topic.pop_many(3))
    assert await topic.kick_many(["c", "a", "b", "d", "e"]) == ["dead", "dead", "dead", "ready", None]
    assert sorted([job.id for job in await topic.pop_many(9)]) == list("abcd")


@pytest.mark.parametrize("state", ["delayed", "ready"])
async def test_reschedule_changes_the_due_time_of_waiting_jobs(
    adapter: Adapter, topic: Any, clock: Clock, state: str
) -> None:
    await in_state(topic, clock, state)
    assert await topic.reschedule("7", delay="1h") == state
    assert (await topic.get("7")).due == now(clock) + timedelta(hours=1)
    moment = now(clock) + timedelta(days=400, microseconds=1)
    assert await topic.reschedule("7", at=moment) == "delayed"
    assert (await topic.get("7")).due == moment
    assert await topic.reschedule("7", delay=0) == "delayed"
    assert (await topic.pop()).id == "7"


@pytest.mark.parametrize("state", ["reserved", "dead"])
async def test_reschedule_returns_the_state_of_other_jobs_unchanged(
    adapter: Adapter, topic: Any, clock: Clock, state: str
) -> None:
    await in_state(topic, clock, state)
    before = await topic.get("7")
    assert await topic.reschedule("7", delay="1h") == state
    after = await topic.get("7")
    assert (after.state, after.reserved_until, after.died) == (state, before.reserved_until, before.died)


async def test_a_job_with_an_expired_reservation_may_be_rescheduled(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    await topic.pop(ttr=10)
    clock.advance(10)
    assert await topic.reschedule("7", delay="1h") == "ready"
    assert await topic.pop(wait="59m") is None
    assert (await topic.pop(wait="2m")).attempt == 2


async def test_a_rescheduled_retry_keeps_its_attempts(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    await topic.release(await topic.pop(), delay="1h")
    await topic.reschedule("7", delay=5)
    clock.advance(5)
    assert (await topic.pop()).attempt == 2


async def test_reschedule_many_and_delete_many_return_states(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many([NewJob(n, id=n) for n in "abcd"])
    await topic.pop()
    assert await topic.reschedule_many(list("abx"), delay=60) == ["reserved", "ready", None]
    assert await topic.delete_many(list("abcx")) == ["reserved", "delayed", "ready", None]
    assert [job.id for job in await topic.list()] == ["d"]


async def test_get_shows_all_fields_of_a_job(adapter: Adapter, topic: Any, clock: Clock) -> None:
    began = now(clock)
    await topic.add({"n": 1}, id="7", delay=10, ttr="1m30s", max_attempts=5, headers={"a": "b"})
    info = await topic.get("7")
    assert (info.id, info.topic, info.state, info.body, info.raw) == ("7", "测试", "delayed", {"n": 1}, b'{"n":1}')
    assert (info.created, info.due) == (began, began + timedelta(seconds=10))
    assert (info.ttr, info.max_attempts, info.attempts) == (timedelta(seconds=90), 5, 0)
    assert (info.holder, info.reason, info.error, info.first_failure) == (None, None, None, None)
    job = await topic.pop(wait=20)
    info = await topic.get("7")
    assert (info.state, info.due, info.attempts) == ("reserved", None, 1)
    assert info.reserved_until == now(clock) + timedelta(seconds=90)
    assert info.holder
    await topic.release(job, delay=0)
    clock.advance(US)
    assert (await topic.get("7")).first_failure == now(clock) - US
