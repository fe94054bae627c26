"""Reserved by id, and headers that change: for protocols whose jobs know more than tarry's."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from tarry import NewJob
from tarry.clients.blocking.topic import jobs_of
from tarry.clients.testing import Clock
from tarry.verbs.namespaces import NamespaceVerbs

ANY = ("delayed", "ready", "dead")


def pop_by_id(topic: Any, id: str, *states: str) -> Any:
    taken = topic.engine.run(topic.verbs.pop_by_id(id, states or ANY))
    return None if taken is None else jobs_of(topic, taken, taken.jobs)[0]


def test_a_job_is_reserved_whatever_state_it_waits_in(topic: Any) -> None:
    topic.add_many([NewJob("a", id="dead"), NewJob("b", id="ready"), NewJob("c", id="delayed", delay=60)])
    topic.bury(topic.pop())
    for id, attempt in (("dead", 2), ("ready", 1), ("delayed", 1)):
        job = pop_by_id(topic, id)
        assert (job.id, job.attempt, topic.get(id).state) == (id, attempt, "reserved")
        topic.finish(job)
    topic.check()


def test_a_job_in_another_state_or_none_is_left_alone(topic: Any) -> None:
    topic.add("a", id="7", delay=60)
    assert pop_by_id(topic, "7", "dead", "ready") is None
    assert pop_by_id(topic, "8") is None
    assert topic.get("7").state == "delayed"
    pop_by_id(topic, "7")
    assert pop_by_id(topic, "7") is None


def test_a_reservation_whose_time_is_over_counts_as_ready(topic: Any, clock: Clock) -> None:
    topic.add("a", id="7", ttr=10)
    first = topic.pop()
    clock.advance(11)
    second = pop_by_id(topic, "7")
    assert second.receipt > first.receipt
    assert second.attempt == 2
    assert topic.stats().timed_out == 1


@pytest.mark.parametrize(("topics", "own", "limit"), [(UNSET, UNSET, 20), (3, UNSET, 3), (3, 2, 2), (3, None, None)])
def test_a_job_that_is_reserved_by_id_has_the_attempts_of_any_other(
    topic: Any, topics: Any, own: Any, limit: int | None
) -> None:
    topic.configure(max_attempts=topics)
    topic.add("a", id="7", max_attempts=own)
    pop_by_id(topic, "7")
    assert topic.get("7").effective_max_attempts == limit


def test_a_pause_does_not_keep_a_job_from_being_reserved_by_id(topic: Any) -> None:
    topic.add("a", id="7")
    topic.pause(60)
    assert topic.pop() is None
    assert pop_by_id(topic, "7").body == "a"


@pytest.mark.parametrize("options", [{}, {"max_lateness": 60}, {"headers": {"a": "b", "long": "x" * 500}}])
def test_headers_are_replaced_and_the_body_stays(topic: Any, options: dict[str, Any]) -> None:
    topic.add({"order": 7}, id="7", **options)
    job = topic.pop()
    assert topic.engine.run(topic.verbs.set_headers(job, {"pri": "5"}))
    found = topic.get("7")
    assert (found.headers, found.body, found.created) == ({"pri": "5"}, {"order": 7}, job.created)
    topic.release(job, delay=0)
    assert topic.pop().headers == {"pri": "5"}


@pytest.mark.parametrize("options", [{}, {"max_lateness": 60}, {"priority": 1}, {"priority": 3}])
def test_a_priority_is_replaced_with_the_headers(topic: Any, options: dict[str, Any]) -> None:
    topic.add("first", id="1")
    topic.add(b"body", id="7", headers={"a": "b"}, **options)
    first, job = sorted(topic.pop_many(2), key=lambda one: one.id)
    assert topic.engine.run(topic.verbs.set_headers(job, {"pri": "5"}, 2))
    found = topic.get("7")
    assert (found.priority, found.headers, found.body, found.created) == (2, {"pri": "5"}, b"body", job.created)
    topic.release_many([first, job], delay=0)
    job, first = topic.pop_many(2)
    assert (job.id, first.id) == ("7", "1")
    assert topic.engine.run(topic.verbs.set_headers(job, {}, 0))
    topic.release_many([first, job], delay=0)
    assert [one.id for one in topic.pop_many(2)] == ["1", "7"]


def test_headers_are_not_replaced_with_a_receipt_that_does_not_hold(topic: Any, clock: Clock) -> None:
    topic.add("a", id="7", ttr=10, headers={"a": "b"})
    job = topic.pop()
    clock.advance(11)
    assert not topic.engine.run(topic.verbs.set_headers(job, {"a": "c"}))
    topic.delete("7")
    assert not topic.engine.run(topic.verbs.set_headers(job, {"a": "c"}))
    assert topic.get("7") is None


def test_numbers_rise_and_nobody_gets_one_twice(client: Any) -> None:
    blocks = [client.engine.run(NamespaceVerbs(client.namespace).reserve_numbers(10)) for _ in range(3)]
    assert blocks == [10, 20, 30]
