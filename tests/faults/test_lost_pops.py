"""An answer to pop that is lost never burns a job's last attempt: that one counts when its consumer has heard of it."""

from __future__ import annotations

from typing import Any

import pytest

import tarry
from faults.proxy import CUTS, DONE, LOST, UNSENT, Proxy
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs.pop import CONFIRM, POP

TTR = "10s"


@pytest.mark.parametrize("wait", [0, "1s"])
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("attempts", [1, 3])
def test_the_last_attempt_is_not_burnt_by_a_lost_answer(
    attempts: int, cut: str, wait: Any, kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way, topic = ways(kind, line.url()), direct.topic(name)
    topic.add("tea", id="a", max_attempts=attempts)
    for _ in range(attempts - 1):
        topic.release(topic.pop(), 0)
    way.call(way.topic(name), "stats")  # the connection is open
    line.arm(cut, at=POP.sha)
    job = way.call(way.topic(name), "pop", wait=wait, ttr=TTR)
    assert line.struck == 1
    if cut in DONE:
        assert job is None, "somebody has it, as far as the server knows"
        clock.advance("11s")
        job = way.call(way.topic(name), "pop", ttr=TTR)
    assert job is not None
    assert (job.id, job.attempt, topic.stats().dead) == ("a", attempts, 0)
    way.call(way.topic(name), "finish", job)
    assert topic.stats().finished == 1


@pytest.mark.parametrize("cut", CUTS)
def test_that_it_was_heard_of_may_be_lost_as_well(
    cut: str, kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way, topic = ways(kind, line.url()), direct.topic(name)
    topic.add_many([tarry.NewJob("tea", id=id, max_attempts=1) for id in "abc"])
    topic.add("often", id="d")
    way.call(way.topic(name), "stats")
    line.arm(cut, at=CONFIRM.sha)
    jobs = way.call(way.topic(name), "pop_many", 5, ttr=TTR)
    assert line.struck == 1
    assert [(job.id, job.attempt) for job in jobs] == [(id, 1) for id in "abcd"]
    clock.advance("11s")
    assert topic.pop().id == "d"
    assert {job.id: job.reason for job in topic.list("dead")} == dict.fromkeys("abc", "attempts exhausted")


def test_who_dies_before_he_could_say_so_has_not_used_it_up(
    kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way, topic = ways(kind, line.url(), patience=0.05), direct.topic(name)
    topic.add("tea", id="a", max_attempts=1)
    way.call(way.topic(name), "stats")
    line.arm(*[UNSENT] * 30, at=CONFIRM.sha)
    with pytest.raises(tarry.Unavailable):
        way.call(way.topic(name), "pop", ttr=TTR)
    clock.advance("11s")
    job = topic.pop()
    assert (job.id, job.attempt) == ("a", 1)
    topic.bury(job, reason="seen")
    assert topic.stats().dead == 1


def test_a_job_that_was_somebody_else_s_by_then_is_not_handed_out(
    kind: str, ways: Any, line: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    way, topic = ways(kind, line.url()), direct.topic(name)
    topic.add("tea", id="a", max_attempts=1, ttr="1ms")
    way.call(way.topic(name), "stats")
    line.arm(LOST, at=POP.sha)
    assert way.call(way.topic(name), "pop") is None
    clock.advance("10ms")
    job = topic.pop()
    assert (job.id, job.attempt) == ("a", 1)
    held = job.receipt
    assert topic.engine.run(_confirm(topic, "a", held - 1)) == [0]
    assert topic.engine.run(_confirm(topic, "a", held)) == [1]


def _confirm(topic: Any, id: str, receipt: int) -> Any:
    from tarry.core.requests import ScriptCall

    return ScriptCall(CONFIRM, topic.verbs.keys, (), list, items=[id.encode(), b"%d" % receipt])


def test_a_worker_that_died_unheard_leaves_the_attempt(direct: TestClient, name: str) -> None:
    from tarry.verbs.jobs import pop

    topic = direct.topic(name)
    topic.add("tea", id="a", max_attempts=1)
    topic.engine.run(pop.pop_step(topic.verbs.keys, 1, ttr=b"0", holder=b"dead"))  # its answer reaches nobody
    assert topic.release_holder("dead", count=True) == 1
    job = topic.pop()
    assert (job.id, job.attempt) == ("a", 1)
