"""Many jobs that are settled together: what is usual for all of them takes a short way, and one that is not is seen among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tarry import Reservation, StaleReceipt
from tarry.clients.testing import Clock

N, ODD = 20, 13
REASONS: dict[str, Callable[[Any, Any, Clock], None]] = {
    "released": lambda topic, job, clock: topic.release(job, delay=60),
    "dead": lambda topic, job, clock: topic.bury(job),
    "gone": lambda topic, job, clock: topic.delete(job.id),
    "timed out": lambda topic, job, clock: (topic.touch(job, ttr=1), clock.advance(1)),
    "again": lambda topic, job, clock: (topic.release(job, delay=0), topic.pop()),
}
"""What became of one job, by the reason why its receipt does not hold."""


def popped(topic: Any, n: int = N) -> list[Any]:
    topic.add_many(range(n), ttr=60)
    jobs: list[Any] = topic.pop_many(n)
    return jobs


@pytest.mark.parametrize("n", [N, 2])
@pytest.mark.parametrize("reason", REASONS)
def test_one_receipt_that_no_longer_holds_is_refused_among_others(
    topic: Any, clock: Clock, server: Any, reason: str, n: int
) -> None:
    jobs = popped(topic, n)
    odd = jobs[ODD % n]
    REASONS[reason](topic, odd, clock)
    with pytest.raises(StaleReceipt) as refused:
        topic.finish_many(jobs)
    assert refused.value.reasons == {odd.id: reason}
    assert (topic.stats().finished, topic.stats().refused) == (n - 1, 1)
    keys = topic.verbs.keys
    assert server.hlen(keys.jobs) == server.hlen(keys.runs) == (reason != "gone")


@pytest.mark.parametrize("n", [N, 2])
def test_a_receipt_of_another_pop_does_not_hold(topic: Any, n: int) -> None:
    jobs = popped(topic, n)
    other = topic.add("other") and topic.pop()
    wrong = Reservation(jobs[ODD % n].id, other.receipt)
    with pytest.raises(StaleReceipt) as refused:
        topic.finish_many([wrong if job.id == wrong.id else job for job in jobs])
    assert refused.value.reasons == {wrong.id: "again"}
    topic.finish_many([jobs[ODD % n], other])
    assert topic.stats().finished == n + 1


@pytest.mark.parametrize("n", [N, 2])
def test_a_job_that_is_named_twice_is_finished_once(topic: Any, n: int) -> None:
    jobs = popped(topic, n)
    with pytest.raises(StaleReceipt) as refused:
        topic.finish_many([*jobs, jobs[1]])
    assert refused.value.reasons == {jobs[1].id: "gone"}
    assert (topic.stats().finished, topic.stats().refused, topic.stats().reserved) == (n, 1, 0)


def test_what_a_task_keeps_is_kept_among_others(topic: Any) -> None:
    jobs = popped(topic)
    topic.configure(keep_finished=60)
    topic.finish(jobs[0], result=1)
    topic.configure(keep_finished=None)
    topic.finish_many(jobs[1:])
    assert [one.id for one in topic.list("finished")] == [jobs[0].id]


def test_a_finish_leaves_nothing_behind(topic: Any, server: Any) -> None:
    topic.finish_many(popped(topic))
    keys = topic.verbs.keys
    assert not server.exists(keys.due, keys.reserved, keys.dead, keys.jobs, keys.runs)
