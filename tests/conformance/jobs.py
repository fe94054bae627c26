"""Stories of jobs: a topic, one with partitions, one that must not go too fast, jobs that come again, and the client."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import tarry
from conformance.environment import Environment
from story.test_adapters import (
    a_job_goes_in,
    it_is_handed_out_and_settled,
    it_is_minded_by_its_id,
    several_topics_are_one,
    the_topic_is_ruled,
)
from tarry.errors import NotKept
from until import LONGEST_S


async def topics(world: Environment) -> None:
    topic = world.topic("测试")
    await a_job_goes_in(topic)
    await it_is_handed_out_and_settled(world, topic)  # type: ignore[arg-type]  # it has what a client has
    await it_is_minded_by_its_id(topic)
    await the_topic_is_ruled(topic)
    await several_topics_are_one(world, topic)  # type: ignore[arg-type]
    await holders(world)
    await jobs_settle_themselves(world)
    await results(world)
    await added_once(world, world.topic("once"))
    await priorities(world)
    await keys(world)


async def keys(world: Environment) -> None:
    topic = world.topic("keyed")
    await topic.configure(key_concurrency=1, fair=True)
    await topic.add_many([tarry.NewJob(n, key=key) for n, key in enumerate(["a", "a", "a", "b"])])
    assert [job.body for job in await topic.pop_many(4, wait=LONGEST_S)] == [0, 3]
    assert [(one.key, one.ready, one.held_back) for one in await topic.busiest_keys()] == [("a", 2, 2), ("b", 0, 0)]
    assert [await topic.purge(key="a"), (await topic.stats(key="b")).reserved] == [3, 1]


async def holders(world: Environment) -> None:
    topic = world.topic("held")
    await topic.add_many(range(5))
    assert len(await topic.pop_many(5, wait=LONGEST_S)) == 5
    holder = (await topic.list("reserved")).jobs[0].holder
    assert await topic.touch_holder(holder, ttr="10m") == 5
    assert await topic.release_holder(holder) == 5
    assert await topic.purge() == 5
    assert (await topic.check()).ok


async def priorities(world: Environment) -> None:
    topic = world.topic("urgent")
    await topic.add_many([tarry.NewJob(n, id=f"{n}", priority=n % 4) for n in range(8)])
    jobs = await topic.pop_many(3, wait=LONGEST_S)
    assert [job.id for job in jobs] == ["3", "7", "2"]
    await topic.release_many(jobs, delay=0)
    await topic.reschedule("7", delay="1h")
    assert await topic.delete("2") == "ready"
    assert [job.id for job in await topic.pop_many(8)] == ["3", "6", "1", "5", "0", "4"]
    await topic.purge()
    assert (await topic.check()).ok


async def results(world: Environment) -> None:
    topic = world.topic("kept")
    await topic.configure(keep_finished="1d")
    job = await topic.add(1)
    [taken] = await topic.pop_many(1, wait=LONGEST_S)
    await topic.finish(taken, result={"sum": 3})
    assert await topic.result(job.id, wait=LONGEST_S) == {"sum": 3}
    assert [info.id for info in await topic.list("finished")] == [job.id]
    if not world.is_http:
        await ends_of_jobs(topic, job)
    await topic.purge("finished")
    assert (await topic.check()).ok


async def ends_of_jobs(topic: Any, job: Any) -> None:
    """The one that is finished; a service streams them."""
    ends = await topic.ends(since=(await topic.get(job.id)).created)
    assert (await ends.next()).job.id == job.id
    assert await ends.next() is None
    assert await topic.purge("finished") == 1
    [gap] = await (await topic.ends(since=job.due, wait=0)).walk()
    assert gap.until >= gap.since
    assert await (await topic.ends(since=ends.position, wait=0)).walk() == []
    await ends.close()


async def added_once(world: Environment, topic: Any) -> None:
    """By two clients, one of which looks for the partitions itself."""
    again = world.another().topic("once")
    jobs = [tarry.NewJob(number, id=f"{number}") for number in range(20)]
    with pytest.raises(NotKept, match="keeps none by its own setting"):
        await topic.add_many(jobs, if_exists="once")
    await topic.configure(keep_finished="1d")
    assert all(added.is_new for added in await topic.add_many(jobs, if_exists="once"))
    assert {added.state for added in await again.add_many(jobs, if_exists="once")} == {"ready"}
    left = {job.id for job in jobs}
    while left:
        taken = await topic.pop_many(20, wait=LONGEST_S)
        await topic.finish_many(taken)
        left -= {job.id for job in taken}
    assert {added.state for added in await again.add_many(jobs, if_exists="once")} == {"finished"}
    assert not (await again.add("tea", id="7", if_exists="once")).is_new
    assert (await again.add("tea", id="tea", if_exists="once")).is_new
    assert (await topic.stats()).added == 21
    await topic.purge()
    assert (await again.add("tea", id="7", if_exists="once")).is_new
    await topic.purge()
    assert (await topic.check()).ok


async def jobs_settle_themselves(world: Environment) -> None:
    topic = world.topic("settled")
    await topic.add_many([tarry.NewJob(verb) for verb in ("finish", "release", "bury")])
    for _ in range(3):
        job = await topic.pop(wait=LONGEST_S)
        await world.of(job, "step", "weigh", lambda: 3)
        assert job.steps == {"weigh": 3}
        await world.of(job, job.body)
    stats = await topic.stats()
    assert (stats.delayed, stats.ready, stats.reserved, stats.dead) == (1, 0, 0, 1)
    assert (await topic.check()).ok


async def partitions(world: Environment) -> None:
    """As on a plain topic; discovered by clients that are not given their number."""
    topic = world.topic("parted", partitions=5)
    await topic.add_many([tarry.NewJob(number, id=f"{number}") for number in range(40)], delay="20ms")
    found = world.another().topic("parted")
    with pytest.raises(tarry.BadInput, match="partitions"):
        await world.another().topic("parted", partitions=4).stats()
    stats = await found.stats()
    assert stats.delayed + stats.ready == 40
    taken: Counter[int] = Counter()
    while sum(taken.values()) < 20:
        for job in await found.pop_many(7, wait=LONGEST_S):
            taken[job.body] += 1
            await found.finish(job)
    job = await world.client.pop("parted", wait=LONGEST_S)
    taken[job.body] += 1
    await topic.touch_many([job], ttr="1m")
    await topic.bury(job, reason="no use")
    left = {f"{number}" for number in range(40)} - {f"{number}" for number in taken}
    assert {info.id for info in await topic.list(limit=100)} == left | {job.id}
    assert (await topic.get(job.id)).reason == "no use"
    [group] = await topic.dead_groups()
    assert (group.error, group.samples) == ("no use", (job.id,))
    assert [info.id for info in await topic.list("dead", group=group.id)] == [job.id]
    assert await topic.kick(job.id) == "dead"
    assert await topic.reschedule(job.id, delay="1h") == "ready"
    shown = await topic.histogram(span="2h", buckets=2)
    assert sum(shown.counts) + shown.before == len(left) + 1
    assert sum(minute.died for minute in await topic.throughput(span="1h")) == 1
    assert await topic.delete(job.id) == "delayed"
    await topic.configure(ttr="2m")
    await topic.pause("1h")
    assert await found.pop() is None
    await topic.resume()
    held = await found.pop_many(3, wait=LONGEST_S)
    assert {job.ttr for job in held} == {timedelta(minutes=2)}
    await found.release_many(held, delay=0)
    assert (await topic.check()).ok
    assert await topic.purge() == len(left)
    assert max(taken.values()) == 1
    await added_once(world, world.topic("once", partitions=5))


async def limits(world: Environment) -> None:
    topic = world.topic("limited")
    await topic.configure(rate="2/s", concurrency=2)
    await topic.add_many(range(5))
    assert len(await topic.pop_many(5, wait=LONGEST_S)) == 1
    assert await topic.pop() is None
    assert (await topic.stats()).limited is not None
    await topic.configure(rate=None)
    held = await topic.pop_many(5, wait=LONGEST_S)
    assert len(held) == 1
    assert await topic.pop(wait="10ms") is None
    await topic.finish_many(held)
    assert await topic.pop(wait=LONGEST_S) is not None


async def schedules(world: Environment) -> None:
    made = world.client.schedules
    put = await made.put("reports", "daily", {"kind": "daily"}, cron="0 7 * * *", tz="Europe/Berlin")
    assert put.next is not None
    await made.put("reports", "often", {"kind": "often"}, every="100ms")
    job = await world.topic("reports").pop(wait=LONGEST_S)
    assert (job.body, job.id.partition("@")[0]) == ({"kind": "often"}, "often")
    await world.topic("reports").finish(job)
    assert await made.pause("reports", "often")
    assert (await made.get("reports", "often")).paused
    assert await made.resume("reports", "often")
    assert {one.id for one in await made.list()} == {one.id for one in await made.list("reports")} == {"daily", "often"}
    assert await made.delete("reports", "often")
    assert await made.get("reports", "often") is None


async def clients(world: Environment) -> None:
    client = world.client
    assert await client.topics() == []
    assert await client.workers() == []
    assert await client.set_worker_mode("never-there", "quiet") is False
    await client.topic("a").add("tea")
    assert await client.topics() == ["a"]
    job = await client.pop("b", "a", wait=LONGEST_S)
    assert (job.topic, job.body) == ("a", "tea")
    await client.topic("a").finish(job)
    await client.topic("a").add_many(["milk", "sugar"])
    jobs = await client.pop_many("b", "a", limit=9, wait=LONGEST_S)
    assert [job.body for job in jobs] == ["milk", "sugar"]
    await client.topic("a").finish_many(jobs)
    await client.topic("old").add_many([tarry.NewJob(number, id=f"{number}") for number in range(20)], delay="1h")
    target = world.another().topic("new", partitions=3)
    assert (await client.migrate("old", target, dry_run=True)).moved == 20
    assert (await client.migrate("old", target)).moved == 20
    assert ((await target.stats()).delayed, (await client.topic("old").stats()).delayed) == (20, 0)
    assert await client.schedules.list() == []
    await client.keep_moving(world.name)
    queue = client.delayed_queue(world.name, codec="string")
    await queue.offer("tea", "1h")
    assert (await client.migrate_queue(queue, "a")).moved == 1
    assert await client.blocking_queue(world.name, codec="string").size() == 0
    assert await client.guarded_queue("g").size() == 0
    assert await client.map_cache(f"{world.name} map", codec="json").size() == 0
    assert not (await client.lock(f"{world.name} lock").state()).held
    await client.close()
    with pytest.raises(tarry.BadInput, match="closed"):
        await client.topics()
