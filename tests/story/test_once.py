"""`if_exists="once"`: as `keep`, and a finished job counts, too, as long as it is kept."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from story.test_add import now
from story.test_ends import read
from tarry import BadInput, NewJob
from tarry.clients.testing import Clock
from tarry.errors import NotKept
from tarry.verbs.jobs import add, settle
from tarry.verbs.jobs.options import JobOptions

LARGE = "x" * 70_000
ONCE = JobOptions(if_exists="once").encode()


async def once(topic: Any, id: str = "7", body: Any = "tea", **given: Any) -> tuple[bool, str]:
    added = await topic.add(body, id=id, if_exists="once", **given)
    return added.is_new, added.state


async def finish(adapter: Adapter, topic: Any, keep: Any = None) -> None:
    """The next job, by a handler that keeps its jobs for so long."""
    job = await topic.pop()
    results = [settle.encode_result(None, keep)]
    [refusal] = await adapter.run(settle.FINISH.call(topic.verbs.keys, settle.FINISH.encode([job], results=results)))
    assert refusal is None


async def test_a_job_is_added_once_for_as_long_as_its_topic_keeps_it(
    adapter: Adapter, topic: Any, clock: Clock
) -> None:
    """Promise: Once."""
    await topic.configure(keep_finished="1h")
    assert await once(topic, delay=60) == (True, "delayed")
    assert await once(topic) == (False, "delayed")
    clock.advance(60)
    assert await once(topic) == (False, "ready")
    job = await topic.pop()
    assert await once(topic) == (False, "reserved")
    await topic.finish(job, result="drunk")
    finished = await topic.add("coffee", id="7", if_exists="once", delay=60)
    assert (finished.is_new, finished.state, finished.due) == (False, "finished", now(clock) + timedelta(hours=1))
    assert finished.due == (await topic.get("7")).kept_until
    assert await topic.pop() is None
    clock.advance(3600 - 1e-6)
    assert await once(topic) == (False, "finished")
    clock.advance(1e-6)
    assert await once(topic) == (True, "ready"), "its end is not kept any more"
    stats = await topic.stats()
    assert (stats.added, stats.finished, stats.replaced, stats.repeated) == (2, 1, 0, 0)


async def test_a_dead_job_counts_and_a_deleted_one_does_not(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1h")
    await once(topic)
    await topic.bury(await topic.pop())
    assert await once(topic) == (False, "dead")
    await topic.delete("7")
    assert await once(topic) == (True, "ready")
    await topic.purge()
    assert await once(topic) == (True, "ready")
    await topic.finish(await topic.pop())
    assert await topic.purge("finished") == 1
    assert await once(topic) == (True, "ready"), "its end was purged"
    await topic.finish(await topic.pop())
    await topic.add("tea", id="7")
    await topic.delete("7")
    assert await once(topic) == (False, "finished"), "the end of the job before counts"


async def test_a_dead_job_counts_until_a_pop_removes_it(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1d", keep_dead="1h")
    await once(topic)
    await topic.bury(await topic.pop())
    clock.advance("2h")
    assert await once(topic) == (False, "dead")
    assert await topic.pop() is None
    assert await once(topic) == (True, "ready")


async def test_a_topic_that_keeps_none_by_itself_refuses_with_the_line_to_write(adapter: Adapter, topic: Any) -> None:
    await topic.add("tea", id="7")
    await finish(adapter, topic, keep="1h")
    await topic.add("tea", id="8")
    before = await topic.stats()
    for id in ("7", "8", "9"):
        with pytest.raises(NotKept, match=r"topic\('测试'\)\.configure\(keep_finished=\"1d\"\)") as refused:
            await once(topic, id)
        assert "`tarry configure '测试' --keep-finished 1d`" in str(refused.value)
        assert "what a job, a task or a handler says of its own jobs does not count" in str(refused.value)
    with pytest.raises(NotKept, match="keeps none by its own setting"):
        await topic.add_many([NewJob("tea", id="9"), NewJob("tea", id="8")], if_exists="once")
    after = await topic.stats()
    assert (after.added, after.ready, after.finished_kept) == (before.added, 1, 1)
    await topic.configure(keep_finished="1s")
    assert await once(topic) == (False, "finished"), "kept by its handler, which counts now"


@pytest.mark.parametrize("name", ["tea", "cup of tea", "ada's; $(tea)"])
async def test_the_line_to_write_can_be_run_with_any_name(adapter: Adapter, name: str) -> None:
    topic = adapter.topic(name)
    for call in (once(topic), read(adapter, topic, None)):
        with pytest.raises(NotKept) as refused:
            await call
        [line] = re.findall("tarry configure .* 1d", str(refused.value))
        assert shlex.split(line) == ["tarry", "configure", name, "--keep-finished", "1d"]


async def test_a_handlers_keep_is_how_long_its_jobs_count(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1h")
    for keep, seconds in ((0, 0), ("10s", 10), ("2h", 7200)):
        assert await once(topic) == (True, "ready")
        await finish(adapter, topic, keep=keep)
        if seconds:
            clock.advance(seconds - 1)
            assert await once(topic) == (False, "finished")
            clock.advance(1)
    assert await once(topic) == (True, "ready")


async def test_every_other_way_to_add_ignores_what_is_finished(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1h")
    for if_exists in ("error", "keep", "replace", "update"):
        added = await topic.add(if_exists, id="7", if_exists=if_exists)
        assert (added.is_new, added.state) == (True, "ready")
        assert await once(topic) == (False, "ready"), "the living job is seen first"
        await topic.finish(await topic.pop())
    assert await once(topic) == (False, "finished")


async def test_what_an_update_hands_out_again_is_alive(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1h")
    await once(topic)
    job = await topic.pop()
    await topic.add("coffee", id="7", if_exists="update")
    await topic.finish(job)
    assert await once(topic) == (False, "ready")
    job = await topic.pop()
    assert job.body == "coffee"
    await topic.finish(job)
    assert await once(topic) == (False, "finished")


@pytest.mark.parametrize("delay", [0, 5])
async def test_an_add_whose_answer_was_lost_is_answered_again_after_the_end(
    adapter: Adapter, topic: Any, clock: Clock, delay: int
) -> None:
    await topic.configure(keep_finished="1h")
    options = JobOptions(if_exists="once", delay=delay).encode()
    call = add.add_job(topic.verbs.context, "tea", options, "7")
    first = await adapter.run(call)
    clock.advance(delay)
    await topic.finish(await topic.pop())
    again = await adapter.run(call.as_replay())
    assert (again.is_new, again.due) == (True, first.due)
    other = await adapter.run(add.add_job(topic.verbs.context, "tea", options, "7"))
    assert (other.is_new, other.state) == (False, "finished")
    stats = await topic.stats()
    assert (stats.added, stats.repeated) == (1, 1)


@pytest.mark.parametrize("if_exists", ["update", "error"])
async def test_of_a_job_that_is_another_by_now_the_id_counts(adapter: Adapter, topic: Any, if_exists: str) -> None:
    """The record says whose add it was; it is that of an update by now, or of a job that was added later."""
    await topic.configure(keep_finished="1h")
    call = add.add_job(topic.verbs.context, "tea", ONCE, "7")
    assert (await adapter.run(call)).is_new
    if if_exists == "error":
        await topic.finish(await topic.pop())
    await topic.add("coffee", id="7", if_exists=if_exists)
    await topic.finish(await topic.pop())
    again = await adapter.run(call.as_replay())
    assert (again.is_new, again.state) == (False, "finished")
    assert await topic.pop() is None


async def test_of_a_body_that_is_not_kept_the_id_counts(adapter: Adapter, topic: Any) -> None:
    """Whose add it was is in the record, which is too large to be kept."""
    await topic.configure(keep_finished="1h")
    call = add.add_job(topic.verbs.context, LARGE, ONCE, "7")
    assert (await adapter.run(call)).is_new
    await topic.finish(await topic.pop())
    again = await adapter.run(call.as_replay())
    assert (again.is_new, again.state) == (False, "finished")
    assert (await topic.stats()).added == 1


async def test_many_are_added_once(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1h")
    await once(topic, "finished")
    await topic.finish(await topic.pop())
    await once(topic, "living", delay=60)
    ids = ["new", "finished", "living", "new", "finished", "other"]
    jobs = [NewJob(n, id=id) for n, id in enumerate(ids)]
    for states in (["ready", "finished", "delayed", "ready", "finished", "ready"], ["finished"] * 6):
        added = await topic.add_many(jobs, if_exists="once", atomic=True)
        assert [one.id for one in added] == ids
        assert [one.state for one in added] == states
        assert [one.is_new for one in added] == [
            state == "ready" and id not in ids[:n] for n, (id, state) in enumerate(zip(ids, states, strict=True))
        ]
        clock.advance(60)
        popped = await topic.pop_many(9)
        assert [job.id for job in popped] == (["new", "other", "living"] if popped else [])
        await topic.finish_many(popped)
    assert (await topic.stats()).added == 4


async def test_many_whose_answer_was_lost_are_answered_again(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1h")
    jobs = [NewJob(n, id=id) for n, id in enumerate("abc")]
    calls: list[Any] = []
    flow = add.add_jobs(topic.verbs.context, jobs, ONCE)
    calls.append(next(flow))
    first = await adapter.run(calls[0])
    await topic.finish_many([job for job in await topic.pop_many(3) if job.id != "b"])
    again = await adapter.run(calls[0].as_replay())
    assert [(one.is_new, one.due) for one in again] == [(True, one.due) for one in first]
    assert (await topic.stats()).repeated == 3


async def test_without_an_id_nothing_can_be_the_same(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1h")
    with pytest.raises(BadInput, match='"once" finds a job by its id'):
        await topic.add("tea", if_exists="once")
    with pytest.raises(BadInput, match=r"job 1: .* by its id"):
        await topic.add_many([NewJob("tea", id="7"), "coffee"], if_exists="once")
    assert (await topic.stats()).added == 0


async def test_an_id_is_found_in_its_partition(adapter: Adapter) -> None:
    topic = adapter.topic("parts", partitions=5)
    with pytest.raises(NotKept, match=r"topic\('parts'\)\.configure"):
        await once(topic)
    await topic.configure(keep_finished="1h")
    ids = [f"{n}" for n in range(20)]
    jobs = [NewJob("tea", id=id) for id in ids]
    assert all(one.is_new for one in await topic.add_many(jobs, if_exists="once"))
    await topic.finish_many(await topic.pop_many(20))
    assert {one.state for one in await topic.add_many(jobs, if_exists="once")} == {"finished"}
    assert {await once(topic, id) for id in ids} == {(False, "finished")}
    assert await once(topic, "20") == (True, "ready")
