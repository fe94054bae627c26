"""The overview and the page of a topic tell its conditions, the worst first, by imaginary time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

from tarry.clients.testing import Clock, TestAsyncClient
from tarry.programs.dashboard import Dashboard
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


def test_what_jobs_wait_for_is_told_in_place_of_a_lateness(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        topic = client.topic("orders")
        await topic.configure(rate="1/1h", burst=1)
        await topic.add_many([1, 2, 3])
        clock.advance("1h")
        await topic.finish(await topic.pop())
        clock.advance("30m")

    _, every, one = pages(valkey_url, namespace, story)
    assert "1 h 30 m for its rate" in every
    assert "2 jobs wait for its limit of rate, the first for 1 h 30 m; the next may go in 30 m." in one
    assert "Waits for its rate 1 h 30 m the next in 30 m" in one
    assert "Late p50, p99" not in one


def test_the_forecast_promises_nothing_that_nobody_can_do(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        topics = [WorkerTopic("orders", ("mail", "print"), 5, 0, 0, (), ("charge",))]
        report = WorkerReport("ada", 7, "1", 5, 0, False, topics, [])
        await client.engine.run(report_worker(client.namespace, b"ada", None, report))
        await client.topic("orders").add_many([{"task": "charge"}] * 3, delay="2m")

    *_, one = pages(valkey_url, namespace, story)
    assert (
        "Within 5 m 3 jobs are due, and none is certain to be handed out: not every live worker knows &#39;charge&#39;."
        in one
    )
    assert "3 jobs in the hour, and nothing is said of when they are done: no live worker knows task" in one
    assert "a minute late" not in one


def test_the_forecast_says_how_many_are_certain(valkey_url: str, namespace: str) -> None:
    async def story(client: TestAsyncClient, clock: Clock) -> None:
        topics = [WorkerTopic("orders", ("mail",), 2, 0)]
        report = WorkerReport("ada", 7, "1", 2, 0, False, topics, [])
        await client.engine.run(report_worker(client.namespace, b"ada", None, report))
        await client.topic("orders").add_many([{"task": "mail"}] * 3, delay="2m")

    *_, one = pages(valkey_url, namespace, story)
    assert (
        "Within 5 m 2 are handed out for certain, at most 3, of 3 jobs: more depends on how long handlers take." in one
    )
