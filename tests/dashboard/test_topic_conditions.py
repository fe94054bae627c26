"""The overview and the page of a topic tell its conditions, the worst first, by imaginary time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.connections import health
from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.forecasts import jobs_by_minute
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages import overview, topic_page
from tarry.verbs.workers import WorkerReport, WorkerTopic, report_worker

Story = Callable[[TestAsyncClient, Clock], Awaitable[None]]


def pages(url: str, namespace: str, story: Story) -> tuple[dict[str, Any], str, str]:
    """The overview's data after a story, and the text of both pages."""

    async def look() -> tuple[dict[str, Any], str, str]:
        clock = Clock()
        async with TestAsyncClient(url, clock, namespace=namespace) as client:
            await story(client, clock)
            dashboard = Dashboard(client)
            visit = PageRequest(dashboard, "", {"topic": "orders"}, "viewer")
            found, topic = await overview.view(visit), await topic_page.view(visit)
            texts = (dashboard.view(visit, "overview.html", found), dashboard.view(visit, "topic.html", topic))
            every, one = (re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)) for text in texts)
            return found, every, one

    return asyncio.run(look())


async def die(client: TestAsyncClient, topic: str, count: int) -> None:
    await client.topic(topic).add_many(range(count))
    await client.topic(topic).bury_many(await client.topic(topic).pop_many(count), reason="no card")


