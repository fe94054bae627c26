"""Why a job is where it is, by imaginary time: each sentence in the situation that it is about."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestAsyncClient
from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages import job_page as job_part
from tarry.programs.dashboard.pages import topic_page as topic_part
from tarry.programs.dashboard.tracebacks import TracePart, fold_frames

numbers = count()
Story = Callable[[Any, Clock], Awaitable[None]]


Told = tuple[str, list[tuple[str, str]], list[str]]


def explain(url: str, story: Story, *, samples: bool = False) -> Told:
    """What is said of the job ``x`` after a story: why, the topic's conditions, and its life."""

    async def explain_both() -> Told:
        clock = Clock()
        async with TestAsyncClient(url, clock, namespace=f"why-{os.getpid()}-{next(numbers)}") as client:
            dashboard = Dashboard(client)
            topic = client.topic("orders")
            if samples:
                await topic.add(0, id="before")
                await dashboard.sampler.sample()
            await story(topic, clock)
            if samples:
                await dashboard.sampler.sample()
            asked = {"topic": "orders", "id": "x"}
            seen = await job_part.view(PageRequest(dashboard, "", asked, "viewer"))
            about = await topic_part.view(PageRequest(dashboard, "", asked, "viewer"))
            told = [(one.level, one.sentence) for one in about["conditions"] if one.kind != "slow_server"]
            return " ".join(seen["why"]), told, [event.what for event in seen["life"]]

    return asyncio.run(explain_both())


