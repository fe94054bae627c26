"""A server whose clock is set back: limits and waiting consumers continue at once; deadlines come later by the same time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestClient
from tarry.values.durations import HOUR, SECOND
from tarry.verbs.jobs import pop
from tarry.verbs.redisson.delayed.transfer import transfer
from tarry.verbs.redisson.mapcache.eviction import evict_step


def set_back(clock: Clock, us: int = HOUR) -> None:
    """What ``clock.advance`` never does."""
    clock.us -= us
    clock._apply()


@pytest.mark.parametrize("burst", [1, 30])
def test_a_rate_survives_a_clock_set_back(topic: Any, clock: Clock, burst: int) -> None:
    topic.configure(rate="100/1s", burst=burst)
    topic.add_many(range(200))
    clock.advance("1m")
    assert len(topic.pop_many(200)) == burst
    set_back(clock)
    topic.add_many(range(300))
    moments = [clock.us] * len(topic.pop_many(300))
    for _ in range(200):
        clock.advance("10ms")
        moments += [clock.us] * len(topic.pop_many(300))
    assert len(moments) == 201, "one, and then its rate: the burst was spent"
    assert len(set(moments)) == 201
    set_back(clock, 5 * SECOND)
    topic.add_many(range(10))
    assert len(topic.pop_many(10)) == 1
    assert topic.pop() is None


def test_a_lowered_burst_is_not_charged_afterwards(topic: Any, clock: Clock) -> None:
    topic.configure(rate="1/1s", burst=60)
    topic.add_many(range(100))
    clock.advance("1h")
    assert len(topic.pop_many(100)) == 60
    topic.configure(burst=2)
    assert len(topic.pop_many(100)) == 1
    assert topic.pop() is None
    clock.advance("1s")
    assert len(topic.pop_many(100)) == 1


def test_lateness_is_never_negative_after_a_clock_set_back(topic: Any, clock: Clock) -> None:
    topic.configure(concurrency=1)
    topic.add("tea")
    topic.finish(topic.pop())  # a place was free again then
    set_back(clock)
    topic.add("tea")
    assert topic.pop() is not None
    assert topic.stats().lateness.max.total_seconds() >= 0


def test_seats_of_dead_consumers_are_taken_over(topic: Any, clock: Clock) -> None:
    topic.add("tea", delay="2s")
    keys = topic.verbs.keys

    def seat_of(me: bytes) -> int:
        looked: int = topic.engine.run(pop.pop_step(keys, 1, ttr=b"0", holder=b"", min_jobs=1, waiter_id=me)).seat
        return looked

    assert [seat_of(b"gone-1"), seat_of(b"gone-2"), seat_of(b"c")] == [1, 2, 0]
    set_back(clock)
    topic.add("cake", delay="2s")
    assert [seat_of(b"d"), seat_of(b"e"), seat_of(b"f")] == [1, 2, 0]


def test_a_queue_with_a_dead_mover_gets_another(client: TestClient, clock: Clock) -> None:
    keys = client.delayed_queue("q", codec="json").verbs.keys

    def seat_of(me: bytes) -> int:
        moved: int = client.engine.run(transfer(keys, mover_id=me, keeps_seat=True)).seat
        return moved

    assert [seat_of(b"gone-1"), seat_of(b"gone-2"), seat_of(b"c")] == [1, 2, 0]
    set_back(clock)
    assert [seat_of(b"d"), seat_of(b"e"), seat_of(b"f")] == [1, 2, 0]


def test_a_map_with_a_dead_evictor_gets_another(client: TestClient, clock: Clock) -> None:
    context = client.map_cache("m", codec="json").verbs.context

    def seat_of(me: bytes) -> int:
        return client.engine.run(evict_step(context, evictor_id=me, keeps_seat=True)).seat

    assert [seat_of(b"gone-1"), seat_of(b"gone-2"), seat_of(b"c")] == [1, 2, 0]
    set_back(clock)
    assert [seat_of(b"d"), seat_of(b"e"), seat_of(b"f")] == [1, 2, 0]


def test_a_reader_of_ends_is_told_what_a_clock_set_back_hides(topic: Any, clock: Clock) -> None:
    topic.configure(keep_finished="1d")
    clock.advance("2h")
    topic.add("tea", id="a")
    topic.finish(topic.pop())
    clock.advance("1s")
    [end] = topic.ends(since=clock.now - timedelta(seconds=2), wait=0)
    set_back(clock)
    [ahead] = topic.ends(since=end.id, wait=0)
    assert (ahead.since, ahead.until) == (clock.now, end.at), "its place is yet to come"
    topic.add("tea", id="b")
    topic.finish(topic.pop())
    hidden = clock.now
    set_back(clock, -HOUR)
    [gap] = topic.ends(since=end.id, wait=0)
    assert gap.since == hidden, "an end behind the reader is not skipped in silence"
    assert gap.until >= end.at
