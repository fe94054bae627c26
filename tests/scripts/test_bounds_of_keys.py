"""What one call does for jobs with a key is bounded: how many are handed out, and how many keys are looked at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tarry import JobExists, NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs import pop

MOST, MOST_WRONG = 250, 16
FLOOD = 1_000


def part(topic: Any, name: str) -> str:
    return str(topic.verbs.keys.due.decode().removesuffix("due")) + name


def keys_looked_at(server: Any, topic: Any, act: Callable[[], Any]) -> tuple[Any, set[str]]:
    """What ``act`` returns, and the keys of which the server's scripts read jobs meanwhile."""
    by_key, seen = part(topic, "by_key"), set[str]()
    with server.monitor() as monitor:
        result = act()
        server.exists("over")
        for line in iter(lambda: monitor.next_command()["command"], "EXISTS over"):
            command, _, rest = line.partition(f" {by_key} ")
            if command in ("ZRANGE", "ZLEXCOUNT"):
                seen.add(rest[1:].partition("\\x00")[0])
    return result, seen


def pop_some(client: TestClient, topic: Any, n: int) -> pop.PopReply:
    return client.engine.run(pop.pop_step(topic.verbs.keys, n, ttr=b"60000000", holder=b"me"))


def test_a_pop_hands_out_fewer_jobs_of_a_topic_with_keys(client: TestClient, topic: Any) -> None:
    """Promise: Bounded scripts."""
    topic.add_many([NewJob(n, key=f"k{n % 100}" if n % 2 else None) for n in range(2 * MOST + 1)])
    assert [len(topic.pop_many(1000)) for _ in range(3)] == [MOST, MOST, 1]
    assert topic.check().ok


@pytest.mark.parametrize("options", [{}, {"delay": 5}, {"if_exists": "replace", "latest": "1h"}], ids=str)
def test_many_jobs_with_keys_are_added_in_portions_and_keep_their_order(
    client: TestClient, topic: Any, server: Any, clock: Clock, options: dict[str, Any]
) -> None:
    """At one moment, as none of a real clock is. Promise: Bounded scripts."""
    ids = [f"{number:03x}"[::-1] for number in range(3 * MOST + 1)]  # their order is not that of their jobs
    jobs = [NewJob(id, id=id, key=f"k{at % 2}") for at, id in enumerate(ids)]
    topic.add("warm", key="k0")
    with server.monitor() as monitor:
        added = topic.add_many(jobs, **options)
        server.exists("over")
        calls = [one for one in iter(lambda: monitor.next_command()["command"], "EXISTS over") if "EVALSHA" in one]
    assert len(calls) == 4
    assert [one.due for one in added] == [added[0].due + timedelta(microseconds=n) for n in range(len(jobs))]
    assert added[-1].state == ("delayed" if "delay" in options else "ready")
    clock.advance("1h")
    for key in ("k0", "k1"):
        waiting = [job.id for job in topic.list(limit=1000).jobs if job.key == key and job.body != "warm"]
        assert waiting == [job.id for job in jobs if job.key == key]
    with pytest.raises(JobExists) as refused:
        topic.add_many([*[NewJob(0, key="k0")] * MOST, NewJob(1, id=ids[0])])
    assert refused.value.done == MOST
    with pytest.raises(JobExists) as refused:
        topic.add_many([*[NewJob(0, key="k0")] * MOST, NewJob(1, id=ids[0])], atomic=True)
    assert refused.value.done == 0


@pytest.mark.parametrize("limits", [{"fair": True}, {"key_concurrency": 2, "fair": True}, {"key_concurrency": 1}])
@pytest.mark.parametrize("n", [1, 20])
def test_a_pop_looks_at_a_key_for_each_job(
    client: TestClient, topic: Any, server: Any, limits: dict[str, Any], n: int
) -> None:
    topic.configure(**limits)
    topic.add_many([NewJob(number, key=f"k{number}") for number in range(1000)])
    topic.pop_many(1)  # the turns of all keys are found before
    for _ in range(5):
        jobs, seen = keys_looked_at(server, topic, lambda: topic.pop_many(n))
        assert len(jobs) == n
        assert seen == {job.key for job in jobs}


