"""``with job:``: leaving the block settles the job, unless the block has done so."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import US, now
from tarry import BadInput, NoResult, StaleReceipt
from tarry.clients.testing import Clock


async def one(topic: Any, **options: Any) -> Any:
    await topic.add("tea", id="7", **options)
    return await topic.pop(ttr=10)


async def test_leaving_the_block_finishes_the_job(adapter: Adapter, topic: Any) -> None:
    async with adapter.inside(await one(topic)) as job:
        assert job.body == "tea"
    assert await topic.get("7") is None


async def test_an_exception_releases_the_job_with_back_off_and_propagates(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    own = ValueError("the kettle is cold")
    with pytest.raises(ValueError) as seen:
        async with adapter.inside(await one(topic)):
            raise own
    assert seen.value is own
    info = await topic.get("7")
    assert (info.state, info.attempts, info.reason) == ("delayed", 1, "ValueError: the kettle is cold")
    assert timedelta(seconds=0.8) <= info.due - now(clock) <= timedelta(seconds=1.2)
    assert info.first_failure == now(clock)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
async def test_ctrl_c_releases_the_job_at_once_uncounted(
    adapter: Adapter, topic: Any, clock: Clock, kind: type[BaseException]
) -> None:
    own = kind()
    with pytest.raises(kind) as seen:
        async with adapter.inside(await one(topic)):
            raise own
    assert seen.value is own
    info = await topic.get("7")
    assert (info.state, info.attempts, info.first_failure) == ("ready", 0, None)
    assert (await topic.pop()).attempt == 1


async def test_a_failed_last_attempt_leaves_a_dead_job_with_the_error(adapter: Adapter, topic: Any) -> None:
    with pytest.raises(ValueError, match="cold"):
        async with adapter.inside(await one(topic, max_attempts=1)):
            raise ValueError("cold")
    info = await topic.get("7")
    assert (info.state, info.reason, info.error) == ("dead", "attempts exhausted", "ValueError: cold")
    assert info.failure == "ValueError: cold"
    with pytest.raises(NoResult, match=r"is dead: ValueError: cold\. Kick it"):
        await topic.result("7")


@pytest.mark.parametrize("verb", ["finish", "release", "bury"])
@pytest.mark.parametrize("then", ["leaves", "raises"])
async def test_a_job_settled_in_the_block_stays_settled(adapter: Adapter, topic: Any, verb: str, then: str) -> None:
    job = await one(topic)
    try:
        async with adapter.inside(job):
            await getattr(topic, verb)(job)
            assert job.settled
            if then == "raises":
                raise LookupError
    except LookupError:
        pass
    info = await topic.get("7")
    assert info is None if verb == "finish" else info.state == {"release": "delayed", "bury": "dead"}[verb]
    assert (await topic.stats()).refused == 0


async def test_a_block_that_exceeds_the_ttr_raises_stale_receipt(adapter: Adapter, topic: Any, clock: Clock) -> None:
    with pytest.raises(StaleReceipt, match="time to run"):
        async with adapter.inside(await one(topic)):
            clock.advance(10)
    assert (await topic.get("7")).state == "ready"


async def test_the_blocks_exception_propagates_even_if_the_reservation_expired(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    job = await one(topic)
    clock.advance(10)
    with pytest.raises(ValueError, match="my own"):
        async with adapter.inside(job):
            raise ValueError("my own")


async def test_a_block_may_renew_its_reservation(adapter: Adapter, topic: Any, clock: Clock) -> None:
    async with adapter.inside(await one(topic)) as job:
        for _ in range(10):
            clock.advance(timedelta(seconds=10) - US)
            await adapter.of(job, "touch")
    assert await topic.get("7") is None


async def test_a_second_block_is_refused_before_its_work_is_done_again(adapter: Adapter, topic: Any) -> None:
    job = await one(topic)
    async with adapter.inside(job):
        with pytest.raises(BadInput, match="it is in a `with` already"):
            async with adapter.inside(job):
                pytest.fail("the inner block runs")
        assert (await topic.get("7")).state == "reserved", "the outer block goes on"
    for _ in range(2):
        with pytest.raises(BadInput, match="job 7: it is settled; a `with` is for a job that is still yours"):
            async with adapter.inside(job):
                pytest.fail("the second block runs")


async def test_a_block_of_a_job_that_was_released_is_refused(adapter: Adapter, topic: Any) -> None:
    job = await one(topic)
    await topic.release(job)
    with pytest.raises(BadInput, match="it is settled"):
        async with adapter.inside(job):
            pytest.fail("another consumer may work on it")
