"""A call whose answer was lost is repeated: nothing is done twice, and the answer is the same."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import now
from tarry import JobExists, NewJob
from tarry.clients.testing import Clock
from tarry.verbs.jobs import add, by_id, options, settle

SETTLE = {
    "finish": lambda t, job: settle.FINISH.call(t.verbs.keys, settle.FINISH.encode([job])),
    "touch": lambda t, job: settle.TOUCH.call(t.verbs.keys, settle.TOUCH.encode([job], ttr=40)),
    "release": lambda t, job: settle.RELEASE.call(t.verbs.keys, settle.RELEASE.encode([job], delay=5)),
    "bury": lambda t, job: settle.BURY.call(t.verbs.keys, settle.BURY.encode([job], reason="no")),
}
AFTER = {"finish": None, "touch": "reserved", "release": "delayed", "bury": "dead"}
VERBS = pytest.mark.parametrize("verb", SETTLE)


async def state_of(topic: Any) -> str | None:
    info = await topic.get("7")
    return info.state if info else None


async def reserved(topic: Any, **options: Any) -> Any:
    await topic.add("tea", id="7", **options)
    return await topic.pop(ttr=30)


def refusal_reason(outcomes: list[Any]) -> str | None:
    return outcomes[0] and outcomes[0].reason


@VERBS
async def test_settling_twice_settles_once(adapter: Adapter, topic: Any, clock: Clock, verb: str) -> None:
    """Promise: Retries without duplicates."""
    job = await reserved(topic)
    call = SETTLE[verb](topic, job)
    assert refusal_reason(await adapter.run(call)) is None
    seen = await topic.get("7")
    for _ in range(3):
        assert refusal_reason(await adapter.run(call.as_replay())) is None
        assert await state_of(topic) == AFTER[verb]
    if seen:
        again = await topic.get("7")
        assert (again.due, again.died, again.attempts) == (seen.due, seen.died, seen.attempts)
    stats = await topic.stats()
    done = {"finish": stats.finished, "release": stats.released, "bury": stats.died, "touch": 1}
    assert (done[verb], stats.refused) == (1, 0)


@VERBS
async def test_a_repetition_does_what_the_lost_first_call_did_not(adapter: Adapter, topic: Any, verb: str) -> None:
    job = await reserved(topic)
    assert refusal_reason(await adapter.run(SETTLE[verb](topic, job).as_replay())) is None
    assert await state_of(topic) == AFTER[verb]


@VERBS
async def test_a_repetition_settles_even_after_the_ttr(adapter: Adapter, topic: Any, clock: Clock, verb: str) -> None:
    job = await reserved(topic)
    clock.advance(31)
    assert refusal_reason(await adapter.run(SETTLE[verb](topic, job).as_replay())) is None
    assert await state_of(topic) == AFTER[verb]


@pytest.mark.parametrize("verb", ["finish", "bury"])
async def test_a_repetition_settles_a_job_that_was_put_back(
    adapter: Adapter, topic: Any, clock: Clock, verb: str
) -> None:
    job = await reserved(topic)
    clock.advance(31)
    await topic.pause("1h")
    await topic.pop()  # puts it back, hands out nothing
    assert refusal_reason(await adapter.run(SETTLE[verb](topic, job).as_replay())) is None
    assert await state_of(topic) == AFTER[verb]


@VERBS
async def test_a_repetition_is_refused_once_another_holder_has_the_job(
    adapter: Adapter, topic: Any, clock: Clock, verb: str
) -> None:
    job = await reserved(topic)
    clock.advance(31)
    other = await topic.pop()
    assert refusal_reason(await adapter.run(SETTLE[verb](topic, job).as_replay())) == "again"
    await topic.finish(other)


@VERBS
async def test_only_a_repeated_finish_of_a_missing_job_succeeds(adapter: Adapter, topic: Any, verb: str) -> None:
    job = await reserved(topic)
    await topic.delete("7")
    expected = None if verb == "finish" else "gone"
    assert refusal_reason(await adapter.run(SETTLE[verb](topic, job).as_replay())) == expected


@VERBS
async def test_a_repetition_leaves_a_new_job_with_the_same_id_alone(adapter: Adapter, topic: Any, verb: str) -> None:
    job = await reserved(topic)
    await topic.delete("7")
    await topic.add("new", id="7")
    await adapter.run(SETTLE[verb](topic, job).as_replay())
    info = await topic.get("7")
    assert (info.state, info.body, info.attempts) == ("ready", "new", 0)


@VERBS
async def test_a_repetition_leaves_a_new_job_alone_that_was_too_late(
    adapter: Adapter, topic: Any, clock: Clock, verb: str
) -> None:
    job = await reserved(topic)
    await topic.finish(job)
    await topic.add("new", id="7", max_lateness=1)
    clock.advance(2)
    assert await topic.pop() is None
    expected = None if verb == "finish" else "gone"
    assert refusal_reason(await adapter.run(SETTLE[verb](topic, job).as_replay())) == expected
    info = await topic.get("7")
    assert (info.state, info.reason, info.body) == ("dead", "too late", "new")
    assert (await topic.stats()).refused == (0 if verb == "finish" else 1)


async def test_each_job_of_a_repeated_batch_is_judged_by_itself(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(n, id=n) for n in "abc"])
    jobs = await topic.pop_many(3)
    await topic.finish(jobs[0])
    await topic.release(jobs[1], delay=0)
    call = settle.FINISH.call(topic.verbs.keys, settle.FINISH.encode(jobs))
    assert await adapter.run(call.as_replay()) == [None] * 3
    assert await topic.get_many(list("abc")) == [None] * 3


# ── add ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def adding(topic: Any, id: str | None = "7", **given: Any) -> Any:
    return add.add_job(topic.verbs.context, "tea", options.JobOptions(**given).encode(), id)


@pytest.mark.parametrize("if_exists", ["error", "keep", "replace"])
@pytest.mark.parametrize("id", ["7", None])
async def test_a_repeated_add_adds_once_and_returns_the_same(
    adapter: Adapter, topic: Any, clock: Clock, if_exists: Any, id: str | None
) -> None:
    """Promise: Retries without duplicates."""
    call = adding(topic, id, delay=10, if_exists=if_exists)
    first = await adapter.run(call)
    clock.advance(3)
    assert await adapter.run(call.as_replay()) == first
    stats = await topic.stats()
    assert (stats.delayed, stats.added, stats.repeated) == (1, 1, 1)
    assert (await topic.get(first.id)).due == first.due


@pytest.mark.parametrize("if_exists", ["error", "keep", "replace"])
async def test_a_repeated_add_finds_its_job_in_any_state(
    adapter: Adapter, topic: Any, clock: Clock, if_exists: Any
) -> None:
    call = adding(topic, if_exists=if_exists)
    first = await adapter.run(call)
    job = await topic.pop()
    second = await adapter.run(call.as_replay())
    assert (second.id, second.is_new, second.due) == (first.id, True, first.due)
    assert await state_of(topic) == "reserved"
    await topic.bury(job)
    await adapter.run(call.as_replay())
    assert await state_of(topic) == "dead"
    await topic.kick("7")
    await topic.reschedule("7", delay=50)
    await adapter.run(call.as_replay())
    assert (await topic.get("7")).due == now(clock) + timedelta(seconds=50)


async def test_a_repeated_add_never_replaces_another_job(adapter: Adapter, topic: Any) -> None:
    call = adding(topic)
    await adapter.run(call)
    await topic.delete("7")
    await topic.add("another", id="7")
    with pytest.raises(JobExists):
        await adapter.run(call.as_replay())
    assert (await topic.get("7")).body == "another"


@pytest.mark.parametrize("id", ["7", None])
async def test_a_repeated_add_of_a_finished_job_runs_it_again(adapter: Adapter, topic: Any, id: str | None) -> None:
    call = adding(topic, id)
    first = await adapter.run(call)
    await topic.finish(await topic.pop())
    assert (await adapter.run(call.as_replay())).id == first.id
    assert (await topic.pop()).id == first.id


async def test_a_repeated_batch_is_added_once(adapter: Adapter, topic: Any, clock: Clock) -> None:
    context = topic.verbs.context
    (chunk,) = add._chunks(context, ["plain", NewJob(1, id="a"), NewJob(2, id="b", delay=5)], options.ENCODED_DEFAULTS)
    call = add._add_call(context, add.ADD, chunk, moves=False)
    first = await adapter.run(call)
    assert [one.is_new for one in first] == [True] * 3
    assert await adapter.run(call.as_replay()) == first
    assert (await topic.stats()).added == 3
    with pytest.raises(JobExists):
        await adapter.run(
            add._add_call(
                context, add.ADD, add._chunks(context, [NewJob(1, id="a")], options.ENCODED_DEFAULTS)[0], moves=False
            )
        )


async def test_kick_delete_and_reschedule_are_idempotent(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.bury(await reserved(topic))
    calls = [(by_id.KICK, {}), (by_id.RESCHEDULE, {"delay": 5, "at": None}), (by_id.DELETE, {})]
    for call in [topic.verbs.by_id(verb, ["7"], **given) for verb, given in calls]:
        await adapter.run(call)
        state = await state_of(topic)
        await adapter.run(call.as_replay())
        assert await state_of(topic) == state
