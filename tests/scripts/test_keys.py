"""Topics with keys beyond what one client sees: partitions, moves, calls without the keys of such jobs, and how many keys a pop looks at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tarry import BadInput, NewJob
from tarry.clients.schedule_verbs import declare_schedules, schedule_definition
from tarry.clients.testing import Clock, TestClient
from tarry.internal import server_verbs
from tarry.values.keys import part_key
from tarry.verbs.jobs import topic_migration
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.schedule_info import Timing
from tarry.verbs.schedules.schedule_migration import depart

REFUSED = "has [23] partitions, and a topic with keys has one"


@pytest.fixture
def client(valkey_url: str, namespace: str, clock: Clock) -> Any:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        yield client


def test_a_topic_with_partitions_has_no_keys(client: TestClient) -> None:
    topic = client.topic("t", partitions=3)
    of_key = schedule_definition(topic.verbs.context, "daily", "tea", Timing(every="1d"), JobOptions(key="k"))
    assert topic.busiest_keys() == ()
    for act in (
        lambda: topic.add("tea", key="k"),
        lambda: topic.add_many(["tea"], key="k"),
        lambda: topic.add_many([NewJob("tea", key="k")]),
        lambda: topic.configure(key_concurrency=1),
        lambda: topic.configure(fair=True),
        lambda: topic.pause(5, key="k"),
        lambda: topic.resume(key="k"),
        lambda: topic.stats(key="k"),
        lambda: topic.purge(key="k"),
        lambda: client.schedules.put("t", "daily", "tea", every="1d", key="k"),
        lambda: client.engine.run(declare_schedules(server_verbs(topic), [of_key])),
    ):
        with pytest.raises(BadInput, match=REFUSED):
            act()
    assert not list(topic.list())
    assert not client.schedules.list()
    assert topic.configure(fair=False, key_rate=None).fair is False


def test_jobs_with_keys_move_with_their_limits_and_not_into_partitions(client: TestClient) -> None:
    topic = client.topic("t")
    topic.configure(key_concurrency=1, fair=True)
    topic.add_many(range(3), key="k")
    topic.add("other", key="l")
    with pytest.raises(BadInput, match=REFUSED):
        client.migrate(topic, client.topic("many", partitions=2))
    held = topic.pop()
    assert held is not None
    other = client.topic("other")
    assert client.migrate(topic, other).moved == 3
    assert sorted(str(job.key) for job in other.pop_many(10)) == ["k", "l"]
    assert other.configure().key_concurrency == 1
    assert topic.check().ok
    assert other.check().ok


def test_keys_that_are_due_before_the_ring_ends_stop_neither_a_pop_nor_the_others(
    client: TestClient, clock: Clock
) -> None:
    """The ring is some µs ahead of the clock: a pop passes over what is due in these, and does not ask again for ever."""
    topic = client.topic("t")
    topic.configure(fair=True, key_concurrency=1)
    topic.add_many([NewJob("later", key=f"later {n}", delay=0.0001) for n in range(5)])
    topic.add_many([NewJob("now", key=f"now {n}") for n in range(300)])
    assert len(topic.pop_many(250)) == 250
    assert [job.body for job in iter(topic.pop, None)] == ["now"] * 50
    assert topic.pop_many(100) == []
    clock.advance("1ms")
    assert [job.body for job in topic.pop_many(100)] == ["later"] * 5


def test_a_limit_that_was_lowered_counts_before_the_turns_of_all_keys_are_found_again(client: TestClient) -> None:
    topic = client.topic("t")
    topic.configure(key_concurrency=2)
    topic.add_many([NewJob(n, key=f"{n % 250:03}") for n in range(500)])
    jobs = topic.pop_many(250)
    assert [job.key for job in jobs] == [f"{n:03}" for n in range(250)]
    topic.configure(key_concurrency=1)
    assert topic.pop_many(500) == []
    assert topic.stats().held_back == 250
    topic.finish_many(jobs)
    assert len(topic.pop_many(500)) == 250


def test_a_retry_that_moves_frees_its_key_here_and_does_not_hold_it_there(client: TestClient, clock: Clock) -> None:
    topic, other = client.topic("t"), client.topic("other")
    topic.configure(retry_holds_key=True)
    topic.add("first", key="k")
    [job] = topic.pop_many(5)
    topic.release(job, delay=60)
    topic.add("second", key="k")
    assert topic.pop() is None, "it holds its key"
    client.engine.run(topic_migration.depart(topic.verbs.context.keys, b"nonce@elsewhere other"))
    topic.add("third", key="k")
    assert [job.body for job in topic.pop_many(5)] == ["third"]
    assert client.migrate(topic, other, redirect=True).moved == 2
    [second] = other.pop_many(5)
    other.finish(second)
    clock.advance(60)
    assert (second.body, [(job.body, job.attempt) for job in other.pop_many(5)]) == ("second", [("first", 2)])
    assert (topic.check().ok, other.check().ok) == (True, True)


def test_a_retry_that_another_topic_refuses_holds_its_key_again(client: TestClient, clock: Clock) -> None:
    topic, other = client.topic("t"), client.topic("other")
    topic.configure(retry_holds_key=True)
    topic.add("first", id="1", key="k")
    [job] = topic.pop_many(5)
    topic.release(job, delay=60)
    topic.add("second", id="2", key="k")
    for id in "12":
        other.add("another", id=id)
    keys = topic.verbs.context.keys
    departure, rows = client.engine.run(topic_migration.depart(keys, b"nonce@elsewhere other"))
    assert topic.get("1").state == "delayed"
    client.engine.run(topic_migration.end_departure(keys, departure, rows, [False, False]))
    assert topic.pop() is None
    assert topic.stats(key="k").limited.reason == "retry"
    assert client.migrate(topic, other).refused == 2
    assert topic.pop() is None
    clock.advance(60)
    assert [job.body for job in topic.pop_many(5)] == ["first", "second"]
    assert topic.check().ok


def test_schedules_with_a_key_do_not_move_into_partitions(client: TestClient) -> None:
    """Neither one that is here, nor one that an interrupted move took out; and nothing is changed."""
    client.schedules.put("t", "daily", "tea", every="1d")
    client.schedules.put("t", "hourly", "tea", every="1h", key="k")
    topic, parts = client.topic("t"), client.topic("many", partitions=2)
    topic.configure(ttr=7)
    for _ in "here", "on its way":
        for dry_run in (True, False):
            with pytest.raises(BadInput, match="schedule hourly: the target " + REFUSED):
                client.migrate(topic, parts, dry_run=dry_run, redirect=True)
        assert not client.schedules.list("many")
        assert parts.configure().ttr != topic.configure().ttr
        client.engine.run(depart(topic.verbs.context.keys, b"0", b"nonce@elsewhere other"))
        assert not client.schedules.list("t")
    assert client.migrate(topic, client.topic("one"), redirect=True).schedules == 2


def test_a_client_learns_that_a_topic_has_keys(valkey_url: str, client: TestClient, clock: Clock) -> None:
    """One that knew the topic without keys sends each call once more, and loses nothing."""
    topic = client.topic("late")
    topic.add("plain", id="1")
    plain = topic.pop()
    assert plain is not None
    topic.add("tea", id="2", key="k")
    with TestClient(valkey_url, clock, namespace=client.namespace) as another:
        same = another.topic("late")
        assert same.add("again", id="2", if_exists="replace").is_new
        assert same.add("new", id="3", key="k", if_exists="keep").is_new
        jobs = same.pop_many(5)
        assert sorted(job.id for job in jobs) == ["2", "3"]
        same.finish_many(jobs)
    topic.finish(plain)
    assert topic.check().ok
    assert topic.stats().finished == 3


def test_keys_that_look_like_entries_are_counted_each_for_itself(client: TestClient) -> None:
    """Prefixes of one another, bytes that entries have, patterns of the server, and the longest ones."""
    topic = client.topic("t")
    topic.configure(key_concurrency=1, fair=True, retry_holds_key=True)
    looks = ["a", "a!", "a/", 'a"', "r", "!", "0", "3", "ÿ", "测", "\x01" * 200, "a" * 200, "a" * 199 + "b"]
    keys = [*looks, *(look + "\1" for look in looks[:10]), "*", "[a]", "(", "-", "+", " ", "\n", "\U0010ffff"]
    topic.add_many([NewJob(n, key=key) for n in range(3) for key in keys])
    jobs = topic.pop_many(1000)
    assert sorted(job.key for job in jobs) == sorted(keys)
    assert topic.stats().held_back == 2 * len(keys)
    for job in jobs:
        found = topic.stats(key=job.key)
        assert (found.key, found.ready, found.reserved, found.held_back) == (job.key, 2, 1, 2)
    assert {found.key for found in topic.busiest_keys(100)} == set(keys)
    for job in jobs[::2]:
        topic.release(job, delay=60)
        assert topic.purge("ready", key=job.key) == 2
    assert {job.key for job in topic.pop_many(1000)} == set()
    for left, key in enumerate(reversed(keys)):
        assert topic.purge(key=key) == (1 if key in {job.key for job in jobs[::2]} else 3), left
    assert (topic.stats().delayed, topic.stats().ready, topic.stats().reserved) == (0, 0, 0)
    assert topic.busiest_keys() == ()
    assert topic.check().ok


@pytest.mark.parametrize("limit", [1, 2])
def test_the_pause_of_a_key_is_no_lateness_without_other_limits_too(
    client: TestClient, clock: Clock, limit: int
) -> None:
    topic: Any = client.topic("t")
    topic.configure(fair=True)
    topic.add_many([NewJob(n, key="k") for n in range(2)])
    topic.pause(600, key="k")
    clock.advance(601)
    assert sum(len(topic.pop_many(limit)) for _ in range(3)) == 2
    assert timedelta(seconds=0.5) < topic.stats().lateness.max < timedelta(seconds=2)


@pytest.mark.parametrize("fair", [False, True])
def test_what_comes_behind_a_retry_that_holds_its_key_gives_it_no_turn(
    client: TestClient, server: Any, clock: Clock, fair: bool
) -> None:
    topic: Any = client.topic("t")
    topic.configure(fair=fair, retry_holds_key=True)
    topic.add("first", key="k")
    [job] = topic.pop_many(5)
    topic.release(job, delay=60)
    turns = part_key(topic.verbs.keys, "turns")
    turn = server.zscore(turns, "k")
    topic.add("second", key="k")
    topic.add_many([NewJob("third", key="k"), NewJob("fourth", key="k", priority=1)])
    assert server.zscore(turns, "k") == turn == clock.us + 60_000_000
    topic.configure(retry_holds_key=False)
    assert topic.pop() is not None


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("key", ["k", None])
def test_with_fair_nobody_comes_twice_within_the_microsecond_in_which_others_became_due(
    client: TestClient, clock: Clock, key: str | None, many: bool
) -> None:
    """The turns of the others are their due times, which are this very microsecond."""
    topic = client.topic("t")
    topic.configure(fair=True)
    at = clock.now + timedelta(minutes=1)
    for body, of in (("first", key), ("second", key), ("other", "l"), ("third", "m")):
        topic.add(body, id=body, at=at, key=of)  # of one microsecond they come by their ids
    clock.advance(timedelta(minutes=1))
    popped = topic.pop_many(3) if many else [topic.pop(), topic.pop(), topic.pop()]
    assert sorted(str(job and job.body) for job in popped) == ["first", "other", "third"]
