"""A server whose memory is full: verbs that free memory or hand out jobs work; others are refused with an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tarry import NewJob, StaleReceipt, Unavailable
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs.jobs.add import add_job
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.settle import FINISH, encode_result


@pytest.fixture
def full(own_server: Callable[..., ServerProcess]) -> Iterator[tuple[ServerProcess, Any, Clock]]:
    """Ready, reserved and dead jobs, and then not a byte to spare."""
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        topic = client.topic("t")
        topic.add_many([NewJob(n, id=f"dead{n}") for n in range(5)])
        topic.bury_many(topic.pop_many(5))
        topic.add_many([NewJob(b"x" * 500, id=f"ready{n}") for n in range(50)])
        topic.add_many([NewJob(n, id=f"delayed{n}", delay=5) for n in range(5)])
        running.ask("CONFIG", "SET", "maxmemory", "1")
        yield running, topic, clock


def test_adding_is_refused_and_nothing_is_written(full: Any) -> None:
    running, topic, _ = full
    before, stats = running.ask("DBSIZE"), topic.stats()
    for ask in (
        lambda: topic.add("tea"),
        lambda: topic.add("tea", id="7"),
        lambda: topic.add("tea", id="ready1", if_exists="replace"),
        lambda: topic.add_many(["tea", NewJob("tea", id="8")]),
    ):
        with pytest.raises(Unavailable, match="memory is full"):
            ask()
    assert (running.ask("DBSIZE"), topic.stats()) == (before, stats)
    assert topic.get("7") is None
    assert topic.get("ready1").raw == b"x" * 500


def test_a_job_is_popped_and_finished(full: Any) -> None:
    _, topic, _ = full
    while job := topic.pop():
        topic.finish(job)
    stats = topic.stats()
    assert (stats.ready, stats.reserved, stats.finished) == (0, 0, 50)
    assert topic.check().ok


def test_many_jobs_are_popped_touched_and_finished(full: Any) -> None:
    _, topic, _ = full
    jobs = topic.pop_many(50)
    topic.touch_many(jobs, ttr=90)
    topic.finish_many(jobs)
    assert topic.pop_many(10) == []
    assert topic.check().ok


def test_every_other_settling_verb_works(full: Any) -> None:
    _, topic, _ = full
    a, b = topic.pop_many(2)
    topic.release(a, delay=0)
    topic.bury(b, reason="no")
    assert topic.kick(b.id) == "dead"
    assert topic.kick_many([f"dead{n}" for n in range(5)]) == ["dead"] * 5
    assert topic.reschedule("delayed0", delay=0) == "delayed"
    assert topic.delete("ready9") == "ready"
    assert topic.delete("unknown") is None
    assert topic.kick("unknown") is None
    assert topic.stats().ready == 50 + 5 + 1 - 1
    assert topic.check().ok


def test_a_step_is_refused_and_its_job_is_released(full: Any) -> None:
    running, topic, _ = full
    job = topic.pop()
    with pytest.raises(Unavailable, match="memory is full"):
        job.step("charge", lambda: 17)
    assert topic.get(job.id).steps == job.steps == {}
    job.release(delay=0)
    running.ask("CONFIG", "SET", "maxmemory", "0")
    again = next(one for one in topic.pop_many(50) if one.id == job.id)
    assert again.step("charge", lambda: 18) == 18


def test_reservations_expire_and_jobs_are_handed_out_again(full: Any) -> None:
    _, topic, clock = full
    assert len(topic.pop_many(50, ttr=10)) == 50
    clock.advance(11)
    again = topic.pop_many(60)
    assert sorted({job.attempt for job in again}) == [1, 2]
    assert len(again) == 55


def test_an_empty_pop_and_a_wait_work_too(full: Any) -> None:
    _, topic, _ = full
    assert len(topic.pop_many(50)) == 50
    assert topic.pop() is None
    assert topic.pop(wait=60).body == 0
    assert topic.pop(wait=0.001) is not None


@pytest.mark.parametrize("verb", ["finish", "touch", "release", "bury"])
def test_settling_too_late_still_raises_stale_receipt(full: Any, verb: str) -> None:
    _, topic, clock = full
    job = topic.pop(ttr=10)
    clock.advance(20)
    with pytest.raises(StaleReceipt, match="time to run"):
        getattr(topic, verb)(job)
    topic.delete(job.id)
    with pytest.raises(StaleReceipt, match="finished or deleted"):
        getattr(topic, verb)(job)


def test_views_and_purge_work(full: Any) -> None:
    _, topic, _ = full
    assert topic.stats().ready == 50
    assert len(topic.list(limit=100)) == 60
    assert topic.histogram().before == 50
    assert sum(minute.died for minute in topic.throughput()) == 5
    assert [group.count for group in topic.dead_groups()] == [5]
    topic.resume()
    assert topic.purge("dead") == 5
    assert topic.purge() == 55


def test_a_limited_topic_still_works(own_server: Callable[..., ServerProcess]) -> None:
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        topic = client.topic("t")
        topic.configure(rate="10/s", burst=2, concurrency=2, max_lateness="1h")
        topic.add_many(range(20))
        clock.advance(1)
        running.ask("CONFIG", "SET", "maxmemory", "1")
        done = []
        while len(done) < 20:
            for job in topic.pop_many(5) or topic.pop_many(5, wait=5):
                done.append(job.body)
                topic.finish(job)
        assert done == list(range(20))


def test_a_due_schedule_does_not_block_others(own_server: Callable[..., ServerProcess]) -> None:
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        topic = client.topic("t")
        client.schedules.put(topic, "s", "scheduled", every=60)
        topic.add("later", delay=61)
        clock.advance(62)
        running.ask("CONFIG", "SET", "maxmemory", "1")
        assert [job.body for job in topic.pop_many(5)] == ["scheduled", "later"]
        with pytest.raises(Unavailable, match="memory is full"):
            client.schedules.put(topic, "more", every=60)


def test_a_finished_job_is_kept_without_its_result(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with TestClient(running.url, Clock()) as client:
        topic = client.topic("t")
        topic.configure(keep_finished="1d")
        topic.add_many([NewJob("tea", id=f"{n}") for n in range(3)])
        jobs = topic.pop_many(3)
        topic.finish(jobs[0], result="room")
        running.ask("CONFIG", "SET", "maxmemory", "1")
        topic.verbs.holder = b"w"
        client.engine.run(topic.verbs.settle(FINISH, jobs[1:], results=[encode_result("x" * 1000)] * 2))
        assert topic.stats().finished == 3
        assert topic.check().ok
        assert topic.get("0").result == "room"
        assert [topic.get(id).result_not_kept for id in "12"] == ["the server's memory was full"] * 2


def test_a_finished_job_is_found_once_and_adds_nothing(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with TestClient(running.url, Clock()) as client:
        topic = client.topic("t")
        topic.configure(keep_finished="1d")
        topic.add_many([NewJob("tea", id=f"{n}") for n in range(3)], if_exists="once")
        running.ask("CONFIG", "SET", "maxmemory", "1")
        topic.finish_many(topic.pop_many(2))
        for id in "01":
            assert topic.add("tea", id=id, if_exists="once").state == "finished", "it writes nothing"
        with pytest.raises(Unavailable, match="memory is full"):
            topic.add("tea", id="3", if_exists="once")
        running.ask("CONFIG", "SET", "maxmemory", "0")
        added = topic.add_many([NewJob("tea", id=f"{n}") for n in range(4)], if_exists="once")
        assert [one.state for one in added] == ["finished", "finished", "ready", "ready"]
        assert (topic.stats().added, topic.stats().finished_lost) == (4, 0)


def test_an_add_once_whose_answer_was_lost_is_answered_again(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with TestClient(running.url, Clock()) as client:
        topic = client.topic("t")
        topic.configure(keep_finished="1d")
        call = add_job(topic.verbs.context, "tea", JobOptions(if_exists="once").encode(), "7")
        first = client.engine.run(call)
        topic.finish(topic.pop())
        running.ask("CONFIG", "SET", "maxmemory", "1")
        assert client.engine.run(call.as_replay()) == first
        assert topic.pop() is None
        running.ask("CONFIG", "SET", "maxmemory", "0")
        assert client.engine.run(call.as_replay()).is_new
        assert topic.stats().repeated == 1, "counted where that can be written"


@pytest.mark.parametrize("result", [None, "room"])
@pytest.mark.parametrize(("part", "state"), [("results", "finished"), ("finished", "ready")])
def test_what_cannot_be_kept_is_finished_all_the_same(
    topic: Any, server: Any, part: str, state: str, result: Any
) -> None:
    """A stranger's key is in the place of tarry's: of the records, then the id counts; of the ids, then their loss does."""
    topic.configure(keep_finished="1d")
    topic.add_many([NewJob("tea", id=f"{n}") for n in range(3)])
    first, *rest = topic.pop_many(3)
    topic.finish(first)
    key = topic.verbs.keys.due.removesuffix(b"due") + part.encode()
    server.delete(key)
    server.set(key, "a stranger's")
    topic.finish(rest[0], result=result)
    topic.finish_many(rest[1:])
    lost = 2 if part == "finished" else 0
    if lost:
        server.delete(key)
    assert (topic.stats().finished, topic.stats().finished_lost, topic.check().ok) == (3, lost, True)
    added = [topic.add("tea", id=job.id, if_exists="once") for job in rest]
    assert [(one.is_new, one.state) for one in added] == [(bool(lost), state)] * 2
    if lost:
        assert server.hkeys(topic.verbs.keys.due.removesuffix(b"due") + b"results") == [b"0"], (
            "no record stays without an end"
        )


def test_jobs_with_priorities_are_popped_settled_and_put_back(own_server: Callable[..., ServerProcess]) -> None:
    running, clock = own_server(), Clock()
    with TestClient(running.url, clock) as client:
        topic = client.topic("t")
        topic.add_many([NewJob(n, id=f"{n}", priority=n % 4) for n in range(8)])
        running.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(Unavailable, match="memory is full"):
            topic.add("tea", priority=3)
        jobs = topic.pop_many(8, ttr=10)
        assert [job.id for job in jobs] == ["3", "7", "2", "6", "1", "5", "0", "4"]
        topic.release(jobs[0], delay=0)
        topic.bury(jobs[1])
        assert topic.kick("7") == "dead"
        topic.finish(jobs[2])
        assert topic.delete("6") == "reserved"
        clock.advance(11)
        assert topic.reschedule("1", delay=0) == "ready"
        assert [job.id for job in topic.pop_many(8)] == ["3", "7", "5", "1", "0", "4"]
        assert topic.check().ok
