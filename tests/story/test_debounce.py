"""Debounce: `latest` ends the time for which events put off a job."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import now
from tarry import BadInput, NewJob
from tarry.clients.testing import Clock
from tarry.verbs.jobs import add
from tarry.verbs.jobs.options import JobOptions

FAR = "1d"


def options(latest: Any = "5s", *, if_exists: Any = "replace", **given: Any) -> Any:
    return JobOptions(if_exists=if_exists, **given).encode().due_within(latest)


def event(topic: Any, latest: Any = "5s", body: Any = "tea", **given: Any) -> Any:
    """The call of an event that puts the job off by ten seconds."""
    if "at" not in given:
        given.setdefault("delay", 1)
    return add.add_job(topic.verbs.context, body, options(latest, **given), "7")


def seconds(clock: Clock, moment: datetime | None) -> float:
    assert moment is not None
    return round((moment - now(clock)).total_seconds(), 5)


async def test_events_that_never_stop_put_a_job_off_no_longer_than_latest(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    dues = []
    for n in range(10):
        added = await adapter.run(event(topic, body=n))
        dues.append(seconds(clock, added.due) + 0.6 * n)
        clock.advance(0.6)
    assert [round(due, 3) for due in dues] == [1, 1.6, 2.2, 2.8, 3.4, 4, 4.6, 5, 5, 5]
    job = await topic.pop()
    assert (job.body, job.attempt, job.lateness) == (9, 1, timedelta(seconds=1))
    await topic.finish(job)


async def test_a_job_that_waits_to_be_handed_out_keeps_its_place(adapter: Adapter, topic: Any, clock: Clock) -> None:
    first = await adapter.run(event(topic))
    clock.advance("1m")
    later = await adapter.run(event(topic, body="new", headers={"a": "b"}, priority=1, max_lateness="1h"))
    assert (later.state, later.due) == ("ready", first.due + timedelta(seconds=4))
    job = await topic.pop()
    assert (job.body, job.headers, job.priority, job.created) == ("new", {"a": "b"}, 1, now(clock))


@pytest.mark.parametrize("then", ["reserved", "timed out", "failed", "dead"])
async def test_after_a_hand_out_a_new_window_begins(adapter: Adapter, topic: Any, clock: Clock, then: str) -> None:
    await adapter.run(event(topic, delay=0))
    job = await topic.pop(ttr=9)
    clock.advance(4.5)
    if then == "timed out":
        clock.advance(9)
    elif then != "reserved":
        await (topic.release(job, delay=FAR) if then == "failed" else topic.bury(job))
    added = await adapter.run(event(topic, body="new"))
    assert seconds(clock, added.due) == 1
    clock.advance(0.9)
    assert seconds(clock, (await adapter.run(event(topic, delay=5))).due) == 4.1


async def test_a_job_that_was_given_back_uncounted_goes_on_in_its_window(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await adapter.run(event(topic, delay=0))
    job = await topic.pop()
    clock.advance(4.5)
    await topic.release(job, delay=FAR, counted=False)
    assert seconds(clock, (await adapter.run(event(topic))).due) == 0.5


async def test_a_replacement_without_latest_begins_anew(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await adapter.run(event(topic))
    clock.advance(0.9)
    await topic.add("plain", id="7", delay=FAR, if_exists="replace")
    clock.advance(4.5)
    assert seconds(clock, (await adapter.run(event(topic))).due) == 0.5, "its own window began with it"


async def test_a_moment_counts_if_it_is_sooner(adapter: Adapter, topic: Any, clock: Clock) -> None:
    for after, due in ((3, 3), (9, 5)):
        await topic.delete("7")
        moment = now(clock) + timedelta(seconds=after)
        assert seconds(clock, (await adapter.run(event(topic, at=moment))).due) == due
    clock.advance(2)
    later = now(clock) + timedelta(days=1)
    assert seconds(clock, (await adapter.run(event(topic, at=later))).due) == 3


async def test_latest_of_the_last_event_counts(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await adapter.run(event(topic, latest="1h"))
    clock.advance(0.9)
    assert seconds(clock, (await adapter.run(event(topic, delay=9, latest="10s"))).due) == 9
    assert seconds(clock, (await adapter.run(event(topic, delay=3, latest="3s"))).due) == 2.1


async def test_a_repeated_event_answers_what_the_first_did(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await adapter.run(event(topic))
    clock.advance(0.9)
    call = event(topic, latest=2, delay=2)
    first = await adapter.run(call)
    assert seconds(clock, first.due) == 1.1
    clock.advance(0.5)
    assert await adapter.run(call.as_replay()) == first
    assert ((await topic.stats()).added, (await topic.stats()).repeated) == (2, 1)


async def test_jobs_of_one_call_have_a_window_each(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="a", delay=1)
    clock.advance(0.5)
    jobs = [NewJob(1, id="a", delay=4), NewJob(2, id="b"), NewJob(3, id="a", delay=5)]
    given = options(delay=2)
    added = await adapter.run(add.add_jobs(topic.verbs.context, jobs, given))
    assert [seconds(clock, one.due) for one in added] == [4, 2, 4.5]
    assert (await topic.get("a")).body == 3


async def test_the_handle_has_it(topic: Any, clock: Clock) -> None:
    for _ in range(2):
        one = await topic.add("tea", id="7", delay=10, latest=15, if_exists="replace")
        many = await topic.add_many([NewJob("tea", id="8")], delay=10, latest=15, if_exists="replace")
        clock.advance(9)
    assert [seconds(clock, added.due) for added in (one, *many)] == [-3, -3]


async def test_latest_that_says_nothing_is_refused(topic: Any) -> None:
    with pytest.raises(BadInput, match="shorter than the delay"):
        options("5s", delay="6s")
    with pytest.raises(BadInput, match="latest"):
        options(0, delay=0)
    for if_exists in ("error", "keep"):
        with pytest.raises(BadInput, match='give if_exists="replace"'):
            options(if_exists=if_exists)
    with pytest.raises(BadInput, match="without an id"):
        add.add_job(topic.verbs.context, "tea", options())
    for job in ("tea", NewJob("tea")):
        with pytest.raises(BadInput, match="job 1: latest: without an id"):
            add.add_jobs(topic.verbs.context, [NewJob(1, id="a"), job], options())
    with pytest.raises(BadInput, match="job 0: latest: it is shorter"):
        add.add_jobs(topic.verbs.context, [NewJob(1, id="a", delay="1h")], options())
