"""A lost answer of pop never uses up a job's last attempt: that one counts when its consumer has confirmed it."""

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
def test_a_lost_answer_does_not_use_up_the_last_attempt(
    attempts: int,
    cut: str,
    wait: Any,
    kind: str,
    make_client: Any,
    proxy: Proxy,
    direct: TestClient,
    clock: Clock,
    name: str,
) -> None:
    any_client, topic = make_client(kind, proxy.url()), direct.topic(name)
    topic.add("tea", id="a", max_attempts=attempts)
    for _ in range(attempts - 1):
        topic.release(topic.pop(), delay=0)
    any_client.call(any_client.topic(name), "stats")  # the connection is open
    proxy.arm(cut, at=POP.sha)
    job = any_client.call(any_client.topic(name), "pop", wait=wait, ttr=TTR)
    assert proxy.struck == 1
    if cut in DONE:
        assert job is None, "somebody has it, as far as the server knows"
        clock.advance("11s")
        job = any_client.call(any_client.topic(name), "pop", ttr=TTR)
    assert job is not None
    assert (job.id, job.attempt, topic.stats().dead) == ("a", attempts, 0)
    any_client.call(any_client.topic(name), "finish", job)
    assert topic.stats().finished == 1


@pytest.mark.parametrize("cut", CUTS)
def test_the_confirmation_of_a_last_attempt_may_be_lost_too(
    cut: str, kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    any_client, topic = make_client(kind, proxy.url()), direct.topic(name)
    topic.add_many([tarry.NewJob("tea", id=id, max_attempts=1) for id in "abc"])
    topic.add("often", id="d")
    any_client.call(any_client.topic(name), "stats")
    proxy.arm(cut, at=CONFIRM.sha)
    jobs = any_client.call(any_client.topic(name), "pop_many", 5, ttr=TTR)
    assert proxy.struck == 1
    assert [(job.id, job.attempt) for job in jobs] == [(id, 1) for id in "abcd"]
    clock.advance("11s")
    assert topic.pop().id == "d"
    assert {job.id: job.reason for job in topic.list("dead")} == dict.fromkeys("abc", "attempts exhausted")


def test_a_consumer_that_dies_before_confirming_leaves_the_last_attempt(
    kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    any_client, topic = make_client(kind, proxy.url(), patience=0.05), direct.topic(name)
    topic.add("tea", id="a", max_attempts=1)
    any_client.call(any_client.topic(name), "stats")
    proxy.arm(*[UNSENT] * 30, at=CONFIRM.sha)
    with pytest.raises(tarry.Unavailable):
        any_client.call(any_client.topic(name), "pop", ttr=TTR)
    clock.advance("11s")
    job = topic.pop()
    assert (job.id, job.attempt) == ("a", 1)
    topic.bury(job, reason="seen")
    assert topic.stats().dead == 1


def test_a_repeated_pop_does_not_hand_out_a_last_attempt_that_ran_out(
    kind: str, make_client: Any, proxy: Proxy, direct: TestClient, clock: Clock, name: str
) -> None:
    any_client, topic = make_client(kind, proxy.url()), direct.topic(name)
    topic.add("tea", id="a", max_attempts=1, ttr="1ms")
    any_client.call(any_client.topic(name), "stats")
    proxy.arm(LOST, at=POP.sha)
    assert any_client.call(any_client.topic(name), "pop") is None
    clock.advance("10ms")
    job = topic.pop()
    assert (job.id, job.attempt) == ("a", 1)
    held = job.receipt
    assert topic.engine.run(_confirm(topic, "a", held - 1)) == [0]
    assert topic.engine.run(_confirm(topic, "a", held)) == [1]


def _confirm(topic: Any, id: str, receipt: int) -> Any:
    from tarry.core.requests import ScriptCall

    return ScriptCall(CONFIRM, topic.verbs.keys, (), list, items=[id.encode(), b"%d" % receipt])


def test_releasing_a_dead_holder_keeps_an_unconfirmed_last_attempt(direct: TestClient, name: str) -> None:
    from tarry.verbs.jobs import pop

    topic = direct.topic(name)
    topic.add("tea", id="a", max_attempts=1)
    topic.engine.run(pop.pop_step(topic.verbs.keys, 1, ttr=b"0", holder=b"dead"))  # its answer reaches nobody
    assert topic.release_holder("dead") == 1
    job = topic.pop()
    assert (job.id, job.attempt) == ("a", 1)
