"""The concurrency limit: so many jobs reserved at a time; each freed place wakes a waiting consumer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import now
from tarry.clients.testing import Clock


async def test_a_concurrency_limit_holds_over_all_consumers(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(concurrency=3)
    await topic.add_many(range(10))
    jobs = [*await topic.pop_many(2), *await topic.pop_many(5)]
    assert [job.body for job in jobs] == [0, 1, 2]
    assert await topic.pop() is None
    await topic.finish(jobs[0])
    assert (await topic.pop()).body == 3
    await topic.release(jobs[1], delay=60)
    await topic.bury(jobs[2])
    assert [job.body for job in await topic.pop_many(9)] == [4, 5]


async def test_an_expired_reservation_frees_its_place(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(concurrency=1)
    await topic.add_many(list("ab"))
    lost = await topic.pop(ttr=30)
    job = await topic.pop(wait="1h")
    assert now(clock) == lost.due + timedelta(seconds=30, microseconds=2)
    assert (job.body, job.attempt) == ("b", 1)


async def finish_it(topic: Any, job: Any) -> None:
    await topic.finish(job)


async def release_it(topic: Any, job: Any) -> None:
    await topic.release(job, delay=60)


async def bury_it(topic: Any, job: Any) -> None:
    await topic.bury(job)


async def delete_it(topic: Any, job: Any) -> None:
    await topic.delete(job.id)


async def replace_it(topic: Any, job: Any) -> None:
    await topic.add("new", id=job.id, if_exists="replace", delay=60)


async def give_it_back(topic: Any, _: Any) -> None:
    await topic.release_holder("web-1")


async def purge_reserved(topic: Any, _: Any) -> None:
    await topic.purge("reserved")


async def raise_the_cap(topic: Any, _: Any) -> None:
    await topic.configure(concurrency=2)


async def lift_the_cap(topic: Any, _: Any) -> None:
    await topic.configure(concurrency=None)


WAYS = [
    finish_it,
    release_it,
    bury_it,
    delete_it,
    replace_it,
    give_it_back,
    purge_reserved,
    raise_the_cap,
    lift_the_cap,
]


@pytest.mark.parametrize("way", WAYS)
async def test_freeing_a_place_wakes_one_waiting_consumer(adapter: Adapter, topic: Any, clock: Clock, way: Any) -> None:
    await topic.configure(concurrency=1)
    await topic.add_many(["held", "waits"])
    topic.verbs.holder = b"web-1"
    job = await topic.pop(ttr="1h")
    await adapter.run(_empty_look(topic))
    wake = topic.verbs.keys.wake
    assert await adapter.run(_length(wake)) == 0, "the cap is reached: nothing can be done before the reservation ends"
    await way(topic, job)
    assert await adapter.run(_length(wake)) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_waiting_for_a_place_is_not_lateness(topic: Any, clock: Clock, way: Any) -> None:
    await topic.configure(concurrency=1, max_lateness="1d")  # which is left when the cap is lifted
    await topic.add_many(["held", "waits"])
    topic.verbs.holder = b"web-1"
    job = await topic.pop(ttr="1h")
    clock.advance("30m")
    await way(topic, job)
    clock.advance(5)
    waited = await topic.pop()
    assert (waited.body, (await topic.stats()).lateness.max.seconds) == ("waits", 5)


def _empty_look(topic: Any) -> Any:
    from tarry.verbs.jobs import pop

    return pop.pop_step(topic.verbs.keys, 1, ttr=b"0", holder=b"", min_jobs=1, waiter_id=b"me")


def _length(key: bytes) -> Any:
    from tarry.core.requests import Command

    return Command((b"LLEN", key), int)


async def test_without_a_concurrency_limit_a_finish_wakes_nobody(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(list("ab"))
    a, b = await topic.pop_many(2)
    await topic.finish(a)
    assert await adapter.run(_length(topic.verbs.keys.wake)) == 0
    await topic.configure(concurrency=5)
    await topic.finish(b)
    assert await adapter.run(_length(topic.verbs.keys.wake)) == 0, "places were not scarce"
