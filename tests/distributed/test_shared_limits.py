"""Limits of a topic with partitions: each has its share, and the sum is never above the limit."""

from __future__ import annotations

from datetime import timedelta
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tarry
from distributed.conftest import PARTS
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Command
from tarry.errors import BadInput
from tarry.values.durations import SECOND
from tarry.verbs.jobs.partitions import partition_of_id


def shares(client: TestClient, topic: Any) -> list[list[int]]:
    """n, span, burst, cap of each partition, as its pop obeys them."""
    parts = client.engine.run(topic.verbs.partitions())
    found = [client.engine.run(Command((b"HGET", part.keys.meta, b"limited"), bytes)) for part in parts]
    return [[int(number) for number in one.split()[:4]] for one in found]


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.integers(2, 9),
    count=st.integers(1, 10_000),
    span_ms=st.integers(1, 366 * 86_400_000),
    burst=st.none() | st.integers(1, 500),
    cap=st.none() | st.integers(1, 500),
)
def test_a_limit_is_divided_among_partitions_without_remainder(
    valkey_url: str, namespace: str, parts: int, count: int, span_ms: int, burst: int | None, cap: int | None
) -> None:
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic = client.topic(f"t{parts}", partitions=parts)
        usual = topic.configure(rate=None, burst=None, concurrency=None)
        if any(number is not None and number < parts for number in (burst, cap)):
            with pytest.raises(BadInput, match=f"for {parts} partitions, each of which needs one"):
                topic.configure(rate=1, burst=burst, concurrency=cap)
            assert topic.configure() == usual, "nothing was written"
            return
        asked = topic.configure(rate=(count, timedelta(milliseconds=span_ms)), burst=burst, concurrency=cap)
        assert asked.rate == tarry.types.Rate(count, timedelta(milliseconds=span_ms))
        assert asked.burst == burst or burst is None
        assert asked.concurrency == cap
        assert client.topic(f"t{parts}").configure() == asked, "and so it is told again"
        found = shares(client, topic)
        assert sum(Fraction(n, span) for n, span, _, _ in found) == Fraction(count, span_ms * 1000)
        for column, whole in ((2, asked.burst), (3, cap or 0)):
            part = [row[column] for row in found]
            assert sum(part) == whole
            assert max(part) - min(part) <= 1
            assert min(part) > 0 or not whole


def never_above(moments: list[int], count: int, per: timedelta, burst: int) -> bool:
    """Between any two hand-outs, both counted, lie no more than the burst and what the rate lets through meanwhile."""
    span = per // timedelta(microseconds=1)
    return all((j - i + 1 - burst) * span <= (b - a) * count for (i, a), (j, b) in combinations(enumerate(moments), 2))


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "burst"), [("10/s", None), ("100/m", 7), ("1000/s", None)])
def test_a_partitioned_rate_is_never_exceeded_and_almost_reached(
    valkey_url: str, clock: Clock, namespace: str, rate: str, burst: int | None
) -> None:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        topic = client.topic("orders", partitions=PARTS)
        settings = topic.configure(rate=rate, burst=burst)
        assert settings.burst == {"10/s": PARTS, "100/m": 7, "1000/s": 100}[rate]
        topic.add_many(range(600))
        began, moments = clock.us, list[int]()
        while len(moments) < 100 + settings.burst:
            jobs = topic.pop_many(9, wait="1h")
            moments += [clock.us] * len(jobs)
            topic.finish_many(jobs)
        assert never_above(moments, settings.rate.count, settings.rate.per, settings.burst)
        possible = (moments[-1] - began) / SECOND * settings.rate.count / settings.rate.per.total_seconds()
        assert len(moments) >= 0.95 * possible
        clock.advance("1d")  # and after a quiet time, no more than the burst
        now = [job for _ in range(3) for job in topic.pop_many(200)]
        assert len(now) == settings.burst


def test_limits_hold_over_all_partitions(adapter: Any, topic: Any, clock: Clock) -> None:
    async def story() -> None:
        assert (await topic.configure(concurrency=7, max_lateness="1h")).concurrency == 7
        await topic.add_many([tarry.NewJob(n, id=f"{n}") for n in range(200)])
        jobs = [job for _ in range(3) for job in await topic.pop_many(50)]
        assert len(jobs) == 7
        stats = await topic.stats()
        assert (stats.reserved, stats.limited and stats.limited.reason) == (7, "concurrency")
        assert await topic.pop() is None
        await topic.finish(jobs[0])
        again = await topic.pop()
        assert partition_of_id(again.id, PARTS) == partition_of_id(jobs[0].id, PARTS), (
            "its place is the one that became free"
        )
        with pytest.raises(BadInput, match=f"concurrency: 4 for {PARTS} partitions.*migrate"):
            await topic.configure(concurrency=4)
        assert (await topic.configure()).concurrency == 7
        assert (await topic.configure(concurrency=None)).concurrency is None
        assert len(await topic.pop_many(50)) == 50
        await topic.configure(rate="1000/h")
        clock.advance("2h")  # too late, all of them
        assert await topic.pop() is None
        assert (await topic.stats()).limited is None

    adapter.perform(story())


def test_the_share_of_an_empty_partition_is_not_used_by_others(adapter: Any, topic: Any, clock: Clock) -> None:
    async def story() -> None:
        await topic.configure(rate="10/s")
        ids = [f"{n}" for n in range(500)]
        alone = [id for id in ids if partition_of_id(id, PARTS) == 0][:40]
        await topic.add_many([tarry.NewJob(1, id=id) for id in alone])
        began, taken = clock.us, 0
        while clock.us < began + 10 * SECOND:
            job = await topic.pop(wait="3s")
            taken += job is not None
            await topic.finish_many([job])
        assert 19 <= taken <= 21, "two a second, of ten"

    adapter.perform(story())
