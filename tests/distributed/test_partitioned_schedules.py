"""Schedules of a topic with partitions: each lies in the partition of its name, and so do its jobs."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import tarry
from distributed.conftest import PARTS
from story.adapters import Awaited
from tarry.clients import schedule_verbs
from tarry.clients.testing import Clock, TestAsyncClient
from tarry.core.requests import Command
from tarry.errors import BadInput, BodyError
from tarry.values.keys import part_key, partition_of_name
from tarry.verbs.jobs.partitions import partition_of_id
from tarry.verbs.schedules.fire import occurrence_stamp
from walked import cases

NAMES = [f"s{n}" for n in range(12)]


@pytest.fixture
def schedules(adapter: Any) -> Any:
    blocking = isinstance(adapter.client, tarry.Client)
    return Awaited(adapter.client.schedules) if blocking else adapter.client.schedules


def test_the_schedule_names_cover_all_partitions() -> None:
    assert {partition_of_name(name.encode(), PARTS) for name in NAMES} == set(range(PARTS))


@cases("name", ["s", "a@b", "日报", "s@2026-01-01T00:00:00Z", "Z", "@"])
@cases("moment", [0, 1, 1_800_000_000_000_000, 253_370_764_800_000_000 - 1])
def test_an_occurrence_is_in_the_partition_of_its_schedule(name: str, moment: int) -> None:
    for number in (2, 7, 1024):
        assert partition_of_id(f"{name}@{occurrence_stamp(moment)}", number) == partition_of_name(name.encode(), number)


@pytest.mark.parametrize("id", ["s@2026-01-01T00:00:00", "@2026-01-01T00:00:00Z", "s@today Z", "s@2026-1-1T00:00:00Z"])
def test_other_ids_are_placed_by_their_whole_text(id: str) -> None:
    assert partition_of_id(id, 1024) == partition_of_name(id.encode(), 1024)


def test_partitioned_schedules_fire_and_their_jobs_are_found_by_id(
    adapter: Any, topic: Any, schedules: Any, clock: Clock
) -> None:
    async def story() -> None:
        await topic.stats()
        for n, name in enumerate(NAMES):
            made = await schedules.put("orders", name, n, every="1h", first=clock.now + timedelta(minutes=10 + n))
            assert (made.topic, made.id, made.body) == ("orders", name, n)
        assert [one.id for one in await schedules.list("orders")] == NAMES, "by their next occurrence"
        assert len(await schedules.list()) == 12
        assert await adapter.run(schedule_verbs.count_schedules(topic.verbs)) == 12
        sizes = Counter(partition_of_name(name.encode(), PARTS) for name in NAMES)
        parts = await adapter.run(topic.verbs.partitions())
        plans = [part_key(part.keys, "plans") for part in parts]
        assert [await adapter.run(Command((b"HLEN", key), int)) for key in plans] == [sizes[n] for n in range(PARTS)]
        assert await schedules.pause("orders", "s1") is await schedules.pause("orders", "s2") is True
        assert await schedules.resume("orders", "s2") is True
        assert await schedules.delete("orders", "s3") is True
        assert await schedules.delete("orders", "s3") is await schedules.pause("orders", "nobody") is False
        clock.advance("30m")
        jobs = [job for _ in range(4) for job in await topic.pop_many(20)]
        assert sorted(job.body for job in jobs) == [n for n in range(12) if n not in (1, 3)]
        for job in jobs:
            assert job.id == f"s{job.body}@{occurrence_stamp(round(job.due.timestamp() * 1e6))}"
            assert (await topic.get(job.id)).state == "reserved"
        await topic.finish_many(jobs[:4])
        assert await topic.delete_many([job.id for job in jobs[4:]]) == ["reserved"] * 6
        assert (await schedules.get("orders", "s0")).fired == 1
        assert (await schedules.get("orders", "s1")).paused
        clock.advance("1h")
        assert len([job for _ in range(4) for job in await topic.pop_many(20)]) == 10

    adapter.perform(story())


def test_a_waiting_pop_gets_the_job_at_its_occurrence(adapter: Any, topic: Any, schedules: Any, clock: Clock) -> None:
    async def story() -> None:
        await topic.stats()
        began = clock.us
        await schedules.put("orders", "tidy", every="5m")
        for n in range(1, 4):
            job = await topic.pop(wait="1h")
            assert clock.us - began == n * 300_000_000
            await topic.finish(job)

    if adapter.client.engine.config.address.kind == "server":  # over several slots a wait is a race, in real time
        adapter.perform(story())


def test_declared_schedules_are_partitioned_too(url: str, clock: Clock, namespace: str) -> None:
    done: list[str] = []

    def crew(client: Any, names: list[str]) -> tarry.Worker:
        worker = tarry.Worker("shop", client=client)
        for name in names:

            @worker.every("1h", id=name, args={"name": name})
            @worker.task(topic="orders", name=f"work-{name}")
            async def work(name: str) -> None:
                done.append(name)

        return worker

    async def story() -> None:
        async with TestAsyncClient(url, clock, namespace=namespace) as client:
            await client.topic("orders", partitions=PARTS).stats()
            await crew(client, NAMES).run_until_idle()
            listed = await client.schedules.list("orders")
            assert sorted(one.id for one in listed) == sorted(NAMES)
            assert all(one.from_code and not one.orphaned for one in listed)
            with pytest.raises(BadInput, match="a worker's code declares it"):
                await client.schedules.put("orders", "s1", every="1h")
            clock.advance("1h")
            await crew(client, NAMES).run_until_idle()
            assert sorted(done) == sorted(NAMES)
            clock.advance("5m")
            await crew(client, NAMES[:-1]).run_until_idle()
            clock.advance("5m")
            await crew(client, NAMES[:-1]).run_until_idle()
            assert [one.id for one in await client.schedules.list("orders") if one.orphaned] == NAMES[-1:]

    asyncio.run(story())


def test_a_damaged_schedule_is_listed_among_the_others(adapter: Any, topic: Any, schedules: Any, clock: Clock) -> None:
    async def story() -> None:
        await topic.stats()
        for name in NAMES[:3]:
            await schedules.put("orders", name, every="1h")
        await schedules.put("plain", "tea", every="1h")
        parts = await adapter.run(topic.verbs.partitions())
        where = part_key(parts[partition_of_name(b"s1", PARTS)].keys, "plans")
        stored = await adapter.run(Command((b"HGET", where, b"s1"), bytes))
        for wrong in (b"torn", stored[:40], stored.replace(b"every_us", b"every_xx").replace(b"{", b"[", 1)):
            await adapter.run(Command((b"HSET", where, b"s1", wrong), int))
            listed = await schedules.list()
            assert sorted((one.topic, one.id, one.damaged) for one in listed) == [
                ("orders", "s0", False), ("orders", "s1", True), ("orders", "s2", False), ("plain", "tea", False)
            ]  # fmt: skip
            broken = await schedules.get("orders", "s1")
            assert (broken.every, broken.cron, broken.fired, broken.following(3, clock.now)) == (None, None, 0, [])
            with pytest.raises(BodyError):
                _ = broken.body
            with pytest.raises(BadInput, match="put it again, or delete it"):
                await schedules.resume("orders", "s1")
        clock.advance("1h")
        assert len([job for _ in range(3) for job in await topic.pop_many(9)]) == 2
        mended = await schedules.put("orders", "s1", every="1m")
        assert (mended.damaged, mended.next) == (False, clock.now + timedelta(minutes=1))
        assert await schedules.delete("orders", "s1") is True

    adapter.perform(story())
