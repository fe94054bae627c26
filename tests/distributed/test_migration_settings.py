"""Schedules and options move with a topic: a schedule fires in one place at most, and in one at last, wherever it is broken off."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Command
from tarry.errors import BadInput
from tarry.values.durations import SECOND
from tarry.values.keys import part_key
from tarry.verbs.jobs import topic_migration as migration

NAMES = ["all", "calendar", "once", "paused"]


def fill(client: TestClient, clock: Clock) -> None:
    schedules = client.schedules
    schedules.put("orders", "all", {"what": "all"}, every="10m", missed="all", ttr="5m", headers={"k": "v"})
    schedules.put("orders", "calendar", cron="0 9 * * 1-5", tz="Europe/Berlin")
    schedules.put("orders", "once", every="1h", first=clock.now + timedelta(minutes=7))
    schedules.put("orders", "paused", every="1m")
    schedules.pause("orders", "paused")
    clock.advance("25m")
    client.topic("orders").finish_many(client.topic("orders").pop_many(9))


def seen(client: TestClient) -> dict[str, Any]:
    return {
        one.id: (one.body, one.every, one.cron, one.tz, one.missed, one.next, one.paused, one.fired, one.skipped, one.headers)
        for one in client.schedules.list("orders")
    }  # fmt: skip


def kept(client: TestClient, part: str) -> int:
    parts = client.engine.run(client.topic("orders").verbs.partitions())
    places = [part_key(one.keys, part) for one in parts]
    return sum(client.engine.run(Command((b"HLEN", place), int)) for place in places)


def drained(client: TestClient) -> list[str]:
    topic, found = client.topic("orders"), list[str]()
    while jobs := topic.pop_many(100):
        found += [job.id for job in jobs]
        topic.finish_many(jobs)
    return found


def test_migrated_schedules_continue_at_the_target(two: Any, clock: Clock, targets: int | None) -> None:
    old, new = two
    fill(old, clock)
    before = seen(old)
    assert before["all"][7] == 2
    to = new.topic("orders", partitions=targets)
    assert old.migrate("orders", to, dry_run=True) == tarry.Migrated(0, 0, 0, schedules=4)
    assert (seen(old), seen(new)) == (before, {})
    assert old.migrate("orders", to) == tarry.Migrated(0, 0, 0, schedules=4)
    assert (seen(old), seen(new)) == ({}, before)
    assert kept(old, "moving") == 0
    clock.advance("10m")
    assert drained(old) == []
    assert [id.partition("@")[0] for id in drained(new)] == ["all"]
    assert new.schedules.resume("orders", "paused") is True
    assert new.schedules.get("orders", "paused").next is not None
    assert old.migrate("orders", to) == tarry.Migrated(0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(1, 10))
def test_a_schedule_fires_in_one_place_after_an_interrupted_migration(
    two: Any, clock: Clock, steps: int, targets: int | None
) -> None:
    """Somebody pops on both sides between the steps, and for a while after the crash; then it is begun again."""
    old, new = two
    fill(old, clock)
    mine, theirs = old.topic("orders"), new.topic("orders", partitions=targets)
    here, there = old.engine.run(mine.verbs.partitions()), new.engine.run(theirs.verbs.partitions())
    migration_flow, answer, fired = migration.migrate(here, there, dry_run=False, progress=None), None, list[str]()
    try:
        for step in range(steps):
            side, request = migration_flow.send(answer)
            answer = (old, new)[side].engine.run(request)
            if step == steps - 1:
                (old, new)[side].engine.run(request)  # and its answer was lost
            fired += drained(old) + drained(new)
            clock.advance("1m")
    except StopIteration:
        pass
    assert not set(seen(old)) & set(seen(new))
    assert len(seen(old)) + len(seen(new)) + kept(old, "moving") >= 4, (
        "one that has arrived may still be on its way, too"
    )
    clock.advance("12m")
    fired += drained(old) + drained(new)
    old.migrate("orders", theirs)
    assert (seen(old), sorted(seen(new)), kept(old, "moving")) == ({}, NAMES, 0)
    clock.advance("1h")
    fired += drained(old) + drained(new)
    assert len(fired) == len(set(fired)), "none twice"
    regular = sorted(id for id in fired if id.startswith("all@"))
    assert len(regular) == clock.elapsed_us // (600 * SECOND) - 2, "none is lost: two were made before"
    assert sum(id.startswith("once@") for id in fired) == 1


def test_declared_schedules_migrate_and_are_recognized_by_workers(two: Any, clock: Clock, targets: int | None) -> None:
    old, new = two

    def declare(client: TestClient) -> None:
        worker = tarry.Worker("shop", client=client)

        @worker.every("1h", id="tidy", topic="orders")
        async def tidy() -> None: ...

        asyncio.run(worker.run_until_idle())

    declare(old)
    clock.advance("10m")
    old.schedules.pause("orders", "tidy")
    to = new.topic("orders", partitions=targets)
    assert old.migrate("orders", to).schedules == 1
    for _ in range(2):
        [moved] = new.schedules.list("orders")
        assert (moved.id, moved.from_code, moved.orphaned, moved.paused) == ("tidy", True, False, True)
        declare(new)
        clock.advance("1m")
    assert moved.changed < clock.now - timedelta(minutes=11), "it was not defined again"


def test_migrating_back_and_forth_loses_no_schedule(two: Any, clock: Clock) -> None:
    old, new = two
    fill(old, clock)
    before = seen(old)
    for _ in range(3):
        assert old.migrate("orders", new.topic("orders")).schedules == 4
        assert new.migrate("orders", old.topic("orders")).schedules == 4
    assert (seen(old), seen(new)) == (before, {})


def test_a_schedule_changed_at_the_target_is_not_overwritten(two: Any, clock: Clock) -> None:
    """The worst moment: it is over there, that was not told here, and there somebody redefines or deletes it."""
    old, new = two
    for name in ("changed", "deleted"):
        old.schedules.put("orders", name, every="10m")
    mine, theirs = old.topic("orders"), new.topic("orders")
    here, there = old.engine.run(mine.verbs.partitions()), new.engine.run(theirs.verbs.partitions())
    migration_flow, answer = migration.migrate(here, there, dry_run=False, progress=None), None
    while len(new.schedules.list("orders")) < 2:
        side, request = migration_flow.send(answer)
        answer = (old, new)[side].engine.run(request)
    new.schedules.put("orders", "changed", every="1m")
    new.schedules.delete("orders", "deleted")
    assert old.migrate("orders", theirs) == tarry.Migrated(0, 0, 0, schedules=2)
    assert old.schedules.list("orders") == []
    assert [(one.id, one.every) for one in new.schedules.list("orders")] == [("changed", timedelta(minutes=1))]


def test_a_conflicting_schedule_stays_and_an_equal_one_is_merged(two: Any, clock: Clock) -> None:
    old, new = two
    old.schedules.put("orders", "other", 1, every="10m")
    old.schedules.put("orders", "alike", 1, every="10m")
    old.schedules.put("orders", "torn", 1, every="10m")
    plans = part_key(old.topic("orders").verbs.keys, "plans")
    old.engine.run(Command((b"HSET", plans, b"torn", b"torn"), int))
    clock.advance("3m")
    new.schedules.put("orders", "other", 2, every="10m")
    there = new.schedules.put("orders", "alike", 1, every="10m")
    assert old.migrate("orders", new.topic("orders")) == tarry.Migrated(0, 0, 0, schedules=1, schedules_refused=2)
    assert sorted(one.id for one in old.schedules.list("orders")) == ["other", "torn"]
    assert new.schedules.get("orders", "alike") == there
    assert old.schedules.get("orders", "other").next == clock.now + timedelta(minutes=7)
    assert (old.schedules.get("orders", "other").body, new.schedules.get("orders", "other").body) == (1, 2)


@pytest.mark.slow
def test_many_schedules_migrate(two: Any, clock: Clock) -> None:
    old, new = two
    for n in range(150):
        old.schedules.put("orders", f"s{n:03}", n, every=3600 + n)
    before = seen(old)
    assert old.migrate("orders", new.topic("orders", partitions=4)) == tarry.Migrated(0, 0, 0, schedules=150)
    assert (seen(old), seen(new)) == ({}, before)


def test_configured_options_migrate_too(two: Any, targets: int | None) -> None:
    old, new = two
    said = old.topic("orders").configure(
        ttr="5m", max_attempts=None, keep_dead=None, rate="100/1m", burst=9, concurrency=7, max_lateness="1h"
    )
    to = new.topic("orders", partitions=targets)
    usual = to.configure()
    options = ("ttr", "max_attempts", "keep_dead", "rate", "burst", "concurrency", "max_lateness")
    assert old.migrate("orders", to, dry_run=True) == tarry.Migrated(0, 0, 0, settings=options)
    assert to.configure() == usual
    assert old.migrate("orders", to) == tarry.Migrated(0, 0, 0, settings=options)
    assert to.configure() == said
    to.configure(ttr="1m", concurrency=4)
    assert old.migrate("orders", to) == tarry.Migrated(0, 0, 0), "what is said over there stays"
    assert (to.configure().ttr, to.configure().concurrency) == (timedelta(minutes=1), 4)


def test_an_indivisible_limit_is_refused_before_anything_moves(two: Any, clock: Clock) -> None:
    old, new = two
    fill(old, clock)
    old.topic("orders").configure(concurrency=2)
    old.topic("orders").add("tea", id="tea", delay="1h")
    for dry_run in (True, False):
        with pytest.raises(BadInput, match="concurrency: 2 for 3 partitions"):
            old.migrate("orders", new.topic("orders", partitions=3), dry_run=dry_run)
    assert (len(seen(old)), seen(new), old.topic("orders").get("tea").state) == (4, {}, "delayed")
    new.topic("orders").configure(concurrency=3)
    assert old.migrate("orders", new.topic("orders")).moved == 1


def test_a_topic_with_schedules_does_not_migrate_into_itself(two: Any, clock: Clock) -> None:
    old, _ = two
    fill(old, clock)
    before = seen(old)
    with TestClient(old.engine.config.address.url + "?db=0", clock) as same:
        assert old.migrate("orders", same.topic("orders")) == tarry.Migrated(0, 0, 0, schedules_refused=4)
    assert seen(old) == before


@pytest.mark.otherserver
def test_schedules_migrate_to_a_cluster_and_into_partitions(
    valkey_url: str, cluster_nodes: list[tuple[str, int]], clock: Clock, namespace: str
) -> None:
    url = "redis+cluster://" + ",".join(f"{host}:{port}" for host, port in cluster_nodes)
    with TestClient(valkey_url, clock, namespace=namespace) as old, TestClient(url, clock, namespace=namespace) as new:
        fill(old, clock)
        before = seen(old)
        old.topic("orders").configure(concurrency=9)
        old.topic("orders").add_many([tarry.NewJob(n, id=f"{n}") for n in range(30)], delay="1h")
        to = new.topic("orders", partitions=4)
        assert old.migrate("orders", to) == tarry.Migrated(30, 0, 0, schedules=4, settings=("concurrency",))
        assert (seen(old), seen(new), to.stats().delayed) == ({}, before, 30)
        clock.advance("10m")
        [job] = to.pop_many(9)
        assert to.get(job.id).state == "reserved"
        assert new.migrate("orders", old.topic("orders")) == tarry.Migrated(30, 0, 1, schedules=4), "and back"
