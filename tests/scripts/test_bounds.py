"""One call does a bounded amount of work, however much there is; the next call does the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestClient
from tarry.core.flows import intercept
from tarry.core.requests import ScriptCall
from tarry.verbs.jobs import pop, settings, views

BACK, SWEEP, STEP = 200, 16, 500
EACH_AMOUNT = pytest.mark.parametrize("many", [5_000, pytest.param(100_000, marks=pytest.mark.long)])


def pile_up(server: Any, topic: Any, place: str, n: int, at: int) -> None:
    """Many jobs, written as the scripts would have left them, but faster."""
    keys = topic.verbs.keys._asdict()
    topic.add("pattern", id="pattern")
    job = topic.pop(ttr=60)
    value, run = server.hget(keys["jobs"], "pattern"), server.hget(keys["runs"], "pattern")
    topic.finish(job)
    for start in range(0, n, 10_000):
        ids = [f"{i:06}" for i in range(start, min(start + 10_000, n))]
        pipe = server.pipeline(transaction=False)
        pipe.hset(keys["jobs"], mapping=dict.fromkeys(ids, value))
        pipe.hset(keys["runs"], mapping=dict.fromkeys(ids, run))
        pipe.zadd(keys[place], {id: at + start + i for i, id in enumerate(ids)})
        pipe.execute()


def pop_some(client: TestClient, topic: Any, n: int = 1) -> pop.PopReply:
    return client.engine.run(pop.pop_step(topic.verbs.keys, n, ttr=b"60000000", holder=b"me"))


@pytest.mark.slow
@EACH_AMOUNT
def test_expired_reservations_are_returned_in_steps(
    client: TestClient, topic: Any, server: Any, clock: Clock, many: int
) -> None:
    """Promise: Bounded scripts."""
    pile_up(server, topic, "reserved", many, clock.us)
    clock.advance("1h")
    keys = topic.verbs.keys
    assert topic.stats().ready == many
    for step in range(1, 4):
        assert len(pop_some(client, topic).jobs) == 1
        assert server.zcard(keys.due) == step * (BACK - 1)
        assert server.zcard(keys.reserved) == many - step * BACK + step
    assert topic.stats().timed_out == 3 * BACK


@pytest.mark.slow
@EACH_AMOUNT
def test_dead_jobs_are_swept_in_steps(client: TestClient, topic: Any, server: Any, clock: Clock, many: int) -> None:
    """Promise: Bounded scripts."""
    pile_up(server, topic, "dead", many, clock.us)
    clock.advance(timedelta(days=31))
    for step in range(1, 4):
        pop_some(client, topic)
        assert topic.stats().dead == many - step * SWEEP
    assert (topic.stats().swept, server.hlen(topic.verbs.keys.jobs)) == (3 * SWEEP, many - 3 * SWEEP)


def test_many_jobs_dying_at_once_make_pop_ask_again(client: TestClient, topic: Any, clock: Clock) -> None:
    """A pop that only put things in order says: ask again. The client does, and finds what is ready."""
    topic.add_many(range(600), max_attempts=1)
    topic.pop_many(600, ttr=1)
    clock.advance(10)
    topic.add("alive")
    first = pop_some(client, topic)
    assert first.jobs or first.ask_again
    assert (first.jobs or [topic.pop()]) != [None]
    while pop_some(client, topic).ask_again:
        pass
    assert topic.stats().dead == 600


def test_a_state_is_purged_in_steps(client: TestClient, topic: Any) -> None:
    """Promise: Bounded scripts."""
    topic.add_many(range(2000), delay=60)
    step: ScriptCall[int] = ScriptCall(
        settings.PURGE, settings.PURGE.keys_for(topic.verbs.keys), (b"due", b"future", b"%d" % STEP), int
    )
    assert client.engine.run(step) == STEP
    assert topic.stats().delayed == 2000 - STEP
    assert topic.check().ok, "each step leaves a topic in order"


def test_check_runs_in_steps(client: TestClient, topic: Any) -> None:
    topic.add_many(range(3000), delay=60)
    step: ScriptCall[Any] = ScriptCall(
        views.CHECK, views.CHECK.keys_for(topic.verbs.keys), (b"jobs", b"0", b"100"), list
    )
    _, seen, *_ = client.engine.run(step)
    assert 100 <= seen < 300


def test_check_reads_a_sound_topic_once(client: TestClient, topic: Any) -> None:
    topic.add_many(range(3000), delay=60)
    topic.add_many(range(10))
    topic.pop_many(10)
    requests = list[ScriptCall[Any]]()

    def remember(request: Any) -> Any:
        requests.append(request)
        return request

    found = client.engine.run(intercept(views.check_topic(topic.verbs.keys), remember, lambda _, answers: answers))
    assert (found.ok, found.looked_at) == (True, 3010 + 10 + 10)
    parts = [request.args[0] for request in requests if getattr(request, "script", None) is views.CHECK]
    assert set(parts) == {b"jobs", b"runs", b"reserved"}
    assert 3010 / 300 <= parts.count(b"jobs") <= 3010 / 100 + 1


@pytest.mark.parametrize("place", ["due", "dead"])
def test_check_finds_a_job_in_two_places_among_many(topic: Any, server: Any, place: str) -> None:
    """No step that reads the jobs sees it: the numbers of entries and of jobs differ."""
    topic.add_many(range(300), delay=60)
    topic.add(1, id="twice")
    topic.add(2, id="lost", delay=60)
    topic.pop()
    keys = topic.verbs.keys._asdict()
    server.zadd(keys[place], {"twice": 1, "ghost": 2})
    assert sorted(topic.check().faults) == [
        f"ghost: {place}, but there is no job", "twice: in more than one place"
    ]  # fmt: skip
    server.zrem(keys["due"], "lost")
    assert "lost: in no place" in topic.check().faults
    server.zrem(keys[place], "twice", "ghost")
    assert topic.check().faults == ("lost: in no place",)


def test_a_page_of_large_bodies_has_few_jobs(client: TestClient, topic: Any) -> None:
    for _ in range(3):
        topic.add_many([b"x" * 300_000] * 3, delay=60)
    sizes, cursor = [], None
    while True:
        page = topic.list(limit=100, cursor=cursor)
        sizes.append(len(page))
        if page.cursor is None:
            break
        cursor = page.cursor
    assert sum(sizes) == 9
    assert 1 <= min(sizes) <= max(sizes) <= 5


@pytest.mark.slow
def test_a_page_among_jobs_of_one_due_time_costs_no_more(
    client: TestClient, topic: Any, server: Any, clock: Clock
) -> None:
    """All due at midnight: the last page does not walk through all that come before it."""
    pile_up(server, topic, "dead", 20_000, clock.us)
    keys = topic.verbs.keys
    server.zadd(keys.dead, dict.fromkeys(server.zrange(keys.dead, 0, -1), clock.us))
    cursor, seen = None, []
    while cursor is not None or not seen:
        page = topic.list("dead", limit=999, cursor=cursor)
        cursor, seen = page.cursor, [*seen, *[job.id for job in page]]
        if cursor is not None:
            before = commands(server)
            assert len(topic.list("dead", limit=1, cursor=cursor)) == 1
            assert commands(server) - before < 40
    assert seen == [f"{n:06}" for n in range(20_000)]


def commands(server: Any) -> int:
    """How many commands were run so far, those inside scripts included."""
    return sum(int(told["calls"]) for told in server.info("commandstats").values())
