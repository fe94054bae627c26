"""Results and history: a topic with `keep_finished` keeps finished jobs for a while; others keep nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from story.adapters import Adapter
from tarry import BodyError, NoResult, Reservation
from tarry.clients.testing import Clock


async def finished(topic: Any, id: str, result: Any = None, body: Any = "tea") -> None:
    await topic.add(body, id=id)
    await topic.finish(await topic.pop(), result=result)


async def test_a_finished_job_is_kept_with_its_result(adapter: Adapter, topic: Any, clock: Clock) -> None:
    settings = await topic.configure(keep_finished="1d")
    assert settings.keep_finished == timedelta(days=1)
    await finished(topic, "7", {"sum": 3, "of": [1, 2]})
    job = await topic.get("7")
    assert (job.state, job.body, job.attempts) == ("finished", "tea", 1)
    assert job.finished == clock.now
    assert job.kept_until == clock.now + timedelta(days=1)
    assert job.created <= job.finished
    assert job.result == {"sum": 3, "of": [1, 2]}
    assert await topic.result("7") == {"sum": 3, "of": [1, 2]}
    assert [job.id for job in await topic.list("finished")] == ["7"]
    assert len(await topic.list()) == 0, "history is listed by its name only"
    stats = await topic.stats()
    assert (stats.finished, stats.finished_kept, stats.added) == (1, 1, 1)
    assert (await topic.check()).ok


async def test_nothing_is_kept_unless_the_topic_says_so(adapter: Adapter, topic: Any) -> None:
    await finished(topic, "7", "result")
    assert await topic.get("7") is None
    assert len(await topic.list("finished")) == 0
    with pytest.raises(NoResult, match="keep_finished") as refused:
        await topic.result("7")
    assert refused.value.reason == "unknown"
    await topic.configure(keep_finished="1h")
    await topic.configure(keep_finished=None)
    await finished(topic, "8", "result")
    assert await topic.get("8") is None


async def test_a_finished_job_is_forgotten_after_its_keep(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="10s")
    await finished(topic, "old")
    clock.advance("5s")
    await finished(topic, "new")
    clock.advance("4s")
    assert [job.id for job in await topic.list("finished")] == ["old", "new"]
    clock.advance("1s")
    assert await topic.get("old") is None
    assert [job.id for job in await topic.list("finished")] == ["new"]
    assert (await topic.stats()).finished_kept == 1


async def test_a_job_without_a_result_has_none(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await finished(topic, "7")
    assert await topic.result("7") is None
    assert (await topic.get("7")).result_not_kept is None


async def test_an_id_may_be_added_again_and_the_living_job_is_seen_first(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await finished(topic, "7", "first")
    assert (await topic.add("coffee", id="7")).is_new
    assert (await topic.get("7")).state == "ready"
    with pytest.raises(NoResult) as refused:
        await topic.result("7")
    assert (refused.value.reason, refused.value.state) == ("unfinished", "ready")
    assert [job.body for job in await topic.list("finished")] == ["tea"]
    assert await topic.delete("7") == "ready"
    assert (await topic.get("7")).result == "first"
    await finished(topic, "7", "second")
    assert (await topic.get("7")).result == "second"
    assert (await topic.stats()).finished_kept == 1


async def test_an_id_whose_history_has_ended_is_kept_anew(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1m")
    await finished(topic, "7", "first")
    clock.advance(61)
    await finished(topic, "7", "second")
    assert await topic.result("7") == "second"
    assert [job.id for job in await topic.list("finished")] == ["7"]


async def test_a_result_that_cannot_be_kept_says_why_and_the_job_is_done(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await finished(topic, "large", "x" * 70_000)
    await finished(topic, "strange", object())
    stats = await topic.stats()
    assert (stats.finished, stats.reserved, stats.ready) == (2, 0, 0)
    assert (await topic.get("large")).result_not_kept == "it has 70002 bytes; at most 65536 are kept"
    assert "cannot be encoded as JSON" in (await topic.get("strange")).result_not_kept
    for id in ("large", "strange"):
        with pytest.raises(NoResult, match="its result is not there") as refused:
            await topic.result(id)
        assert refused.value.reason == "not kept"


async def test_a_dead_job_has_no_result(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await topic.add("tea", id="7")
    await topic.bury(await topic.pop(), reason="no such cup")
    with pytest.raises(NoResult, match="no such cup") as refused:
        await topic.result("7", wait=60)
    assert refused.value.reason == "dead", "it does not wait"
    assert (await topic.get("7", wait=60)).state == "dead", "nor does this"


async def test_failed_attempts_are_kept_too(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1d")
    await topic.add("tea", id="7")
    await topic.release(await topic.pop(), delay=1, reason="too hot")
    clock.advance("1s")
    await topic.finish(await topic.pop(), result=1)
    job = await topic.get("7")
    assert (job.attempts, job.result) == (2, 1)
    assert [one.error for one in job.failed_attempts] == ["too hot"]
    assert await topic.add("tea", id="7")
    assert (await topic.get("7")).failed_attempts == ()


async def test_a_body_that_is_too_large_is_not_kept(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await finished(topic, "7", "done", body="x" * 100_000)
    job = await topic.get("7")
    assert job.result == "done"
    with pytest.raises(BodyError):
        _ = job.body


async def test_history_is_listed_in_pages_and_purged(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await topic.add_many(range(5))
    await topic.finish_many(await topic.pop_many(5))
    first = await topic.list("finished", limit=2)
    rest = await topic.list("finished", cursor=first.cursor)
    assert sorted(job.body for job in [*first, *rest]) == [0, 1, 2, 3, 4]
    await topic.add("new", id="new")
    assert await topic.purge("finished") == 5
    assert len(await topic.list("finished")) == 0
    await topic.finish(await topic.pop())
    assert await topic.purge() == 0
    assert len(await topic.list("finished")) == 0, "the whole topic is history, too"
    assert (await topic.check()).ok


async def test_a_receipt_that_does_not_hold_keeps_nothing(adapter: Adapter, topic: Any) -> None:
    await topic.configure(keep_finished="1d")
    await finished(topic, "7", "done")
    with pytest.raises(Exception, match="was finished or deleted"):
        await topic.finish(Reservation("7", 1), result="forged")
    assert await topic.result("7") == "done"


async def test_many_are_swept_while_others_are_finished(adapter: Adapter, topic: Any, clock: Clock) -> None:
    await topic.configure(keep_finished="1s")
    await topic.add_many(range(100))
    await topic.finish_many(await topic.pop_many(100))
    clock.advance("1m")
    for _ in range(7):
        await finished(topic, "again")
    assert [job.id for job in await topic.list("finished")] == ["again"]
