"""`if_exists="update"`: the job gets a new body, its due time stays; and who has the job is not disturbed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import now
from tarry import JobExists, NewJob, StaleReceipt
from tarry.clients.testing import Clock
from tarry.verbs.jobs import add, settle
from tarry.verbs.jobs.options import JobOptions

END = Callable[[Any, Any, Clock], Awaitable[Any]]


def updating(topic: Any, body: Any = "new", **given: Any) -> Any:
    return add.add_job(topic.verbs.context, body, JobOptions(if_exists="update", **given).encode(), "7")


async def held(topic: Any, body: Any = "old", **given: Any) -> Any:
    """A job that is reserved, and updated since."""
    await topic.add(body, id="7", **given)
    job = await topic.pop(ttr=30)
    await topic.add("new", id="7", if_exists="update", delay="1h")
    return job


async def test_the_body_changes_and_the_due_time_stays(adapter: Adapter, topic: Any, clock: Clock) -> None:
    first = await topic.add("old", id="7", delay=60)
    clock.advance(20)
    added = await topic.add("new", id="7", delay="1h", if_exists="update")
    assert (added.is_new, added.state, added.due) == (False, "delayed", first.due)
    clock.advance(50)
    added = await topic.add("newer", id="7", delay="1h", if_exists="update")
    assert (added.state, added.due) == ("ready", first.due)
    job = await topic.pop()
    assert (job.body, job.attempt, job.lateness) == ("newer", 1, timedelta(seconds=10))
    await topic.finish(job)
    assert await topic.get("7") is None
    stats = await topic.stats()
    assert (stats.added, stats.finished, stats.replaced, stats.repeated) == (1, 1, 0, 0)


async def test_a_job_that_is_not_there_is_added_as_it_is_given(adapter: Adapter, topic: Any, clock: Clock) -> None:
    added = await topic.add("new", id="7", delay=60, if_exists="update", headers={"a": "b"}, priority=2)
    assert (added.is_new, added.due) == (True, now(clock) + timedelta(seconds=60))
    job = await topic.get("7")
    assert (job.body, job.headers, job.priority) == ("new", {"a": "b"}, 2)


async def test_a_dead_job_is_replaced(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("old", id="7", headers={"a": "b"})
    await topic.bury(await topic.pop())
    added = await topic.add("new", id="7", delay=60, if_exists="update")
    assert (added.is_new, added.state, added.due) == (True, "delayed", now(clock) + timedelta(seconds=60))
    job = await topic.get("7")
    assert (job.body, job.attempts, job.headers) == ("new", 0, {})


async def test_only_what_is_given_changes(adapter: Adapter, topic: Any) -> None:
    old = {"ttr": 5, "max_attempts": 3, "headers": {"a": "b"}, "max_lateness": 60, "priority": 2}
    await topic.add("old", id="7", delay="1h", **old)
    await topic.add(b"new", id="7", if_exists="update")
    job = await topic.get("7")
    assert (job.body, job.headers, job.priority, job.max_attempts) == (b"new", {"a": "b"}, 2, 3)
    assert job.ttr == timedelta(seconds=5)
    await topic.add("new", id="7", if_exists="update", headers={"c": "d"}, priority=1, max_attempts=None)
    job = await topic.get("7")
    assert (job.body, job.headers, job.priority, job.max_attempts) == ("new", {"c": "d"}, 1, None)
    assert job.ttr == timedelta(seconds=5)


async def test_a_priority_that_is_given_counts_at_once(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(1, id="a"), NewJob(2, id="b"), NewJob(3, id="c", priority=3)])
    await topic.add(2, id="b", if_exists="update", priority=3)
    await topic.add(3, id="c", if_exists="update", priority=1)
    assert [job.id for job in await topic.pop_many(3)] == ["b", "c", "a"]


async def test_who_has_the_job_goes_on_and_what_is_new_is_handed_out_after_its_finish(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    """Promise: The last body is handed out."""
    await topic.configure(keep_finished="1d")
    job = await held(topic)
    await topic.touch(job, ttr=60)
    clock.advance(40)
    assert await topic.pop() is None
    await topic.finish(job)
    seen = await topic.get("7")
    assert (seen.state, seen.body, seen.attempts, seen.due) == ("ready", "new", 0, now(clock))
    assert (await topic.stats()).finished_kept == 0, "the history has no run with a body that it had not"
    with pytest.raises(StaleReceipt, match="waits"):
        await topic.finish(job)
    again = await topic.pop()
    assert (again.body, again.attempt, again.lateness) == ("new", 1, timedelta(0))
    await topic.finish(again)
    assert (await topic.get("7")).body == "new"
    stats = await topic.stats()
    assert (stats.added, stats.finished, stats.timed_out, stats.finished_kept) == (2, 2, 0, 1)


async def test_many_are_finished_and_those_that_were_updated_come_again(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(0, id=str(n), priority=n % 4) for n in range(20)])
    jobs = await topic.pop_many(20)
    await topic.add_many([NewJob(1, id=str(n)) for n in (3, 9, 16)], if_exists="update")
    await topic.finish_many(jobs)
    assert sorted(job.id for job in await topic.list()) == ["16", "3", "9"]
    assert [(job.id, job.body) for job in await topic.pop_many(20)] == [("3", 1), ("9", 1), ("16", 1)]


async def test_a_waiting_consumer_is_called_for_what_is_new(adapter: Adapter, topic: Any, server: Any) -> None:
    keys = topic.verbs.keys
    for end in (topic.finish, topic.bury):
        job = await held(topic)
        server.delete(keys.wake, keys.relay)
        await end(job)
        assert server.exists(keys.wake, keys.relay) == 2
        await topic.purge()


async def dies_of_its_ttr(topic: Any, job: Any, clock: Clock) -> None:
    clock.advance(31)
    await topic.pause()
    assert await topic.pop() is None
    await topic.resume()


ENDS: dict[str, END] = {
    "release": lambda topic, job, clock: topic.release(job, delay=0),
    "bury": lambda topic, job, clock: topic.bury(job),
    "its TTR": dies_of_its_ttr,
    "its worker died": lambda topic, job, clock: topic.release_holder(topic.verbs.holder.decode()),
}


@pytest.mark.parametrize("end", ENDS)
async def test_what_no_handler_had_never_dies_of_what_was_before(
    adapter: Adapter, topic: Any, clock: Clock, end: str
) -> None:
    """Promise: The last body is handed out."""
    job = await held(topic, max_attempts=1)
    await ENDS[end](topic, job, clock)
    seen = await topic.get("7")
    assert (seen.state, seen.body, seen.attempts) == ("ready", "new", 0)
    again = await topic.pop(ttr=30)
    assert (again.body, again.attempt) == ("new", 1)
    await ENDS[end](topic, again, clock)
    assert (await topic.get("7")).state == "dead", "this body was handed out once"


@pytest.mark.parametrize("end", [end for end in ENDS if end != "bury"])
async def test_attempts_go_on_as_long_as_some_are_left(adapter: Adapter, topic: Any, clock: Clock, end: str) -> None:
    job = await held(topic, max_attempts=3)
    await ENDS[end](topic, job, clock)
    assert ((await topic.get("7")).attempts, (await topic.pop()).attempt) == (1, 2)


@pytest.mark.parametrize("end", ["put back", "too late", "confirmed"])
async def test_a_repeated_finish_never_deletes_what_was_added_after_its_hand_out(
    adapter: Adapter, topic: Any, clock: Clock, end: str
) -> None:
    job = await held(topic, max_lateness=2, max_attempts=1 if end == "confirmed" else 9)
    call = settle.FINISH.call(topic.verbs.keys, settle.FINISH.encode([job]))
    clock.advance(1)
    if end != "confirmed":
        await dies_of_its_ttr(topic, job, clock)
    if end == "too late":
        clock.advance(2)
        assert await topic.pop() is None
        assert (await topic.get("7")).reason == "too late"
    for _ in range(2):
        assert await adapter.run(call.as_replay()) == [None]
        seen = await topic.get("7")
        assert (seen.state, seen.body, seen.attempts) == ("ready", "new", 0)
    assert (await topic.pop()).body == "new"
    assert await adapter.run(call.as_replay()) == [None], "it was done, and the next hand-out is another job's"
    assert (await topic.get("7")).state == "reserved"


async def test_a_repeated_update_changes_nothing(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("old", id="7")
    call = updating(topic, delay=60)
    first = await adapter.run(call)
    assert await adapter.run(call.as_replay()) == first
    job = await topic.pop()
    assert (await adapter.run(call.as_replay())).state == "reserved"
    await topic.bury(job)
    assert (await adapter.run(call.as_replay())).state == "dead"
    assert (await topic.stats()).repeated == 3
    await topic.kick("7")
    await topic.finish(await topic.pop())
    assert await topic.get("7") is None
    again = await adapter.run(call.as_replay())
    assert (again.is_new, again.state) == (True, "delayed")
    assert await adapter.run(call.as_replay()) == again


async def test_a_deleted_job_is_deleted_with_what_is_new(adapter: Adapter, topic: Any) -> None:
    job = await held(topic)
    await topic.delete("7", running=True)
    with pytest.raises(StaleReceipt):
        await topic.finish(job)
    assert await topic.get("7") is None


async def test_a_refused_add_says_what_may_be_done(topic: Any) -> None:
    await topic.add("old", id="7")
    with pytest.raises(JobExists, match='"replace" or "update"'):
        await topic.add("new", id="7")


async def test_the_window_of_latest_begins_with_the_first_event_that_no_handler_had(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    job = await held(topic)
    clock.advance(4)
    await topic.add("newer", id="7", if_exists="update")
    clock.advance(4)
    opts = JobOptions(if_exists="replace", delay=10).encode().due_within("10s")
    added = await adapter.run(add.add_job(topic.verbs.context, "last", opts, "7"))
    assert added.due == now(clock) + timedelta(seconds=2)
    with pytest.raises(StaleReceipt):
        await topic.finish(job)
    assert (await topic.get("7")).body == "last"
