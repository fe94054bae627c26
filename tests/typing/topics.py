# pyright: strict, reportUnknownMemberType=true, reportUnknownVariableType=true, reportUnknownArgumentType=true
"""What type checkers must know about clients, topics and jobs. Checked by mypy and basedpyright, never run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_type

import msgspec

import tarry


class Order(msgspec.Struct):
    number: int


def blocking() -> None:
    with tarry.Client() as client:
        assert_type(client, tarry.Client)

        orders = client.topic("orders", type=Order)
        assert_type(orders, tarry.Topic[Order])
        assert_type(client.topic("anything"), tarry.Topic[Any])
        assert_type(client.topic("raw", type=bytes), tarry.Topic[bytes])

        added = orders.add(Order(7), delay="10m", headers={"trace": "1"})
        assert_type(added, tarry.Added)
        assert_type(added.state, tarry.types.JobState)
        assert_type(orders.add_many([Order(7), tarry.NewJob(Order(8), delay=timedelta(1))]), list[tarry.Added])

        rules = orders.configure(rate=(100, timedelta(minutes=1)), burst=5, concurrency=None, max_lateness="1h")
        assert_type(rules, tarry.TopicSettings)
        assert_type(orders.configure(rate="5/s").rate, tarry.types.Rate | None)
        assert_type(orders.stats().limited, tarry.types.LimitStatus | None)
        assert_type(orders.add(Order(9), max_lateness=60, priority=1), tarry.Added)

        made = client.schedules.put(orders, "tidy", Order(1), every="5m")
        assert_type(made, tarry.Schedule)
        assert_type(made.next, datetime | None)
        assert_type(client.schedules.list(), list[tarry.Schedule])
        assert_type(client.schedules.pause("orders", "tidy"), bool)

        job = orders.pop(wait=1)
        assert_type(job, tarry.Job[Order] | None)
        if job is not None:
            with job as same:
                assert_type(same, tarry.Job[Order])
            assert_type(job.body, Order)
            assert_type(job.headers, dict[str, str])
            assert_type(job.due, datetime)
            assert_type(job.lateness, timedelta)
            assert_type(job.receipt, int)
            assert_type(orders.finish(job), None)
            orders.touch(job, ttr="30s")
            orders.release(job, delay=timedelta(seconds=1), counted=False)
            orders.bury(tarry.Reservation(job.id, job.receipt), reason="no such order")
            assert_type(job.finish(), None)
            assert_type(job.touch(), None)
            job.touch(ttr="30s")
            job.release(delay="5m", counted=False, reason="busy")
            job.bury(reason="no such order")
        assert_type(orders.pop_many(10), list[tarry.Job[Order]])
        assert_type(client.pop_many(orders, "letters", limit=10, wait=1, ttr="30s"), list[tarry.Job[Any]])

        assert_type(orders.delete("7"), tarry.types.State | None)
        assert_type(orders.reschedule("7", delay=0), tarry.types.State | None)
        assert_type(orders.kick("7"), tarry.types.State | None)

        info = orders.get("7")
        assert_type(info, tarry.JobInfo[Order] | None)
        for listed in orders.list("dead"):
            assert_type(listed.body, Order)
        groups = orders.dead_groups(task="charge", error="503", text="ada", limit=100)
        assert_type(groups, tarry.DeadGroups)
        assert_type(groups + orders.dead_groups(cursor=groups.cursor), tarry.DeadGroups)
        for group in groups:
            assert_type(group, tarry.types.DeadGroup)
            assert_type(orders.list("dead", group=group.id), tarry.JobPage[Order])
        assert_type(orders.stats(), tarry.Stats)
        assert_type(orders.throughput(span="1h"), tuple[tarry.MinuteCounts, ...])


async def awaited() -> None:
    async with tarry.AsyncClient() as client:
        orders = client.topic("orders", type=Order)
        assert_type(orders, tarry.AsyncTopic[Order])
        assert_type(await orders.add(Order(7)), tarry.Added)
        job = await orders.pop(wait=1)
        assert_type(job, tarry.AsyncJob[Order] | None)
        if job is not None:
            async with job as same:
                assert_type(same.body, Order)
            assert_type(await orders.finish(job), None)
            assert_type(await job.finish(), None)
            await job.touch(ttr="30s")
            await job.release(delay="5m", counted=False, reason="busy")
            await job.bury(reason="no such order")
        assert_type(await client.pop_many("orders", "letters", limit=10), list[tarry.AsyncJob[Any]])
        assert_type(await orders.get("7"), tarry.JobInfo[Order] | None)
        assert_type(await orders.stats(), tarry.Stats)
        assert_type(await orders.throughput(span=timedelta(hours=1)), tuple[tarry.MinuteCounts, ...])


def refused(topic: tarry.Topic[Order], awaited_topic: tarry.AsyncTopic[Order], job: tarry.Job[Order]) -> None:
    """Each of these is a mistake that a type checker finds."""
    topic.add({"number": 7})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.add(Order(7), if_exists="overwrite")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tarry.Client().queue("mails")  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    topic.add(Order(7), 10)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.add(Order(7), countdown=10)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.add_many([Order(7)], "5m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.pop(timeout=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.pop_many(10, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    held = tarry.Reservation("7", 1)
    topic.touch(held, "30s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.touch_many([held], "30s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.release(held, "5m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.release_many([held], "5m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.bury(held, "no such order")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.bury_many([held], "no such order")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.touch_holder("pop-1", "30s")  # type: ignore[arg-type, call-arg]  # pyright: ignore[reportArgumentType, reportCallIssue]
    job.touch("30s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    job.release("5m")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    job.bury("no such order")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.list("deleted")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    topic.finish("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