@pytest.mark.slow
@pytest.mark.parametrize("why", ["no job", "paused", "rate", "full"])
@pytest.mark.parametrize(("n", "many"), [(1, 100), (100, 500), pytest.param(100, 10_000, marks=pytest.mark.long)])
def test_wrong_turns_do_not_make_a_pop_longer(
    client: TestClient, topic: Any, server: Any, clock: Clock, why: str, n: int, many: int
) -> None:
    """Many keys whose turn has come, as no script leaves them, and none of whose jobs may go."""
    topic.configure(fair=True, key_concurrency=1, **({"key_rate": "1/h"} if why == "rate" else {}))
    topic.pause(1, key="another")
    names = [f"k{number:05}" for number in range(many)]
    if why != "no job":
        for at in range(0, many, 1000):
            topic.add_many([NewJob(1, key=name) for name in names[at : at + 1000]])
    if why == "full":
        server.zadd(part(topic, "by_key"), {f"{name}\0!other".encode(): 0 for name in names})
    if why in ("paused", "rate"):
        server.zadd(
            part(topic, "paces"), {("p" if why == "paused" else "r") + name: clock.us + 10**9 for name in names}
        )
    topic.add("good", key="good")
    server.zadd(part(topic, "turns"), dict.fromkeys(names, 1))
    server.hset(part(topic, "meta"), "keyed_next", "1")
    pops, jobs = 0, list[Any]()
    while not jobs:
        taken, seen = keys_looked_at(server, topic, lambda: pop_some(client, topic, n))
        pops, jobs = pops + 1, taken.jobs
        assert len(seen) <= 2 * len(jobs) + MOST_WRONG
        assert jobs or taken.ask_again
    assert (len(jobs), jobs[0][1].endswith(b'"good"')) == (1, True)
    assert pops <= len(names) / MOST_WRONG + 2


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"key_concurrency": 2}, {"key_rate": "100/s"}, {"fair": False}], ids=str)
@pytest.mark.parametrize("n", [1, 100])
def test_a_change_of_the_limits_does_not_make_a_pop_longer(
    client: TestClient, topic: Any, server: Any, clock: Clock, n: int, change: dict[str, Any]
) -> None:
    """Some of their turns are found by each pop, until all are."""
    topic.configure(fair=True, key_concurrency=1)
    names = [f"k{number:03}" for number in range(500)]
    topic.add_many([NewJob(at, key=name) for at in range(2) for name in names])
    held = topic.pop_many(250) + topic.pop_many(250)
    assert len(held) == 500
    topic.configure(**change)
    topic.add_many([NewJob("free", key=f"free {number}") for number in range(50)])
    pops, jobs = 0, 0
    while server.hexists(part(topic, "meta"), "recount"):
        taken, seen = keys_looked_at(server, topic, lambda: pop_some(client, topic, n))
        pops, jobs = pops + 1, jobs + len(taken.jobs)
        assert len(seen) <= 2 * len(taken.jobs) + MOST_WRONG
        assert taken.jobs or taken.ask_again
    assert pops <= (len(names) + 50) / (MOST_WRONG / 2) + 1
    topic.finish_many(held)
    while taken := topic.pop_many(250):
        jobs += len(taken)
    clock.advance("1s")
    assert jobs + len(topic.pop_many(250)) + len(topic.pop_many(250)) == 550
    assert topic.check().ok


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 5])
def test_a_flood_of_one_key_delays_no_other_key(client: TestClient, topic: Any, server: Any, concurrency: int) -> None:
    """A new job of another key is handed out within the next ``concurrency`` + 2, and no pop looks further."""
    topic.configure(fair=True, key_concurrency=concurrency)
    topic.add_many([NewJob(1, key="flood")] * FLOOD)
    held = [topic.pop() for _ in range(concurrency)]
    assert topic.pop() is None
    for number in range(20):
        topic.add("new", key=f"new-{number}")
        for given in range(concurrency + 3):
            assert given < concurrency + 2
            topic.finish(held.pop(0))
            job, seen = keys_looked_at(server, topic, topic.pop)
            assert job is not None
            assert len(seen) <= 2 + MOST_WRONG
            held.append(job)
            if job.key != "flood":
                topic.finish(held.pop())
                held += [topic.pop()]
                break
    assert topic.check().ok


def test_the_numbers_of_a_topic_without_jobs_of_keys_ask_for_these_once(topic: Any, server: Any) -> None:
    topic.add_many(range(3), delay=60)
    topic.add("ready")
    with server.monitor() as monitor:
        assert (topic.stats().delayed, topic.stats().ready) == (3, 1)
        server.exists("over")
        said = list(iter(lambda: monitor.next_command()["command"], "EXISTS over"))
    asked = [one for one in said if one.split()[1] in {part(topic, name) for name in ("keyed", "by_key", "turns")}]
    assert asked == [f"ZCARD {part(topic, 'keyed')}"] * 2
