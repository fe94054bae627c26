"""`job.step(name, function)`: the result is kept with the job, and the function is not called again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from story.adapters import Adapter
from tarry import BadInput, BodyError, StaleReceipt, StepNotKept
from tarry.clients.testing import Clock
from tarry.verbs.jobs.steps import MOST_BYTES, keep_step

End = Callable[[Any, Any, Clock], Awaitable[Any]]


async def held(topic: Any, body: Any = "tea", **given: Any) -> Any:
    await topic.add(body, id="7", **given)
    return await topic.pop(ttr=30)


async def popped(topic: Any) -> Any:
    return await topic.pop(ttr=30)


def never() -> None:
    raise AssertionError("it was done before")


async def fails(topic: Any, job: Any, clock: Clock) -> None:
    await topic.release(job, delay=5, reason="oh")
    clock.advance(6)


async def is_put_off(topic: Any, job: Any, clock: Clock) -> None:
    await topic.release(job, delay=0, counted=False)


async def times_out(topic: Any, job: Any, clock: Clock) -> None:
    clock.advance(31)


async def dies_and_is_kicked(topic: Any, job: Any, clock: Clock) -> None:
    await topic.bury(job, reason="no")
    assert (await topic.get("7")).steps == {"charge": {"receipt": 17}}
    assert await topic.kick("7") == "dead"


async def loses_its_worker(topic: Any, job: Any, clock: Clock) -> None:
    assert await topic.release_holder((await topic.get("7")).holder) == 1


@pytest.mark.parametrize("end", [fails, is_put_off, times_out, dies_and_is_kicked, loses_its_worker])
async def test_a_step_is_done_once_however_the_run_ends(adapter: Adapter, topic: Any, clock: Clock, end: End) -> None:
    """Promise: A kept step is not done again."""
    options = {"headers": {"a": "b"}, "ttr": 30, "priority": 2, "max_attempts": 9, "max_lateness": 600}
    job = await held(topic, {"order": 7}, **options)
    assert job.steps == {}
    calls: list[int] = []

    def charge() -> dict[str, int]:
        calls.append(1)
        return {"receipt": 17}

    for _ in range(2):
        assert await adapter.of(job, "step", "charge", charge) == {"receipt": 17}
    assert (calls, job.steps) == ([1], {"charge": {"receipt": 17}})
    await end(topic, job, clock)
    again = await popped(topic)
    assert again.steps == {"charge": {"receipt": 17}}
    assert await adapter.of(again, "step", "charge", never) == {"receipt": 17}
    assert await adapter.of(again, "step", "mail", lambda: None) is None
    assert (again.body, again.headers, again.priority) == ({"order": 7}, {"a": "b"}, 2)
    shown = await topic.get("7")
    assert (shown.body, shown.headers, shown.priority, shown.max_attempts) == ({"order": 7}, {"a": "b"}, 2, 9)
    assert list(shown.steps.items()) == [("charge", {"receipt": 17}), ("mail", None)]
    await topic.finish(again)
    assert await topic.get("7") is None
    assert (await topic.stats()).refused == 0


async def test_a_step_that_raises_keeps_nothing(adapter: Adapter, topic: Any, written: Any) -> None:
    job = await held(topic)
    before = written()

    def fail() -> None:
        raise ValueError("no money")

    with pytest.raises(ValueError, match="no money"):
        await adapter.of(job, "step", "charge", fail)
    assert written() == before
    assert await adapter.of(job, "step", "charge", lambda: 17) == 17


async def test_what_is_returned_is_what_json_made_of_it_from_the_first_run_on(adapter: Adapter, topic: Any) -> None:
    class Receipt(msgspec.Struct):
        number: int

    job = await held(topic)
    for _ in range(2):
        assert await adapter.of(job, "step", "a", lambda: Receipt(17)) == {"number": 17}
        assert await adapter.of(job, "step", "a", never, type=Receipt) == Receipt(17)
        assert await adapter.of(job, "step", "b", lambda: (1, "two")) == [1, "two"]
        assert await adapter.of(job, "step", "测", lambda: b"raw", type=bytes) == b"raw"
        await topic.release(job, delay=0)
        job = await popped(topic)
    with pytest.raises(BodyError, match="step b of job 7"):
        await adapter.of(job, "step", "b", never, type=Receipt)


async def test_a_step_of_a_late_holder_is_refused_and_changes_nothing(
    adapter: Adapter, topic: Any, clock: Clock, written: Any
) -> None:
    """Promise: A kept step is not done again."""
    late = await held(topic)
    clock.advance(31)
    with pytest.raises(StaleReceipt) as told:
        await adapter.of(late, "step", "charge", lambda: 1)
    assert told.value.reason == "timed out"
    holder = await popped(topic)
    assert await adapter.of(holder, "step", "charge", lambda: 2) == 2
    before = (await topic.get("7")).steps
    with pytest.raises(StaleReceipt, match="handed out again") as told:
        await adapter.of(late, "step", "charge", lambda: 1)
    assert (told.value.reason, told.value.id, told.value.attempt) == ("again", "7", 2)
    assert (await topic.get("7")).steps == before == {"charge": 2}
    assert (await topic.stats()).refused == 2
    await topic.finish(holder)
    with pytest.raises(StaleReceipt) as told:
        await adapter.of(late, "step", "mail", lambda: 1)
    assert told.value.reason == "gone"


async def test_a_job_that_is_known_to_be_lost_calls_no_function(adapter: Adapter, topic: Any) -> None:
    job = await held(topic)
    await adapter.of(job, "step", "charge", lambda: 17)
    job.lost = True
    with pytest.raises(StaleReceipt, match="stop working on it"):
        await adapter.of(job, "step", "mail", never)
    assert await adapter.of(job, "step", "charge", never) == 17
    job.lost = False
    await topic.finish(job)
    with pytest.raises(BadInput, match="it is settled"):
        await adapter.of(job, "step", "mail", never)


async def test_a_name_keeps_its_first_result(adapter: Adapter, topic: Any, clock: Clock) -> None:
    job = await held(topic)
    other = msgspec.json.encode({"n": 1})
    assert await adapter.run(topic.verbs.keep_step(job, "charge", other)) == other
    assert await adapter.of(job, "step", "charge", lambda: {"n": 2}) == {"n": 1}, "this handle did not know it"
    assert job.steps == (await topic.get("7")).steps == {"charge": {"n": 1}}


async def test_a_function_is_not_called_again_while_it_is_being_called(adapter: Adapter, topic: Any) -> None:
    job = await held(topic)
    with pytest.raises(BadInput, match="'charge' of job 7: its function is being called already"):
        await adapter.of(job, "step", "charge", lambda: job.step("charge", never))
    assert await adapter.of(job, "step", "outer", lambda: job.step("charge", lambda: 17)) == 17
    assert job.steps == {"charge": 17, "outer": 17}


async def renewed(topic: Any, if_exists: str) -> None:
    await topic.add("coffee", id="7", if_exists=if_exists)


@pytest.mark.parametrize("if_exists", ["replace", "update"])
async def test_a_new_body_begins_without_steps(adapter: Adapter, topic: Any, clock: Clock, if_exists: Any) -> None:
    job = await held(topic)
    await adapter.of(job, "step", "charge", lambda: 17)
    await topic.release(job, delay=0)
    await renewed(topic, if_exists)
    job = await popped(topic)
    assert (job.body, job.steps) == ("coffee", {})
    assert await adapter.of(job, "step", "charge", lambda: 18) == 18


async def test_a_run_whose_job_is_updated_goes_on_and_the_next_begins_without_steps(
    adapter: Adapter, topic: Any
) -> None:
    job = await held(topic)
    await adapter.of(job, "step", "charge", lambda: 17)
    await renewed(topic, "update")
    assert await adapter.of(job, "step", "charge", never) == 17
    assert await adapter.of(job, "step", "mail", lambda: 18) == 18
    assert await adapter.of(job, "step", "mail", never) == 18
    assert (await topic.get("7")).steps == {}
    await topic.finish(job)
    again = await popped(topic)
    assert (again.body, again.attempt, again.steps) == ("coffee", 1, {})


async def test_a_job_that_is_replaced_is_not_its_holders_any_more(adapter: Adapter, topic: Any) -> None:
    job = await held(topic)
    await renewed(topic, "replace")
    with pytest.raises(StaleReceipt) as told:
        await adapter.of(job, "step", "charge", lambda: 17)
    assert told.value.reason == "never"
    assert (await topic.get("7")).steps == {}


WRONG: Any = [
    ("", never, "name: it is empty"),
    (7, never, "write str"),
    ("x" * 201, never, "at most 200"),
    ("a\n", never, "control character|blank"),
    ("charge", 17, "int given; give a function"),
]


@pytest.mark.parametrize(("name", "function", "why"), WRONG)
async def test_what_can_be_refused_is_refused_before_the_function_is_called(
    adapter: Adapter, topic: Any, name: Any, function: Any, why: str
) -> None:
    job = await held(topic)
    with pytest.raises(BadInput, match=why):
        await adapter.of(job, "step", name, function)


async def test_a_coroutine_is_no_function(adapter: Adapter, topic: Any) -> None:
    async def charge() -> None: ...

    job = await held(topic)
    with pytest.raises(BadInput, match="coroutine given; give a function without arguments, such as lambda"):
        await adapter.of(job, "step", "charge", charge())


@pytest.mark.parametrize("result", [{1, 2}, object(), float("nan"), {"a": [float("inf")]}, {("a",): 1}, "\ud800"])
async def test_a_result_that_is_no_json_is_not_kept(adapter: Adapter, topic: Any, result: Any) -> None:
    job = await held(topic)
    if result == {1, 2}:
        assert await adapter.of(job, "step", "set", lambda: result) == [1, 2]
        return
    with pytest.raises(StepNotKept, match="'charge' of job 7 has run, and its result is no JSON") as told:
        await adapter.of(job, "step", "charge", lambda: result)
    assert (told.value.id, told.value.step) == ("7", "charge")
    assert (await topic.get("7")).steps == {}


async def test_the_steps_of_a_job_have_64_kilobytes(adapter: Adapter, topic: Any) -> None:
    job = await held(topic)
    await adapter.of(job, "step", "a", lambda: "x" * 30_000)
    used = 30_000 + len('""') + len("a") + 5
    rest = MOST_BYTES - used - len("b") - 5 - len('""')
    with pytest.raises(StepNotKept, match=f"would have {MOST_BYTES + 1} bytes; at most {MOST_BYTES} are kept") as told:
        await adapter.of(job, "step", "b", lambda: "x" * (rest + 1))
    assert (told.value.id, told.value.step) == ("7", "b")
    with pytest.raises(StepNotKept, match="has run"):
        await adapter.of(job, "step", "b", lambda: "x" * 10 * MOST_BYTES)
    assert await adapter.of(job, "step", "b", lambda: "x" * rest) == "x" * rest
    with pytest.raises(StepNotKept, match="'c' of job 7 was not called"):
        await adapter.of(job, "step", "c", never)
    assert list((await topic.get("7")).steps) == ["a", "b"]
    await topic.release(job, delay=0)
    assert await adapter.of(await popped(topic), "step", "b", never) == "x" * rest


async def test_a_repeated_call_changes_nothing(adapter: Adapter, topic: Any, clock: Clock, written: Any) -> None:
    """Promise: Retries without duplicates."""
    job = await held(topic)
    call = keep_step(topic.verbs.keys, job, "charge", b"17")
    assert await adapter.run(call) == b"17"
    before = written()
    assert await adapter.run(call.as_replay()) == b"17"
    assert written() == before
    clock.advance(31)
    assert await adapter.run(call.as_replay()) == b"17", "the first call was in time"
    await topic.stats()
    again = await popped(topic)
    with pytest.raises(StaleReceipt, match="handed out again"):
        await adapter.run(call.as_replay())
    assert again.steps == {"charge": 17}
    await topic.release(again, delay=5)
    with pytest.raises(StaleReceipt, match="was released"):
        await adapter.run(keep_step(topic.verbs.keys, again, "mail", b"1").as_replay())


async def test_a_block_whose_step_ran_in_vain_buries_its_job(adapter: Adapter, topic: Any) -> None:
    job = await held(topic)
    with pytest.raises(StepNotKept):
        async with adapter.inside(job):
            await adapter.of(job, "step", "charge", object)
    dead = await topic.get("7")
    assert dead.state == "dead"
    assert dead.reason.startswith("StepNotKept: Step 'charge' of job 7 has run")


async def test_finished_jobs_are_kept_with_their_steps(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    job = await held(topic)
    await adapter.of(job, "step", "charge", lambda: 17)
    await topic.finish(job, result="done")
    kept = await topic.get("7")
    assert (kept.state, kept.steps, kept.result, kept.body) == ("finished", {"charge": 17}, "done", "tea")


async def test_steps_are_kept_by_partitions(adapter: Adapter) -> None:
    topic = adapter.topic("spread", partitions=3)
    await topic.add_many(range(9))
    for job in await topic.pop_many(9):
        assert await adapter.of(job, "step", "n", lambda body=job.body: body) == job.body
    assert sorted(job.steps["n"] for job in await topic.list()) == list(range(9))
