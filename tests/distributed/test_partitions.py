"""A topic of many places is used like any other: on one server and on a Cluster, blocking and awaited."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from redis.crc import key_slot

import tarry
from distributed.conftest import PARTS
from tarry.clients.testing import Clock, TestAsyncClient
from tarry.errors import BadInput
from tarry.values.keys import SLOTS, partition_keys, partition_of
from tarry.verbs.jobs import views
from tarry.verbs.jobs.partitions import partition_of_id
from walked import cases


def perform(adapter: Any, story: Any) -> Any:
    return adapter.perform(story)


def test_jobs_are_stored_in_the_partition_of_their_id(adapter: Any, topic: Any) -> None:
    async def story() -> None:
        added = await topic.add_many([tarry.NewJob(n, id=f"job-{n}") for n in range(50)], delay="1h")
        assert [one.id for one in added] == [f"job-{n}" for n in range(50)]
        made = await topic.add_many(range(50), delay="2h")
        one = await topic.add("one", delay="3h")
        ids = [*(job.id for job in added), *(job.id for job in made), one.id]
        counts = Counter(partition_of_id(id, PARTS) for id in ids)
        parts = await adapter.run(topic.verbs.partitions())
        sizes = [(await adapter.run(views.topic_stats(part.context))).delayed for part in parts]
        assert sizes == [counts[n] for n in range(PARTS)]
        assert min(sizes) > 0

    perform(adapter, story())


def test_jobs_are_updated_and_put_off_in_their_partitions(adapter: Any, topic: Any, clock: Clock) -> None:
    async def story() -> None:
        ids = [f"job-{n}" for n in range(30)]
        event = {"if_exists": "replace", "delay": "40s", "latest": "1m"}
        added = await topic.add_many([tarry.NewJob("old", id=id) for id in ids], **event)
        first = added[0].due - timedelta(seconds=40)
        clock.advance("30s")
        added = await topic.add_many([tarry.NewJob("event", id=id) for id in ids], **event)
        assert {one.due - first for one in added} == {timedelta(minutes=1)}
        added = await topic.add_many([tarry.NewJob("new", id=id) for id in ids], if_exists="update", delay="9h")
        assert {(one.is_new, one.state, one.due - first) for one in added} == {(False, "delayed", timedelta(minutes=1))}
        clock.advance("30s")
        jobs = await topic.pop_many(100)
        assert [(job.body, job.attempt) for job in jobs] == [("new", 1)] * 30
        await topic.add_many([tarry.NewJob("last", id=id) for id in ids], if_exists="update")
        await topic.finish_many(jobs)
        again = await topic.pop_many(100)
        assert {(job.id, job.body, job.attempt) for job in again} == {(id, "last", 1) for id in ids}
        await topic.finish_many(again)
        stats = await topic.stats()
        assert (stats.finished, stats.reserved, stats.ready) == (60, 0, 0)
        assert (await topic.check()).ok

    perform(adapter, story())


def test_a_partition_keeps_all_its_keys_in_one_slot() -> None:
    """Promise: Declared keys."""
    slots = [{key_slot(key) for key in partition_keys("default", "orders", n, 8)} for n in range(8)]
    assert [len(each) for each in slots] == [1] * 8
    assert len(set[int]().union(*slots)) == 8


@cases("masters", [2, 3, 4, 5, 6, 8])
@cases("partitions", [2, 3, 8, 12, 30, 100])
def test_partitions_are_spread_evenly_over_the_masters(partitions: int, masters: int) -> None:
    """However many there are of both: no master has two more than its share."""
    for topic in ("orders", "t", "测试/7"):
        slots = [key_slot(partition_keys("default", topic, n, partitions).due) for n in range(partitions)]
        assert len(set(slots)) == partitions
        shares = Counter(slot * masters // SLOTS for slot in slots)
        assert max(shares.values()) < partitions / masters + 2
        assert min(shares[n] for n in range(masters)) > partitions / masters - 2


def test_a_hash_tag_names_its_topic_and_partition() -> None:
    due = partition_keys("default", "a.b/c", 3, 8).due
    assert partition_of(due.removeprefix(b"tarry:{default/").removesuffix(b"}:due")) == (b"a.b/c", 3)
    assert partition_of(b"a.b/c") == (b"a.b/c", -1)


def test_every_verb_works_as_on_a_plain_topic(adapter: Any, topic: Any, clock: Clock) -> None:
    async def story() -> None:
        await topic.add_many([tarry.NewJob(n, id=f"{n}", delay=n) for n in range(40)])
        assert [job.id for job in await topic.list("delayed", limit=1000)] == [str(n) for n in range(1, 40)]
        found, page = [], await topic.list(limit=7)
        while True:
            found += [job.id for job in page]
            if page.cursor is None:
                break
            page = await topic.list(limit=7, cursor=page.cursor)
        assert found == [str(n) for n in range(40)]
        assert [job and job.body for job in await topic.get_many(["3", "nobody", "4"])] == [3, None, 4]
        assert await topic.delete_many(["39", "nobody", "38"]) == ["delayed", None, "delayed"]
        assert await topic.reschedule("37", delay="1h") == "delayed"
        assert (await topic.histogram(span=40, buckets=4)).counts == (9, 10, 10, 7)
        clock.advance(60)
        jobs = []
        while some := await topic.pop_many(10, ttr=30):
            jobs += some
        assert sorted(job.body for job in jobs) == list(range(37))
        await topic.touch_many(jobs[:4])
        await topic.release_many(jobs[:2], delay="10m")
        await topic.bury_many(jobs[2:4], reason="cold")
        await topic.finish_many(jobs[4:])
        stats = await topic.stats()
        assert (stats.delayed, stats.dead, stats.finished, stats.added, stats.popped) == (3, 2, 33, 40, 37)
        assert stats.next_due == stats.now + timedelta(minutes=10)
        minutes = await topic.throughput(span="10m")
        assert [sum(getattr(one, name) for one in minutes) for name in ("added", "finished", "died")] == [40, 33, 2]
        assert await topic.kick_many([job.id for job in jobs[2:4]]) == ["dead", "dead"]
        assert (await topic.pause("1h")) is not None
        assert await topic.pop() is None
        await topic.resume()
        held = await topic.pop()
        with pytest.raises(tarry.StaleReceipt) as refused:
            await topic.finish_many([held, *jobs[:2], jobs[10]])
        back = {job.id: "released" for job in jobs[:2]}
        assert refused.value.reasons == {**back, jobs[10].id: "gone"}
        assert (await topic.configure(max_attempts=3)).max_attempts == 3
        assert (await topic.check()).ok
        assert await topic.purge() == 4

    perform(adapter, story())


def test_a_waiting_pop_is_served_from_any_partition(adapter: Any, topic: Any, clock: Clock) -> None:
    async def story() -> None:
        for n in range(12):
            await topic.add(n, delay="5s", id=f"wait-{n}")
        assert {partition_of_id(f"wait-{n}", PARTS) for n in range(12)} == set(range(PARTS))
        jobs = [await topic.pop(wait="10s") for _ in range(12)]
        assert sorted(job.body for job in jobs) == list(range(12))
        assert {job.attempt for job in jobs} == {1}
        await topic.finish_many(jobs)
        assert await topic.pop(wait="10s") is None

    if adapter.client.engine.config.address.kind == "server":  # over several slots a wait is a race, in real time
        perform(adapter, story())


def test_pop_many_with_a_wait_takes_ready_jobs_of_all_partitions(adapter: Any, topic: Any) -> None:
    async def story() -> None:
        await topic.add_many(range(40))
        assert len(await topic.pop_many(100, wait="1s")) == 40

    perform(adapter, story())


def test_release_holder_releases_no_more_than_its_limit(adapter: Any, topic: Any) -> None:
    async def story() -> None:
        await topic.add_many(range(40))
        while await topic.pop_many(10):
            pass
        mine = topic.verbs.holder.decode()
        assert await topic.release_holder(mine, limit=3) == 3
        assert (await topic.stats()).ready == 3
        assert await topic.release_holder(mine, limit=100) == 37

    perform(adapter, story())


def test_partitions_are_drained_evenly(adapter: Any, topic: Any) -> None:
    async def story() -> None:
        await topic.add_many([tarry.NewJob(n, id=f"{n}") for n in range(1000)])
        jobs = [job for _ in range(20) for job in await topic.pop_many(10)]
        counts = Counter(partition_of_id(job.id, PARTS) for job in jobs)
        assert counts == dict.fromkeys(range(PARTS), 40)
        await topic.finish_many(jobs)

    perform(adapter, story())


def test_the_number_of_partitions_is_discovered_and_cannot_change(adapter: Any, topic: Any) -> None:
    async def story() -> None:
        await topic.add("tea", id="tea", delay="1h")
        again = adapter.topic("orders")
        assert (await again.get("tea")).body == "tea"
        other = type(adapter.client)(adapter.client.engine.config.address.url, namespace=adapter.client.namespace)
        if adapter.client.engine.config.address.kind == "server":
            found = other.topic("orders").stats()
            assert (found if not asyncio.iscoroutine(found) else await found).delayed == 1
            closing = other.close()
            if closing is not None:
                await closing
        with pytest.raises(BadInput, match="has 5, not 4"):
            await wrong(adapter, "orders", 4).stats()
        await adapter.topic("plain").add("tea", delay="1h")
        with pytest.raises(BadInput, match="has been used"):
            await wrong(adapter, "plain", 2).stats()
        with pytest.raises(BadInput, match="reach them all"):
            await topic.add_many([1, 2], atomic=True)

    perform(adapter, story())


def test_the_first_verb_of_any_handle_creates_the_partitions(adapter: Any) -> None:
    """The number has been said, and no verb of that handle was called yet."""

    async def story() -> None:
        adapter.topic("orders", partitions=PARTS)
        other = adapter.topic("orders")
        await other.add("tea")
        assert len(await adapter.run(other.verbs.partitions())) == PARTS
        schedules = adapter.client.schedules
        adapter.topic("letters", partitions=2)
        made = schedules.put("letters", "s", every="1h")
        assert (await made if asyncio.iscoroutine(made) else made).next is not None
        assert len(await adapter.run(adapter.topic("letters").verbs.partitions())) == 2

    perform(adapter, story())


def test_a_partition_count_refused_for_a_plain_topic_affects_no_other_handle(adapter: Any) -> None:
    async def story() -> None:
        await adapter.topic("plain").add("tea", id="tea", delay="1h")
        with pytest.raises(BadInput, match="has been used"):
            await wrong(adapter, "plain", 2).stats()
        again = adapter.topic("plain")
        adapter.client.engine.config._known_partitions.counts.clear()
        assert (await again.get("tea")).body == "tea"

    perform(adapter, story())


def wrong(adapter: Any, name: str, partitions: int) -> Any:
    """A handle that nobody checks at the end."""
    made = adapter.topic(name, partitions=partitions)
    adapter.topics_made.remove(made)
    return made


@pytest.mark.parametrize("wrong", [0, -1, 1025, True, "8", 2.0])
def test_an_invalid_number_of_partitions_is_refused(adapter: Any, wrong: Any) -> None:
    with pytest.raises(BadInput, match="partitions"):
        adapter.topic("orders", partitions=wrong)


def test_a_plain_topic_migrates_into_a_partitioned_one(adapter: Any, clock: Clock) -> None:
    async def story() -> None:
        old, new = adapter.topic("old"), adapter.topic("new", partitions=3)
        await old.add_many([tarry.NewJob(n, id=f"{n}", delay=60 + n) for n in range(300)])
        target = getattr(new, "plain", new)
        done = adapter.client.migrate("old", target)
        assert (done if isinstance(done, tarry.Migrated) else await done) == tarry.Migrated(300, 0, 0)
        assert [job.id for job in await new.list(limit=1000)] == [str(n) for n in range(300)]
        sizes = [
            (await adapter.run(views.topic_stats(part.context))).delayed
            for part in await adapter.run(new.verbs.partitions())
        ]
        assert sum(sizes) == 300
        assert min(sizes) > 50

    perform(adapter, story())


def test_a_worker_consumes_all_partitions(url: str, clock: Clock, namespace: str) -> None:
    done: list[Any] = []

    async def story() -> None:
        async with TestAsyncClient(url, clock, namespace=namespace) as client:
            topic = client.topic("orders", partitions=PARTS)
            await topic.add_many([tarry.NewJob(n, id=f"{n}") for n in range(60)])
            worker = tarry.Worker(client=client)

            @worker.on("orders", max_attempts=2, retry={ValueError: "1s"})
            async def close(order: int) -> None:
                if order % 10 == 3:
                    raise ValueError(order)
                done.append(order)

            await worker.run_until_idle()
            clock.advance("1m")
            await worker.run_until_idle()
            stats = await topic.stats()
            assert (stats.finished, stats.dead, stats.reserved, stats.ready) == (54, 6, 0, 0)

    asyncio.run(story())
    assert sorted(done) == [n for n in range(60) if n % 10 != 3]


def test_jobs_of_one_partition_come_in_order_of_due_time(adapter: Any, topic: Any, clock: Clock) -> None:
    async def story() -> None:
        await topic.add_many([tarry.NewJob(n, id=f"{n}", delay=(n * 37) % 100) for n in range(100)])
        clock.advance("2m")
        jobs = [job for _ in range(40) for job in await topic.pop_many(3)]
        assert len(jobs) == 100
        for index in range(PARTS):
            dues = [job.due for job in jobs if partition_of_id(job.id, PARTS) == index]
            assert dues == sorted(dues)

    perform(adapter, story())
