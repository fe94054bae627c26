"""Settling needs the receipt that holds; a late one is refused and changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import now
from tarry import NewJob, Reservation, StaleReceipt
from tarry.clients.testing import Clock

VERBS = pytest.mark.parametrize("verb", ["finish", "touch", "release", "bury"])


async def refused(adapter: Adapter, topic: Any, verb: str, job: Any) -> StaleReceipt:
    """The verb is refused, and nothing but the count of refusals has changed."""
    before, stats = await topic.list(limit=1000), await topic.stats()
    with pytest.raises(StaleReceipt) as told:
        await getattr(topic, verb)(job)
    with pytest.raises(StaleReceipt):
        await getattr(topic, f"{verb}_many")([job])
    after = await topic.list(limit=1000)
    assert [(j.id, j.state, j.attempts, j.raw) for j in after] == [(j.id, j.state, j.attempts, j.raw) for j in before]
    assert (await topic.stats()).refused == stats.refused + 2
    assert told.value.id == job.id
    assert f"Job {job.id} " in str(told.value)
    assert "stop working on it" in str(told.value)
    return told.value


async def test_a_finished_job_is_gone(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", id="7")
    await topic.finish(await topic.pop())
    stats = await topic.stats()
    assert await topic.get("7") is None
    assert (stats.delayed, stats.ready, stats.reserved, stats.dead, stats.finished) == (0, 0, 0, 0, 1)


async def test_id_and_receipt_are_enough_to_settle_from_elsewhere(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop()
    held = Reservation("7", job.receipt)
    await topic.touch(held, ttr=5)
    await topic.release(held, delay=0)
    job = await topic.pop()
    await topic.finish(Reservation("7", job.receipt))
    assert await topic.get("7") is None


async def test_touch_restarts_the_ttr(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop(ttr=30)
    clock.advance(20)
    await topic.touch(job)
    assert (await topic.get("7")).reserved_until == now(clock) + timedelta(seconds=30)
    await topic.touch(job, ttr=100)
    assert (await topic.get("7")).reserved_until == now(clock) + timedelta(seconds=100)
    clock.advance(99)
    await adapter.of(job, "touch", ttr=1)
    clock.advance(1)
    job = await topic.pop(ttr=30)
    assert job.attempt == 2
    clock.advance(20)
    await adapter.of(job, "touch")
    assert (await topic.get("7")).reserved_until == now(clock) + timedelta(seconds=30)
    assert not hasattr(job, "keep"), "a topic and its job have one word"


async def test_batches_are_settled_together(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many([NewJob(n, id=str(n)) for n in range(8)])
    jobs = await topic.pop_many(8)
    await topic.touch_many(jobs, ttr=100)
    await topic.finish_many(jobs[:2])
    await topic.release_many(jobs[2:4], delay=5)
    await topic.bury_many(jobs[4:6], reason="no use")
    states = [info and info.state for info in await topic.get_many([str(n) for n in range(8)])]
    assert states == [None, None, "delayed", "delayed", "dead", "dead", "reserved", "reserved"]


async def test_valid_receipts_of_a_batch_are_settled(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(n, id=n) for n in "abc"])
    jobs = await topic.pop_many(3)
    await topic.delete("b")
    with pytest.raises(StaleReceipt, match="Job b "):
        await topic.finish_many(jobs)
    assert await topic.get_many(list("abc")) == [None] * 3
    assert ((await topic.stats()).finished, (await topic.stats()).refused) == (2, 1)


async def test_a_refusal_of_many_has_the_reason_of_each(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(n, id=n) for n in "abcd"])
    jobs = await topic.pop_many(4)
    await topic.delete("a")
    await topic.bury(jobs[1], reason="no use")
    await topic.release(jobs[2], delay=5)
    with pytest.raises(StaleReceipt) as raised:
        await topic.finish_many(jobs)
    assert raised.value.reasons == {"a": "gone", "b": "dead", "c": "released"}
    assert (raised.value.id, raised.value.reason, raised.value.attempt) == ("a", "gone", None)
    assert str(raised.value) == (
        "3 jobs were refused; stop working on them: a was finished or deleted, or belongs to another topic; b was set aside; "
        "c was released, or ran out of its time to run."
    )
    assert await topic.get("d") is None, "the fourth was finished"


async def test_a_refusal_says_when_the_topic_is_wrong_or_the_job_was_replaced(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop()
    await topic.bury(job)
    with pytest.raises(StaleReceipt, match="Job 7 was finished or deleted, or belongs to another topic;"):
        await adapter.topic("another").finish(job)
    await topic.add("milk", id="7", if_exists="replace")
    with pytest.raises(StaleReceipt, match="Job 7 waits, and was not handed out since it was added or replaced;"):
        await topic.finish(job)


@VERBS
async def test_a_new_job_that_was_too_late_was_never_handed_out(
    adapter: Adapter, topic: Any, clock: Clock, verb: str
) -> None:
    await topic.add("tea", id="7")
    old = await topic.pop()
    await topic.finish(old)
    await topic.add("milk", id="7", max_lateness=1)
    clock.advance(2)
    assert await topic.pop() is None
    told = await refused(adapter, topic, verb, old)
    assert (told.reason, told.attempt) == ("never", None)
    info = await topic.get("7")
    assert (info.state, info.reason, info.body) == ("dead", "too late", "milk")


async def test_a_refusal_of_many_names_ten_and_counts_the_others(adapter: Adapter, topic: Any) -> None:
    await topic.add_many([NewJob(n, id=f"job{n:02}") for n in range(12)])
    jobs = await topic.pop_many(12)
    await topic.finish_many(jobs)
    with pytest.raises(StaleReceipt, match=r"^12 jobs were refused; .*; job09 [^;]*; and 2 more\.$") as raised:
        await topic.touch_many(jobs)
    assert raised.value.reasons == {job.id: "gone" for job in jobs}


async def test_a_valid_receipt_is_accepted_beside_a_stale_one_of_the_same_job(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    await topic.add("tea", id="tea")
    old = await topic.pop(ttr=1)
    clock.advance(2)
    new = await topic.pop()
    with pytest.raises(StaleReceipt) as raised:  # awaited finishes of one turn go in one script, too
        await topic.finish_many([old, new])
    assert (raised.value.reason, raised.value.reasons) == ("again", {"tea": "again"})
    assert await topic.get("tea") is None
    assert (await topic.stats()).finished == 1


@VERBS
async def test_settling_too_late_is_refused_and_changes_nothing(
    adapter: Adapter, topic: Any, clock: Clock, verb: str
) -> None:
    """Promise: At least once; Receipts; Stale."""
    await topic.add("tea", id="7")
    slow = await topic.pop(ttr=10)
    clock.advance(11)
    told = await refused(adapter, topic, verb, slow)
    assert told.reason == "timed out"
    quick = await topic.pop()
    told = await refused(adapter, topic, verb, slow)
    assert (told.reason, told.attempt) == ("again", 2)
    await topic.finish(quick)
    assert (await refused(adapter, topic, verb, slow)).reason == "gone"


@VERBS
async def test_a_released_job_cannot_be_settled_again(adapter: Adapter, topic: Any, verb: str) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop()
    await topic.release(job, delay=5)
    assert (await refused(adapter, topic, verb, job)).reason == "released"


@VERBS
async def test_a_buried_job_cannot_be_settled_again(adapter: Adapter, topic: Any, verb: str) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop()
    await topic.bury(job, reason="no")
    assert (await refused(adapter, topic, verb, job)).reason == "dead"
    await topic.kick("7")
    await refused(adapter, topic, verb, job)


@VERBS
async def test_deleting_a_reserved_job_is_final_and_its_holder_is_refused(
    adapter: Adapter, topic: Any, verb: str
) -> None:
    await topic.add("tea", id="7")
    job = await topic.pop()
    assert await topic.delete("7") == "reserved"
    assert (await refused(adapter, topic, verb, job)).reason == "gone"
    assert await topic.get("7") is None


@VERBS
async def test_an_old_receipt_is_refused_for_a_new_job_with_the_same_id(
    adapter: Adapter, topic: Any, verb: str
) -> None:
    await topic.add("old", id="7")
    old = await topic.pop()
    await topic.delete("7")
    await topic.add("new", id="7")
    await refused(adapter, topic, verb, old)
    new = await topic.pop()
    await refused(adapter, topic, verb, old)
    assert (new.body, new.attempt) == ("new", 1)
    await topic.finish(new)


@VERBS
async def test_the_holder_of_a_replaced_job_is_refused(adapter: Adapter, topic: Any, verb: str) -> None:
    await topic.add("old", id="7")
    old = await topic.pop()
    await topic.add("new", id="7", if_exists="replace")
    await refused(adapter, topic, verb, old)
    assert (await topic.pop()).body == "new"


@VERBS
async def test_a_receipt_of_an_unknown_job_is_refused(adapter: Adapter, topic: Any, verb: str) -> None:
    given = {"ttr": 5} if verb == "touch" else {"delay": 5} if verb == "release" else {}
    with pytest.raises(StaleReceipt):
        await getattr(topic, verb)(Reservation("unknown", 12345), **given)


async def test_receipts_always_increase(adapter: Adapter, topic: Any, clock: Clock) -> None:
    seen = []
    for n in range(20):
        await topic.add(n, id="7")
        seen.append((await topic.pop()).receipt)
        if n % 3 == 0:
            await topic.purge()
        elif n % 3 == 1:
            await topic.delete("7")
        else:
            await topic.purge("reserved")
    assert seen == sorted(set(seen)), "rising, though the clock stood still"


@pytest.mark.parametrize(
    ("verb", "given", "state"),
    [
        ("finish", {}, None),
        ("release", {}, "delayed"),
        ("release", {"delay": 0, "counted": False}, "ready"),
        ("bury", {"reason": "no"}, "dead"),
    ],
)
async def test_a_job_object_has_the_settling_verbs(
    adapter: Adapter, topic: Any, verb: str, given: dict[str, Any], state: str | None
) -> None:
    await topic.add("tea", id="7")
    async with adapter.inside(await topic.pop()) as job:
        await adapter.of(job, verb, **given)
        assert job.settled
    info = await topic.get("7")
    assert (info and info.state) == state, "leaving the block did nothing more"
    if verb == "bury":
        assert info.reason == "no"
    if given.get("count") is False:
        assert info.attempts == 0
    with pytest.raises(StaleReceipt):
        await adapter.of(job, verb, **given)
