"""The last failed attempts of a job: when, by whom, how long, and the error. Kept with the job, and only on failure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from story.adapters import Adapter
from story.test_add import now
from tarry.clients.testing import Clock
from tarry.core.requests import Command
from tarry.types import FailedAttempt
from tarry.values.keys import part_key

S = timedelta(seconds=1)


async def fail(topic: Any, clock: Clock, error: str, takes: str = "2s") -> None:
    job = await topic.pop()
    clock.advance(takes)
    await topic.release(job, delay=0, reason=error)


async def test_each_failed_attempt_is_kept_the_last_one_first(adapter: Adapter, topic: Any, clock: Clock) -> None:
    began = now(clock)
    await topic.add("tea", id="7")
    await fail(topic, clock, "ValueError: no milk\nTraceback")
    await fail(topic, clock, "x" * 300, "5s")
    job = await topic.get("7")
    first, holder = FailedAttempt(1, began, began + 2 * S, job.holder, "ValueError: no milk"), job.holder
    assert holder
    assert job.failed_attempts == (FailedAttempt(2, began + 2 * S, began + 7 * S, holder, "x" * 200), first)
    assert [one.failed_attempts for one in await topic.list()] == [job.failed_attempts]
    size = await adapter.run(Command((b"HSTRLEN", part_key(topic.verbs.keys, "attempts"), b"7"), int))
    assert size == sum(22 + len(holder) + len(one.error) for one in job.failed_attempts)


async def test_only_the_last_ten_are_kept(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7", max_attempts=None)
    for n in range(15):
        await fail(topic, clock, f"error {n}")
    found = (await topic.get("7")).failed_attempts
    assert [(one.number, one.error) for one in found] == [(n + 1, f"error {n}") for n in reversed(range(5, 15))]


async def test_lost_buried_and_exhausted_attempts_are_kept_too(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="7", max_attempts=3)
    await topic.pop(ttr="10s")
    clock.advance("11s")
    await topic.pop()
    await topic.release_holder((await topic.get("7")).holder)
    await fail(topic, clock, "ValueError: no milk")
    dead = await topic.get("7")
    assert dead.state == "dead"
    assert [(one.number, one.error) for one in dead.failed_attempts] == [
        (3, "ValueError: no milk"), (2, "its worker died"), (1, "timed out"),
    ]  # fmt: skip
    await topic.kick("7")
    assert (await topic.get("7")).failed_attempts == ()
    await topic.bury(await topic.pop(), reason="no such user")
    assert [one.error for one in (await topic.get("7")).failed_attempts] == ["no such user"]


async def test_an_attempt_that_does_not_count_is_not_kept(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", id="7")
    await topic.release(await topic.pop(), counted=False)
    assert (await topic.get("7")).failed_attempts == ()


async def test_nothing_is_stored_for_a_job_that_is_gone(adapter: Adapter, topic: Any, clock: Clock) -> None:
    ids = ["finished", "deleted", "replaced", "swept", "purged"]
    for id in ids:
        await topic.add("tea", id=id)
    jobs = {job.id: job for job in await topic.pop_many(5)}
    await topic.bury(jobs.pop("swept"), reason="no")
    await topic.release_many(list(jobs.values()), delay=0, reason="no")
    attempts = part_key(topic.verbs.keys, "attempts")

    async def stored() -> set[str]:
        return {id.decode() for id in await adapter.run(Command((b"HKEYS", attempts), list))}

    assert await stored() == set(ids)
    await topic.delete("deleted")
    await topic.add("tea", id="replaced", if_exists="replace", delay="90d")
    await topic.finish(next(job for job in await topic.pop_many(5) if job.id == "finished"))
    assert await stored() == {"swept", "purged"}
    clock.advance("31d")
    assert [job.id for job in await topic.pop_many(5)] == ["purged"], "it sweeps, too"
    assert await stored() == {"purged"}
    await topic.purge()
    assert await stored() == set()
