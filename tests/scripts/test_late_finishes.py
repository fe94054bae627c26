"""A finish that is repeated after its connection broke: the same answer if it was done, a refusal if it came too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock
from tarry.verbs.jobs import settle

Late = Callable[[Any, Clock], None]


def asked_again(topic: Any, job: Any) -> str:
    """What a finish is told that is repeated: nothing, or the reason."""
    [outcome] = topic.engine.run(settle.FINISH.call(topic.verbs.keys, settle.FINISH.encode([job])).as_replay())
    return "" if outcome is None else outcome.reason


def another_finished_it(topic: Any, clock: Clock) -> None:
    clock.advance("11s")
    topic.finish(topic.pop())


def another_finished_it_after_a_third_failed(topic: Any, clock: Clock) -> None:
    clock.advance("11s")
    topic.release(topic.pop(), delay=0)
    topic.finish(topic.pop())


def it_was_deleted(topic: Any, clock: Clock) -> None:
    topic.delete("a")


def it_was_deleted_while_another_had_it(topic: Any, clock: Clock) -> None:
    clock.advance("11s")
    assert topic.pop().attempt >= 2
    topic.delete("a")


def it_was_deleted_when_its_time_was_over(topic: Any, clock: Clock) -> None:
    clock.advance("11s")
    topic.add("other", id="b")
    topic.pop_many(1)
    topic.delete("a")


def it_was_deleted_and_added_anew(topic: Any, clock: Clock) -> None:
    topic.delete("a")
    clock.advance("1ms")
    topic.add("another", id="a")
    clock.advance("1ms")


def it_was_deleted_added_anew_and_finished(topic: Any, clock: Clock) -> None:
    it_was_deleted_and_added_anew(topic, clock)
    topic.finish(topic.pop())


LATE = [value for name, value in list(globals().items()) if name.startswith(("another_", "it_was"))]


@pytest.mark.parametrize("late", LATE, ids=lambda late: late.__name__)
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_late_finish_is_refused_first_time_and_repeated(topic: Any, clock: Clock, late: Late, attempts: int) -> None:
    topic.add("tea", id="a")
    clock.advance("1ms")
    for _ in range(attempts - 1):
        topic.release(topic.pop(), delay=0)
        clock.advance("1ms")
    job = topic.pop(ttr="10s")
    late(topic, clock)
    clock.advance("1ms")
    before = [dict(vars(one)) if hasattr(one, "__dict__") else str(one) for one in topic.list()]
    assert asked_again(topic, job) == "gone"
    with pytest.raises(tarry.StaleReceipt):
        topic.finish(job)
    assert [dict(vars(one)) if hasattr(one, "__dict__") else str(one) for one in topic.list()] == before
    assert topic.stats().refused == 2


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("again", ["", "added", "added and deleted", "added and taken and deleted", "finished by two"])
def test_a_repeated_finish_returns_the_first_answer(topic: Any, clock: Clock, attempts: int, again: str) -> None:
    topic.add("tea", id="a")
    clock.advance("1ms")
    for _ in range(attempts - 1):
        topic.pop(ttr="10s")
        clock.advance("11s")
    job = topic.pop()
    topic.finish(job)  # and the answer is lost
    clock.advance("1ms")
    if again:
        topic.add("another", id="a")
    if again == "added and deleted":
        topic.delete("a")
    if again == "added and taken and deleted":
        topic.pop()
        topic.delete("a")
    if again == "finished by two":
        topic.pop(ttr="10s")
        clock.advance("11s")
        topic.finish(topic.pop())
    assert asked_again(topic, job) == ""


def test_a_finish_of_a_later_job_with_the_same_id_is_not_late(topic: Any, clock: Clock) -> None:
    for attempts in (2, 1):
        topic.add("tea", id="a")
        clock.advance("1ms")
        for _ in range(attempts - 1):
            topic.release(topic.pop(), delay=0)
            clock.advance("1ms")
        job = topic.pop()
        topic.finish(job)
        clock.advance("1ms")
    assert asked_again(topic, job) == ""


@pytest.mark.slow
def test_stale_receipts_are_stored_only_for_jobs_with_several_holders(topic: Any, clock: Clock, server: Any) -> None:
    key = topic.verbs.keys.due.replace(b":due", b":stale")
    topic.add_many(range(500))
    topic.finish_many(topic.pop_many(500))
    for id in topic.add_many(range(500)):
        topic.delete(id.id)
    assert server.exists(key) == 0
    for _ in range(3):
        topic.add_many(range(700))
        jobs = topic.pop_many(700)
        topic.release_many(jobs, delay=0)
        clock.advance("1ms")
        topic.finish_many(topic.pop_many(700))
    assert server.hlen(key) <= 1000
    assert 0 < server.pttl(key) <= 60_000
    topic.purge()
    assert server.exists(key) == 0


def test_a_clock_set_back_makes_no_repeated_finish_late(topic: Any, clock: Clock) -> None:
    topic.add("tea", id="a")
    clock.advance("1ms")
    job = topic.pop()
    topic.finish(job)
    clock.us -= 3_600_000_000
    clock._apply()
    topic.add("tea", id="a")
    clock.advance("1ms")
    topic.pop()
    topic.delete("a")
    assert asked_again(topic, job) == ""
