"""A topic moves to another server: nothing is lost, nothing is twice, due times stay, wherever it is broken off."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs.jobs import topic_migration as migration
from until import LONGEST_S

EACH = 700
"""So many jobs are added to each side of a migration under load."""


def fill(client: TestClient, clock: Clock) -> Any:
    """Jobs in every state, with everything that a job can have."""
    topic = client.topic("orders")
    topic.add("held", id="held")
    topic.add("dead", id="dead")
    topic.add("tried", id="tried", max_attempts=9)
    hands = {job.id: job for job in topic.pop_many(3, ttr="1h")}
    for id in ("dead", "tried"):
        hands[id].step("charge", partial("{}-17".format, id))
    topic.bury(hands["dead"], reason="no use")
    topic.release(hands["tried"], delay="5m")
    topic.add_many(
        [tarry.NewJob({"n": n}, delay=60 + n, id=f"job-{n}", headers={"a": "b"}) for n in range(450)], ttr="90s"
    )
    topic.add("ready", id="ready")
    return hands["held"]


def seen(client: TestClient, *, state: Any = None) -> dict[str, Any]:
    page, found = client.topic("orders").list(state, limit=1000), dict[str, Any]()
    for job in page:
        found[job.id] = (job.body, job.due, job.attempts, job.reason, job.headers, job.state, job.steps)
    return found


def test_migrate_moves_waiting_and_dead_jobs(two: Any, clock: Clock) -> None:
    old, new = two
    held = fill(old, clock)
    before = seen(old)
    told: list[int] = []
    assert old.migrate("orders", new.topic("orders"), dry_run=True) == tarry.Migrated(453, 0, 1)
    assert seen(old) == before
    assert old.migrate("orders", new.topic("orders"), progress=told.append) == tarry.Migrated(453, 0, 1)
    assert told == [200, 400, 452, 453]
    assert list(seen(old)) == ["held"]
    assert seen(new) == {id: row for id, row in before.items() if id != "held"}
    assert old.topic("orders").check().ok
    assert new.topic("orders").check().ok
    with held:
        clock.advance("10s")
    assert old.migrate("orders", new.topic("orders")) == tarry.Migrated(0, 0, 0)
    clock.advance("20m")
    jobs = [job for _ in range(5) for job in new.topic("orders").pop_many(100)]
    assert len(jobs) == 452
    assert {job.id: job.attempt for job in jobs}["tried"] == 2


def test_a_full_topic_takes_the_jobs_that_move_into_it_and_counts_them(two: Any, clock: Clock) -> None:
    old, new = two
    target = new.topic("orders")
    target.configure(max_pending=2, max_pending_bytes=100)
    clock.advance("1s")
    target.delete(target.add("begins to count").id)
    old.topic("orders").add_many(["x" * 30] * 5)
    assert old.migrate("orders", target) == tarry.Migrated(5, 0, 0)
    queue = new.delayed_queue("late", codec="string", format="4.7")
    for element in ("7", "8"):
        queue.offer(element, "1h")
    assert new.migrate_queue(queue, target).moved == 2
    with pytest.raises(tarry.TopicFull):
        target.add("one more")
    stats = target.stats()
    assert (stats.ready + stats.delayed, stats.not_added) == (7, 1)
    assert stats.pending_bytes == 5 * 32 + 2 * 3
    assert target.check().ok


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(4, 13))
def test_an_interrupted_move_resumes_after_any_step(two: Any, clock: Clock, steps: int) -> None:
    """The first steps are those of the options and the schedules."""
    old, new = two
    fill(old, clock)
    before = seen(old)
    mine, theirs = old.topic("orders"), new.topic("orders")
    migration_flow, answer = (
        migration.migrate([mine.verbs._single], [theirs.verbs._single], dry_run=False, progress=None),
        None,
    )
    for step in range(steps):
        side, request = migration_flow.send(answer)
        answer = (old, new)[side].engine.run(request)
        if step == steps - 1 and side == migration.THERE:
            (old, new)[side].engine.run(request)  # and its answer was lost, too
    assert mine.check().ok
    assert theirs.check().ok
    old.migrate("orders", theirs)
    assert seen(new) == {id: row for id, row in before.items() if id != "held"}
    assert list(seen(old)) == ["held"]


@pytest.mark.parametrize(("parts", "others"), [(1, 1), (1, 3), (3, 2)])
def test_updates_and_windows_move_with_their_jobs(two: Any, clock: Clock, parts: int, others: int) -> None:
    """The windows are those that the jobs would have where they were."""
    old, new = two
    here, there = old.topic("orders", partitions=parts), new.topic("orders", partitions=others)
    event = {"if_exists": "replace", "delay": "40s", "latest": "1m"}
    first = clock.now
    for id in ("released", "handled"):
        here.add("old", id=id)
    held = {job.id: job for job in here.pop_many(2)}
    here.add("old", id="waits", **event)
    clock.advance("10s")
    here.add("event", id="waits", **event)
    for id in held:
        here.add("new", id=id, if_exists="update")
    here.release(held["released"], delay="5s")
    here.finish(held["handled"])
    clock.advance("35s")
    assert old.migrate("orders", there).moved == 3
    assert not here.list().jobs
    assert [(job.id, job.body) for job in there.list()] == [("handled", "new"), ("released", "new"), ("waits", "event")]
    dues = {id: there.add("last", id=id, **event).due - first for id in ("waits", "released", "handled")}
    assert dues == {"waits": timedelta(minutes=1), "released": timedelta(seconds=70), "handled": timedelta(seconds=70)}
    clock.advance("40s")
    jobs = there.pop_many(3)
    assert {(job.body, job.attempt) for job in jobs} == {("last", 1)}
    there.add("after", id="waits", if_exists="update")
    there.finish_many(jobs)
    assert [(job.body, job.state) for job in there.list()] == [("after", "ready")]
    for topic in (here, there):
        assert topic.check().ok


def test_a_job_whose_reservation_is_over_moves(two: Any, clock: Clock) -> None:
    """As one that waits, which the counts call it: its worker may be gone."""
    old, new = two
    topic = old.topic("orders")
    topic.add_many([tarry.NewJob(n, id=f"{n:03}", max_attempts=1 if n % 2 else 9, priority=n % 4) for n in range(300)])
    topic.pop_many(300, ttr="1s")
    clock.advance("2s")
    assert old.migrate("orders", new.topic("orders"), dry_run=True) == tarry.Migrated(300)
    assert old.migrate("orders", new.topic("orders")) == tarry.Migrated(300)
    stats = new.topic("orders").stats()
    assert (stats.ready, stats.dead, topic.stats().timed_out) == (150, 150, 300)
    assert new.topic("orders").list("ready", limit=1).jobs[0].reason == "timed out"
    for one in (topic, new.topic("orders")):
        assert one.check().ok


def test_a_departing_job_that_failed_and_is_updated_waits_for_its_retry(two: Any) -> None:
    topic = two[0].topic("orders")
    topic.add("old", id="x")
    topic.release(topic.pop(), delay="1m", reason="no answer")
    two[0].engine.run(migration.depart(topic.verbs._single.keys, b"word"))
    topic.add("new", id="x", if_exists="update")
    assert [(job.body, job.attempts) for job in topic.list("retrying")] == [("new", 1)]
    assert topic.stats().retrying == 1


def test_a_departing_job_is_shown_in_its_former_state(two: Any, clock: Clock) -> None:
    old, new = two
    topic = old.topic("orders")
    topic.add("tea", id="later", delay="1h")
    topic.add("tea", id="now")
    due = topic.get("later").due
    old.engine.run(migration.depart(topic.verbs._single.keys, b"word"))
    assert [(job.state, job.body) for job in topic.get_many(["later", "now"])] == [("delayed", "tea"), ("ready", "tea")]
    kept = topic.add("other", id="later", if_exists="keep")
    assert (kept.is_new, kept.state, kept.due) == (False, "delayed", due)
    with pytest.raises(tarry.JobExists, match="ready"):
        topic.add("other", id="now")
    assert old.migrate("orders", new.topic("orders"), dry_run=True).moved == 2
    assert topic.delete("later") == "delayed"
    topic.add("again", id="later", delay="2h")
    topic.add("redirect", id="now", if_exists="replace")
    assert old.migrate("orders", new.topic("orders")).moved == 2
    assert sorted(job.body for job in new.topic("orders").list()) == ["again", "redirect"]
    assert topic.stats().added == topic.stats().deleted + topic.stats().replaced
    topic.add_many(range(3))
    old.engine.run(migration.depart(topic.verbs._single.keys, b"word"))
    assert topic.check().leaving == 3
    assert topic.purge() == 3
    assert topic.check().leaving == 0


def test_a_job_whose_id_exists_at_the_target_stays(two: Any) -> None:
    old, new = two
    old.topic("orders").add("mine", id="1", delay="1h")
    due = old.topic("orders").get("1").due
    new.topic("orders").add("theirs", id="1", delay="1h")
    assert old.migrate("orders", new.topic("orders")) == tarry.Migrated(0, 1, 0)
    assert (old.topic("orders").get("1").body, old.topic("orders").get("1").due) == ("mine", due)
    assert new.topic("orders").get("1").body == "theirs"


def test_finished_jobs_stay_and_once_does_not_see_them_elsewhere(two: Any) -> None:
    old, _ = two
    here, there = (client.topic("orders") for client in two)
    here.configure(keep_finished="1d")
    here.add("tea", id="finished", if_exists="once")
    here.pop().finish()
    here.add("tea", id="waits", if_exists="once")
    assert old.migrate("orders", there) == tarry.Migrated(1, settings=("keep_finished",))
    assert (here.get("finished").state, there.get("finished")) == ("finished", None)
    added = there.add_many([tarry.NewJob("tea", id=id) for id in ("finished", "waits")], if_exists="once")
    assert [one.is_new for one in added] == [True, False]


def test_a_topic_does_not_migrate_into_itself_under_any_url(two: Any, clock: Clock) -> None:
    old, _ = two
    old.topic("orders").add("tea", id="1", delay="1h")
    with pytest.raises(tarry.BadInput, match="into itself"):
        old.migrate("orders", old.topic("orders"))
    with TestClient(old.engine.config.address.url + "?db=0", clock) as same:
        assert old.migrate("orders", same.topic("orders")).moved == 0
    assert old.topic("orders").get("1").state == "delayed"


@pytest.mark.slow
def test_an_async_client_moves_everything_too(two: Any, clock: Clock) -> None:
    old, new = two
    fill(old, clock)

    async def story() -> tarry.Migrated:
        urls = [client.engine.config.address.url for client in two]
        async with TestAsyncClient(urls[0], clock) as here, TestAsyncClient(urls[1], clock) as there:
            return await here.migrate("orders", there.topic("orders"))

    assert asyncio.run(story()) == tarry.Migrated(453, 0, 1)
    assert len(seen(new)) == 453


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [(1, 1), (3, 7)], ids=["plain", "growing"])
def test_every_job_is_handed_out_once_during_a_migration_under_load(
    own_server: Callable[..., ServerProcess], partitions: tuple[int, int]
) -> None:
    """Real time: producers go over to the new server, consumers work on both, and the rest is moved meanwhile."""
    old_url, new_url = own_server().url, own_server().url
    for url, number in zip((old_url, new_url), partitions, strict=True):
        with tarry.Client(url) as client:
            client.topic("orders", partitions=number).stats()
    taken: list[tuple[Any, int]] = []
    beats: list[datetime] = []
    over, all_done = threading.Event(), threading.Event()

    def consume(url: str) -> None:
        with tarry.Client(url) as client:
            while not over.is_set():
                for job in client.topic("orders").pop_many(20, wait="50ms"):
                    with job:
                        assert job.lateness.total_seconds() >= 0
                        if job.body == "beat":
                            beats.append(job.due)
                        else:
                            taken.append((job.body, job.attempt))
                if len(taken) >= 2 * EACH and len(beats) >= 5:
                    all_done.set()

    threads = [threading.Thread(target=consume, args=(url,)) for url in (old_url, new_url)]
    with tarry.Client(old_url) as old, tarry.Client(new_url) as new:
        old.schedules.put("orders", "beat", "beat", every="100ms", missed="all")
        old.topic("orders").add_many([tarry.NewJob(n, delay=n / EACH) for n in range(EACH)])
        for thread in threads:
            thread.start()
        new.topic("orders").add_many([tarry.NewJob(n, delay=n / EACH / 4) for n in range(EACH, 2 * EACH)])
        while (left := old.topic("orders").stats()).delayed + left.ready + left.reserved:
            old.migrate("orders", new.topic("orders"))
        all_done.wait(LONGEST_S)
        over.set()
        for thread in threads:
            thread.join()
        assert sorted(taken) == [(n, 1) for n in range(2 * EACH)]
        assert [one.id for one in new.schedules.list("orders")] == ["beat"]
    beats.sort()
    assert {b - a for a, b in pairwise(beats)} == {timedelta(milliseconds=100)}, "none is lost, none is twice"
