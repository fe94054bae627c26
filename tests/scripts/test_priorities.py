"""The indexes of jobs with a priority: what they cost, stale and damaged entries, a bounded pop, moves to another topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from tarry import NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import PRIORITY_PARTS, keys_of_parts
from tarry.verbs.jobs import pop
from tarry.verbs.jobs.by_id import CANCEL

FLAGS_AT, HEAD_SIZE = 7, 14


def add_one_of_each(topic: Any, delay: Any = 0) -> None:
    topic.add_many([NewJob(n, id=f"p{n}", priority=n) for n in range(4)], delay=delay)


def indexed(server: Any, topic: Any) -> dict[str, list[bytes]]:
    keys = keys_of_parts(PRIORITY_PARTS)(topic.verbs.keys)
    return dict(zip(PRIORITY_PARTS, [server.zrange(key, 0, -1) for key in keys], strict=True))


def ids_of(topic: Any, n: int = 100) -> list[str]:
    return [job.id for job in topic.pop_many(n)]


NONE: dict[str, list[bytes]] = {part: [] for part in PRIORITY_PARTS}


@pytest.mark.parametrize(
    "act",
    [
        lambda topic: topic.pop_many(10),
        lambda topic: topic.delete_many([f"p{n}" for n in range(4)]),
        lambda topic: topic.engine.run(topic.verbs.by_id(CANCEL, [f"p{n}" for n in range(4)], running=True)),
        lambda topic: topic.purge(),
        lambda topic: topic.purge("ready"),
        lambda topic: [topic.add(0, id=f"p{n}", if_exists="replace") for n in range(4)],
        lambda topic: topic.bury_many(topic.pop_many(10)),
    ],
    ids=["pop", "delete", "cancel", "purge", "purge ready", "replace", "bury"],
)
def test_a_job_that_no_longer_waits_is_in_no_index(topic: Any, server: Any, act: Callable[[Any], Any]) -> None:
    add_one_of_each(topic)
    assert indexed(server, topic) == {f"priority{n}": [b"p%d" % n] for n in (1, 2, 3)}
    act(topic)
    assert indexed(server, topic) == NONE


def test_a_job_that_is_popped_by_its_id_is_in_no_index(client: TestClient, topic: Any, server: Any) -> None:
    add_one_of_each(topic, delay="1h")
    for n in range(4):
        taken = client.engine.run(pop.pop_by_id(topic.verbs.keys, f"p{n}", ["delayed"], ttr=b"60000000", holder=b"me"))
        assert taken is not None
    assert indexed(server, topic) == NONE


def test_a_topic_without_priorities_has_no_further_keys(topic: Any, server: Any, client: TestClient) -> None:
    topic.add_many(range(10))
    topic.release(topic.pop(), delay=0)
    topic.finish_many(topic.pop_many(10))
    assert not server.exists(*keys_of_parts(PRIORITY_PARTS)(topic.verbs.keys))
    assert server.hmget(topic.verbs.keys.meta, "priorities", "ruled") == [None, None]


def test_entries_that_differ_from_the_due_times_are_skipped_and_removed(topic: Any, server: Any, clock: Clock) -> None:
    """As a repeated ``finish`` leaves them."""
    add_one_of_each(topic, delay="1m")
    keys = topic.verbs.keys
    high = keys_of_parts(PRIORITY_PARTS)(keys)[-1]
    server.zrem(keys.due, "p3")
    server.hdel(keys.jobs, "p3")
    server.zadd(keys.due, {"p2": clock.us})
    server.zadd(high, {"never there": clock.us})
    job = topic.pop()
    assert (job.id, job.finish()) == ("p2", None)
    assert server.zrange(high, 0, -1) == [b"p3"]
    clock.advance("2m")
    assert ids_of(topic) == ["p1", "p0"]
    assert indexed(server, topic) == NONE
    assert topic.check().ok


def test_a_job_without_an_entry_is_popped_and_gets_one_when_it_is_put_back(
    topic: Any, server: Any, clock: Clock
) -> None:
    add_one_of_each(topic)
    server.delete(*keys_of_parts(PRIORITY_PARTS)(topic.verbs.keys))
    jobs = topic.pop_many(4, ttr=10)
    assert [job.id for job in jobs] == ["p0", "p1", "p2", "p3"]
    clock.advance(11)
    assert ids_of(topic) == ["p3", "p2", "p1", "p0"]


@pytest.mark.slow
def test_many_stale_entries_are_removed_in_steps(client: TestClient, topic: Any, server: Any, clock: Clock) -> None:
    topic.add("urgent", id="urgent", priority=3, delay="1s")
    topic.add("plain", id="plain")
    index = keys_of_parts(PRIORITY_PARTS)(topic.verbs.keys)[-1]
    server.zadd(index, {f"{n:06}": clock.us - 10 for n in range(10_000)})
    clock.advance("2s")
    step = pop.pop_step(topic.verbs.keys, 1, ttr=b"60000000", holder=b"me")
    before = commands(server)
    first = client.engine.run(step)
    assert (first.jobs, first.unfinished) == ([], pop.ASK_AGAIN), "nothing of a lower priority is handed out meanwhile"
    assert commands(server) - before < 50
    assert 10_000 - 1600 <= server.zcard(index) <= 10_001 - 1000
    assert [topic.pop().id, topic.pop().id] == ["urgent", "plain"]
    assert server.zcard(index) == 0


def test_a_reply_of_limited_size_keeps_the_order(topic: Any) -> None:
    """A job that does not fit ends the reply: none of a lower priority comes before it."""
    topic.add(b"x", id="small")
    for n in range(6):
        topic.add(b"x" * 900_000, id=f"large{n}", priority=2)
    first = ids_of(topic)
    assert first == [f"large{n}" for n in range(len(first))]
    assert len(first) < 6
    assert first + ids_of(topic) == [*[f"large{n}" for n in range(6)], "small"]


def test_large_jobs_whose_ttr_is_over_are_put_back_in_steps(topic: Any, server: Any, clock: Clock) -> None:
    """Their priorities are read from their records."""
    for n in range(12):
        topic.add(b"x" * 900_000, id=f"{n:02}", priority=1 + n % 2)
    while topic.pop_many(10, ttr=10):
        pass
    clock.advance(20)
    found = [topic.pop().id]
    assert server.zcard(topic.verbs.keys.due) == 3, "four of them fit into 4 MB"
    while jobs := topic.pop_many(10):
        found += [job.id for job in jobs]
    assert found[0] == "01"
    assert sorted(found) == [f"{n:02}" for n in range(12)]


def test_limits_hold_for_jobs_with_priorities(topic: Any, clock: Clock) -> None:
    topic.configure(concurrency=2)
    add_one_of_each(topic)
    jobs = topic.pop_many(10)
    assert [job.id for job in jobs] == ["p3", "p2"]
    topic.finish(jobs[1])
    assert ids_of(topic) == ["p1"]
    clock.advance("2m")
    assert ids_of(topic) == ["p3", "p1"]
    topic.configure(concurrency=None, max_lateness="1m")
    topic.add("new", id="new", priority=1)
    assert ids_of(topic) == ["new"]
    assert topic.get("p0").reason == "too late"


@pytest.mark.parametrize("noted", [b"9", b"x", b"-1", b"3333", b"123"])
def test_what_a_newer_version_notes_of_priorities_raises_nowhere(topic: Any, server: Any, noted: bytes) -> None:
    add_one_of_each(topic)
    server.hset(topic.verbs.keys.meta, "priorities", noted)
    topic.add("more", id="more", priority=2)
    topic.reschedule_many(["p0", "p1", "p2", "p3"], delay=0)
    assert sorted(ids_of(topic)) == ["more", "p0", "p1", "p2", "p3"]
    assert topic.check().ok


def with_an_unknown_flag(value: bytes) -> bytes:
    flags = bytes([value[FLAGS_AT] | 128])
    return value[:FLAGS_AT] + flags + value[FLAGS_AT + 1 : HEAD_SIZE] + b"\x40\x00" + value[HEAD_SIZE:]


def test_a_record_that_cannot_be_read_is_set_aside_from_an_index_too(topic: Any, server: Any) -> None:
    add_one_of_each(topic)
    keys = topic.verbs.keys
    value = server.hget(keys.jobs, "p3")
    server.hset(keys.jobs, "p3", with_an_unknown_flag(value))
    server.hset(keys.jobs, "p2", b"")
    assert ids_of(topic) == ["p1", "p0"]
    assert topic.get("p3").reason == "unknown flags 64"
    assert topic.get("p2").reason == "damaged"
    server.hset(keys.jobs, "p3", value)
    assert topic.kick("p3") == "dead"
    assert ids_of(topic) == ["p3"]


def test_a_move_to_another_topic_keeps_priorities(client: TestClient, topic: Any, server: Any, clock: Clock) -> None:
    add_one_of_each(topic, delay="1m")
    topic.add("dead", id="dead", priority=2)
    topic.bury(topic.pop())
    other = client.topic("another")
    assert client.migrate(topic, other).moved == 5
    assert indexed(server, topic) == NONE
    clock.advance("2m")
    assert other.kick("dead") == "dead"
    assert ids_of(other) == ["p3", "p2", "dead", "p1", "p0"]


def test_jobs_that_a_destination_refuses_get_their_priority_back(client: TestClient, topic: Any, clock: Clock) -> None:
    add_one_of_each(topic, delay="1m")
    other = client.topic("another")
    other.add("taken", id="p2", delay="1h")
    assert client.migrate(topic, other).refused
    topic.add("plain", id="plain", delay=1)
    clock.advance("2m")
    assert ids_of(topic) == ["p2", "plain"]


def test_a_pop_from_partitions_takes_the_highest_of_each(client: TestClient) -> None:
    topic = client.topic("parts", partitions=4)
    topic.add_many([NewJob(n, id=f"{n}") for n in range(40)])
    topic.add_many([NewJob(n, id=f"u{n}", priority=3) for n in range(40)])
    assert {id[0] for id in ids_of(topic, 4)} == {"u"}


def commands(server: Any) -> int:
    """How many commands were run so far, those inside scripts included."""
    return sum(int(told["calls"]) for told in server.info("commandstats").values())


IN_A_PLAIN_TOPIC = {"add": 12, "pop": 12, "finish": 7}
"""The commands inside the scripts, as before there were priorities."""


def test_only_topics_with_priorities_pay_for_them(own_server: Callable[..., ServerProcess]) -> None:
    running = own_server()
    with TestClient(running.url, Clock()) as client, redis.Redis(unix_socket_path=running.address) as server:
        plain, mixed = client.topic("plain"), client.topic("mixed")
        mixed.add("first", priority=3)

        def inside(act: Callable[[], Any]) -> int:
            """How many commands run inside the scripts of a call."""
            before = own_commands(server)
            act()
            return own_commands(server) - before

        def measure(topic: Any, **options: Any) -> dict[str, int]:
            taken: list[Any] = []
            return {
                "add": inside(lambda: topic.add("tea", **options)),
                "pop": inside(lambda: taken.append(topic.pop())),
                "finish": inside(lambda: topic.finish(taken.pop())),
            }

        for topic in (plain, mixed):  # the first pop of a minute keeps the totals
            topic.add("tea")
            while job := topic.pop():
                topic.finish(job)
        usual = measure(plain)
        assert usual == IN_A_PLAIN_TOPIC
        assert measure(mixed) == {"add": usual["add"] + 1, "pop": usual["pop"] + 2, "finish": usual["finish"]}
        assert measure(mixed, priority=3) == {
            "add": usual["add"] + 3,
            "pop": usual["pop"] + 4,  # with the next deadline, which a pop from `due` knows
            "finish": usual["finish"],
        }


def own_commands(server: Any) -> int:
    """Without those that call the scripts, and those that tell the time."""
    told = server.info("commandstats")
    others = ("evalsha", "info", "sadd", "time", "echo", "script", "client", "hello")
    return sum(
        int(one["calls"]) for name, one in told.items() if name.removeprefix("cmdstat_").split("|")[0] not in others
    )


@pytest.mark.parametrize("used", [0, 1])
def test_a_reserved_job_that_gets_the_first_of_a_priority_has_it_when_it_is_put_back(
    topic: Any, clock: Clock, used: int
) -> None:
    topic.add("later", id="urgent")
    assert [job.id for job in topic.pop_many(1, ttr=1)] == ["urgent"]
    topic.add("usual", id="usual", priority=used)
    topic.add("now", id="urgent", priority=2, if_exists="update")
    clock.advance(2)
    assert ids_of(topic) == ["urgent", "usual"]