async def delayed(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x", delay="4m")


async def kept(topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1d")
    await topic.add(0, id="x")
    await topic.finish(await topic.pop(), result={"sum": 3})


async def failed(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x")
    await topic.release(await topic.pop(), delay="10m", reason="ValueError: no card")


async def alone(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x")
    clock.advance(12)


async def paused(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x")
    await topic.pause("1h")
    clock.advance("10m")


async def behind(topic: Any, clock: Clock) -> None:
    await topic.add_many([1, 2])
    clock.advance(1)
    await topic.add(0, id="x")
    clock.advance(30)
    await topic.finish(await topic.pop())


async def urgent(topic: Any, clock: Clock) -> None:
    await topic.add_many([1, 2])
    clock.advance(1)
    await topic.add(0, id="x", priority=2)
    clock.advance(30)


async def capped(topic: Any, clock: Clock) -> None:
    await topic.configure(concurrency=1)
    await topic.add(0, id="before-it")
    await topic.add(0, id="x")
    await topic.pop(ttr="10m")
    clock.advance(60)


async def of_a_full_key(topic: Any, clock: Clock) -> None:
    await topic.configure(key_concurrency=2)
    await topic.add_many([1, 2], key="customer-7")
    await topic.add(0, id="x", key="customer-7")
    await topic.add(0, key="customer-8")
    assert len(await topic.pop_many(9, ttr="10m")) == 3


async def of_a_key_at_its_rate(topic: Any, clock: Clock) -> None:
    await topic.configure(key_rate="1/1h")
    await topic.add(1, key="customer-7")
    await topic.add(0, id="x", key="customer-7")
    await topic.finish(await topic.pop())
    clock.advance(60)


async def of_a_paused_key(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x", key="customer-7")
    await topic.pause(key="customer-7")
    clock.advance(60)


async def rated(topic: Any, clock: Clock) -> None:
    await topic.configure(rate="1/1h", burst=1)
    await topic.add_many([1, 2])
    await topic.add(0, id="x")
    clock.advance("1h")
    await topic.finish(await topic.pop())
    clock.advance(60)


async def forgotten(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x")
    await topic.pop(ttr=10)
    clock.advance(20)


async def held(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x", max_attempts=3)
    await topic.release(await topic.pop(), delay=0, reason="ValueError: no card")
    clock.advance(1)
    await topic.pop(ttr=60)
    clock.advance(18)


async def dead(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x", max_attempts=1)
    await topic.release(await topic.pop(), delay=0, reason="ValueError: no card\nTraceback\nValueError: no card")
    clock.advance("1d")


async def worn_out(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x", max_attempts=12)
    for n in range(1, 13):
        job = await topic.pop()
        clock.advance(3)
        await topic.release(job, delay=0, reason=f"KeyError: {n}")


async def buried(topic: Any, clock: Clock) -> None:
    await topic.add(0, id="x")
    await topic.bury(await topic.pop(), reason="no such customer")


@pytest.mark.parametrize(
    ("story", "why", "conditions", "life"),
    [
        (
            delayed,
            "It is due in 4 m.",
            [("calm", "No consumer takes its jobs; 1 waits, due in 4 m.")],
            ["added", "due"],
        ),
        (
            failed,
            "It is due in 10 m. Attempt 1 ended: ValueError: no card. It waits for attempt 2 of 20.",
            None,
            ["added", "attempt 1, by ", "due"],
        ),
        (
            alone,
            "It has been ready for 12 s. This topic has no consumer",
            [("bad", "No consumer takes its 1 ready job."), ("bad", "1 job is overdue by 12 s.")],
            None,
        ),
        (
            paused,
            "It has been ready for 10 m. The topic is paused for 50 m: nothing is handed out.",
            [
                ("calm", "No consumer takes its jobs; 1 waits."),
                ("calm", "Paused for 50 m; 1 job waits, the first for 10 m."),
            ],
            None,
        ),
        (
            behind,
            "It has been ready for 30 s. 2 jobs are due before it. At the recent rate of 1.9/min its turn comes in about 1 m 2 s.",
            None,
            None,
        ),
        (urgent, "Its priority is 2: it is handed out before due jobs of a lower priority.", None, None),
        (
            capped,
            "The topic runs at most 1 job at a time, and 1 is reserved",
            [
                (
                    "calm",
                    "1 job is held back by the concurrency limit, the first for 1 m; the next can be handed out in 9 m.",
                )
            ],
            None,
        ),
        (of_a_full_key, "2 of 2 of customer-7 are running: it waits until one of them ends.", None, None),
        (
            of_a_key_at_its_rate,
            "customer-7 has spent its rate of 1/1h: its next job can be handed out in 59 m.",
            None,
            None,
        ),
        (
            of_a_paused_key,
            "customer-7 is paused until it is resumed: none of its jobs is handed out.",
            None,
            None,
        ),
        (
            rated,
            "The topic has a rate limit of 1/1h; the next job can be handed out in 59 m.",
            [
                (
                    "calm",
                    "2 jobs are held back by the rate limit, the first for 1 h 1 m; the next can be handed out in 59 m.",
                )
            ],
            None,
        ),
        (
            forgotten,
            "Its time to run ended 10 s ago",
            [
                ("bad", "1 job is overdue by 10 s."),
                ("bad", "1 reservation has ended, and no pop has made the job ready again."),
            ],
            ["added", "attempt 1: handed out to ", "its time to run ended"],
        ),
        (
            held,
            "works on it: attempt 2 of 3. Its time to run ends in 42 s: if it is not done or extended by then, it is handed out again. Attempt 1 ended: ValueError: no card.",
            None,
            None,
        ),
        (
            dead,
            "Its only attempt failed: ValueError: no card. It stays dead until it is kicked or deleted",
            None,
            ["added", "attempt 1, by ", "died: no attempt was left"],
        ),
        (
            worn_out,
            "All 12 attempts failed, the last with KeyError: 12. It stays",
            None,
            [
                "added",
                "2 earlier attempts: their errors are no longer kept",
                *[f"attempt {n}, by " for n in range(3, 13)],
                "died: no attempt was left",
            ],
        ),
        (
            buried,
            "It was set aside after 1 attempt: no such customer.",
            None,
            ["added", "attempt 1, by ", "died"],
        ),
        (
            kept,
            "after 1 attempt. It is kept as history for another 1 d.",
            None,
            ["added", "attempt 1: handed out to ", "finished"],
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_the_state_of_a_job_is_explained(
    valkey_url: str, story: Story, why: str, conditions: list[tuple[str, str]] | None, life: list[str] | None
) -> None:
    said, about, events = explain(valkey_url, story, samples=story is behind)
    assert why in said
    if conditions is not None:
        assert about == conditions
    if life is not None:
        assert len(events) == len(life)
        assert all(event.startswith(start) for event, start in zip(events, life, strict=True)), events


TRACEBACK = """ValueError: no card
Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/tarry/worker/topic_consumer.py", line 210, in _run
    await self._call(job)
  File "C:\\app\\tarry\\worker\\handlers.py", line 88, in call
    return await self.function(job)
           ^^^^^^^^^^^^^^^^^^^^^^^^
  File "/home/ada/tarry/shop/orders.py", line 12, in ship
    raise ValueError("no card")
ValueError: no card

During handling of the above exception, another exception occurred:
  File "/x/tarry/clients/blocking/topic.py", line 1, in add
tarry/worker/: not a frame"""


def test_frames_of_tarry_are_folded_and_nothing_is_lost() -> None:
    parts = fold_frames(TRACEBACK)
    assert "\n".join(part.text for part in parts) == TRACEBACK
    assert [part.frames for part in parts] == [0, 2, 0, 1, 0]
    assert "orders.py" in parts[2].text
    assert "handlers.py" in parts[1].text
    assert parts[1].text.endswith("^^^")
    assert fold_frames("boom") == [TracePart("boom")]
