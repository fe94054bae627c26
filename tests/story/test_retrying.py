"""Jobs that wait for another attempt after a failure: they are delayed, and listed and counted by themselves, too."""

from __future__ import annotations

from typing import Any

from story.adapters import Adapter
from tarry.clients.testing import Clock


async def retrying(topic: Any) -> list[str]:
    found = [job.id for job in (await topic.list("retrying"))]
    assert (await topic.stats()).retrying == len(found)
    assert found == [job.id for job in (await topic.list("delayed")) if job.retrying]
    return found


async def test_a_failed_job_is_retrying_until_it_is_due(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add("tea", id="fails")
    await topic.add("tea", id="new", delay="1m")
    job = await topic.pop()
    assert await retrying(topic) == []
    await topic.release(job, delay="10s")
    assert await retrying(topic) == ["fails"]
    assert (await topic.stats()).delayed == 2, "it is delayed, too"
    assert (await topic.get("fails")).state == "delayed"
    clock.advance("10s")
    assert await retrying(topic) == []
    assert (await topic.get("fails")).state == "ready"
    await topic.finish(await topic.pop())
    clock.advance("1m")
    assert await retrying(topic) == []


async def test_a_job_is_not_retrying_if_its_attempt_did_not_count(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea")
    await topic.release(await topic.pop(), delay="10s", counted=False)
    assert await retrying(topic) == []


async def test_a_retrying_job_stays_so_when_it_is_rescheduled(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.add_many(["a", "b"])
    a, b = await topic.pop_many(2)
    await topic.release(a, delay="10s")
    await topic.release(b, delay="20s")
    await topic.reschedule(a.id, delay="1m")
    assert await retrying(topic) == [b.id, a.id], "by due time"
    await topic.reschedule(b.id, delay=0)
    assert await retrying(topic) == [a.id]
    clock.advance("1m")
    await topic.reschedule(b.id, delay="1h")
    assert await retrying(topic) == [b.id], "it has failed, and waits again"


async def test_a_job_that_is_gone_is_not_retrying(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(["a", "b", "c", "d"])
    jobs = await topic.pop_many(4)
    await topic.release_many(jobs, delay="10s")
    deleted, replaced, kept, purged = jobs
    await topic.delete(deleted.id)
    await topic.add("again", id=replaced.id, delay="5s", if_exists="replace")
    assert sorted(await retrying(topic)) == sorted([kept.id, purged.id])
    await topic.delete(kept.id)
    assert await topic.purge("retrying") == 1
    assert await retrying(topic) == []
    assert [job.id for job in await topic.list()] == [replaced.id]


async def test_retrying_jobs_are_listed_in_pages_and_by_window(adapter: Adapter, topic: Any) -> None:
    await topic.add_many(range(5))
    for k, job in enumerate(await topic.pop_many(5)):
        await topic.release(job, delay=10 + k)
    first = await topic.list("retrying", limit=2)
    rest = await topic.list("retrying", limit=100, cursor=first.cursor)
    assert [job.body for job in [*first, *rest]] == [0, 1, 2, 3, 4]
    moments = [job.due for job in [*first, *rest]]
    window = await topic.list("retrying", due_after=moments[1], due_before=moments[3])
    assert [job.body for job in window] == [1, 2]
