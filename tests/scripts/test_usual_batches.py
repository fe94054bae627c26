"""Many jobs that are handed out or settled together: what is usual for all of them takes a short way, and one that is not is seen among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tarry import NewJob, Reservation, StaleReceipt
from tarry.clients.testing import Clock

N, ODD = 20, 13
REASONS: dict[str, Callable[[Any, Any, Any], object]] = {
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


OPTIONS: list[dict[str, Any]] = [
    {},
    {"id": "own"},
    {"ttr": 7},
    {"ttr": 60},
    {"max_attempts": 1},
    {"headers": {"a": "b"}},
    {"max_lateness": 3600},
    {"priority": 0},
    {},
]


@pytest.mark.parametrize(
    "settings", [{}, {"ttr": 7}, {"max_attempts": 1}, {"rate": "1000/s"}, {"concurrency": 100}], ids=str
)
def test_usual_jobs_and_others_come_in_their_order(
    topic: Any, clock: Clock, server: Any, settings: dict[str, Any]
) -> None:
    if settings:
        topic.configure(**settings)
    added = topic.add_many(
        [NewJob(i, **options) for i, options in enumerate(OPTIONS * 3) if i < 9 or "id" not in options]
    )
    topic.release_many(topic.pop_many(2), delay=0, counted=False)
    clock.advance(1)
    jobs = topic.pop_many(100)
    assert sorted(job.id for job in jobs) == sorted(one.id for one in added)
    assert [job.due for job in jobs] == sorted(job.due for job in jobs)
    for job in jobs:
        options = OPTIONS[job.body % len(OPTIONS)]
        assert (job.attempt, topic.get(job.id).state) == (1, "reserved")
        assert job.ttr.total_seconds() == (options.get("ttr") or settings.get("ttr") or 60)
        assert job.headers == options.get("headers", {})
        reserved_for = server.zscore(topic.verbs.keys.reserved, job.id) - jobs[0].receipt
        assert 0 <= round(reserved_for - job.ttr.total_seconds() * 1e6) < 100
    topic.finish_many(jobs)
    assert topic.stats().finished == len(added)


@pytest.mark.parametrize("further", [{}, {"ttr": 7}], ids=["usual", "with a TTR"])
def test_the_lateness_of_each_job_counts(topic: Any, clock: Clock, server: Any, further: dict[str, Any]) -> None:
    for late_s in (100, 10, 10, 3, 3, 3, 1):
        topic.add(late_s, delay=100 - late_s, **further)
    clock.advance(100)
    assert len(topic.pop_many(100)) == 7
    counted = {name: int(n) for name, n in server.hgetall(topic.verbs.keys.meta).items() if name.startswith(b"late:")}
    assert sorted(counted.values()) == [1, 1, 2, 3]


def test_a_pop_takes_the_first_of_the_due_jobs_and_no_other(topic: Any, clock: Clock, server: Any) -> None:
    topic.add_many(range(N))
    topic.add("tomorrow", delay=86400)
    assert [job.body for job in topic.pop_many(7)] == list(range(7))
    assert [job.body for job in topic.pop_many(100)] == list(range(7, N))
    assert server.zcard(topic.verbs.keys.due) == 1