def test_nothing_green_stands_over_dead_jobs(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        await die(client, "orders", 30)

    found, every, one = pages(valkey_url, namespace, story)
    assert found["verdict"] == ("bad", "orders: 30 jobs died in the last ten minutes.")
    assert "30 jobs died in the last ten minutes." in one
    assert "n time." not in every + one


def test_topics_are_listed_by_their_worst_condition(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        await client.topic("a-fine").add(1, delay="1h")
        await client.topic("b-paused").add(1)
        await client.topic("b-paused").pause("1h")
        await client.topic("c-alone").add(1)
        await client.topic("orders").add(1)
        await die(client, "z-died", 30)
        clock.advance(30)

    found, *_ = pages(valkey_url, namespace, story)
    assert [row.stats.topic for row in found["rows"]] == ["z-died", "c-alone", "orders", "b-paused", "a-fine"]
    assert found["verdict"][1].startswith("3 topics need attention. z-died: 30 jobs died")


def test_a_slow_server_is_named_with_what_to_do(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        await client.topic("orders").add(1, delay="1h")

    monkeypatch.setattr(health, "SLOW_MS", 0.0)
    _, every, one = pages(valkey_url, namespace, story)
    assert re.search(
        r"The server: it took \d+ ms to answer this machine: .* SLOWLOG GET names its slow commands", every
    )
    assert re.search(r"The server answers slowly, after \d+ ms\. What to do", one)


def test_what_jobs_wait_for_is_told_in_place_of_a_lateness(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        topic = client.topic("orders")
        await topic.configure(rate="1/1h", burst=1)
        await topic.add_many([1, 2, 3])
        clock.advance("1h")
        await topic.finish(await topic.pop())
        clock.advance("30m")

    _, every, one = pages(valkey_url, namespace, story)
    assert "rate limit, waits 1 h 30 m" in every
    assert "2 jobs are held back by the rate limit, the first for 1 h 30 m; the next can be handed out in 30 m." in one
    assert "Held back by the rate limit 1 h 30 m the next in 30 m" in one
    assert "Median lateness" not in one


def test_the_forecast_promises_nothing_that_nobody_can_do(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        topics = [WorkerTopic("orders", ("mail", "print"), 5, 0, 0, (), ("charge",))]
        report = WorkerReport("ada", 7, "1", 5, 0, False, topics, [])
        await client.engine.run(report_worker(client.namespace, b"ada", None, report))
        await client.topic("orders").add_many([{"task": "charge"}] * 3, delay="2m")

    *_, one = pages(valkey_url, namespace, story)
    assert "In the next 5 m, 3 jobs are due, and none is handed out: no live worker knows &#39;charge&#39;." in one
    assert "3 jobs to do in the hour. When they will be done cannot be said: no live worker knows task" in one
    assert "a minute late" not in one


def test_the_forecast_says_how_many_are_certain(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        topics = [WorkerTopic("orders", ("mail",), 2, 0, own_slots=2)]
        report = WorkerReport("ada", 7, "1", 2, 0, False, topics, [])
        await client.engine.run(report_worker(client.namespace, b"ada", None, report))
        await client.topic("orders").add_many([{"task": "mail"}] * 3, delay="2m")

    *_, one = pages(valkey_url, namespace, story)
    assert (
        "In the next 5 m, 2 of 3 jobs are certain to be handed out, and at most 3: how many depends on how long handlers take."
        in one
    )


def test_the_next_minutes_and_the_hour_tell_one_story(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        orders = client.topic("orders")
        hour = 1_800_007_200_000_000
        clock.advance_to(hour - 3_570_000_000)
        await client.schedules.put(orders, "often", 1, every="2m")
        await client.schedules.put(orders, "rarely", 1, every="2d")
        clock.advance_to(hour)
        await client.schedules.put(orders, "by-calendar", 1, cron="30 * * * *")
        while await orders.pop(wait=0):
            pass

    *_, one = pages(valkey_url, namespace, story)
    assert "In the next 5 m, 3 jobs are due" in one
    assert "Nothing is due in the next hour" not in one
    assert "31 jobs to do" in one, "thirty every two minutes, one by calendar"


def test_the_hour_promises_nothing_where_the_next_minutes_do_not(valkey_url: str, namespace: str) -> None:
    """The rate of the past hour is a condition, and nothing is estimated where a limit decides."""

    async def look(slots: int, **limits: Any) -> str:
        clock = Clock()
        async with TestAsyncClient(valkey_url, clock, namespace=f"{namespace}{''.join(limits)}") as client:
            orders, dashboard = client.topic("orders"), Dashboard(client)
            for _ in range(2):
                await orders.add_many(range(60))
                await orders.finish_many(await orders.pop_many(60))
                await dashboard.sampler.sample()
                clock.advance("2m")
            await dashboard.sampler.sample()
            await orders.add_many(range(2))
            await orders.pop_many(2)
            await orders.configure(**limits)
            await orders.add_many(range(8), delay="2m")
            topics = [WorkerTopic("orders", (), slots, 2, own_slots=slots, takes_any_body=True)]
            report = WorkerReport("ada", 7, "1", slots, 2, False, topics, [])
            await client.engine.run(report_worker(client.namespace, b"ada", None, report))
            visit = PageRequest(dashboard, "", {"topic": "orders"}, "viewer")
            text = dashboard.view(visit, "topic.html", await topic_page.view(visit))
            return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))

    busy = asyncio.run(look(2))
    assert "none is certain to be handed out: none of 2 slots is certain to be free" in busy
    assert "If the workers keep their best rate of the past hour, 30/min, no job gets more than a minute late." in busy
    ruled = asyncio.run(look(2, rate="4/1m"))
    assert "If the workers use all of the rate limit, 4/min, jobs get up to 1 m late" in ruled
    assert ", and the backlog is gone in 4 m." in ruled
    limited = asyncio.run(look(3, concurrency=2))
    assert "none is certain to be handed out: the topic&#39;s limit holds them back now" in limited
    assert "8 jobs to do in the hour. When they will be done cannot be said either." in limited
    assert "a minute late" not in limited


def test_jobs_of_schedules_are_counted_by_the_minute(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    clock.advance_to(1_800_000_000_000_000)
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        client.schedules.put("a", "x", 0, every="10s")
        client.schedules.put("b", "x", 0, every="7m", missed="all")
        client.schedules.put("c", "x", 0, cron="*/20 * * * *")
        now = client.topic("a").stats().now

        def counted(topic: str, ahead: timedelta = timedelta()) -> list[int]:
            return jobs_by_minute(list(client.schedules.list(topic)), now + ahead, 60)[0]

        assert counted("a") == [5, *[6] * 59], "the first is due after ten seconds"
        assert [minute for minute, jobs in enumerate(counted("b")) if jobs] == [7, 14, 21, 28, 35, 42, 49, 56]
        assert [minute for minute, jobs in enumerate(counted("c")) if jobs] == [20, 40], "the hour is 60 minutes"
        assert counted("a", timedelta(hours=1))[0] == 1 + 5, "one for those that were missed"
        assert counted("b", timedelta(hours=1))[0] == 8, "or one for each"
