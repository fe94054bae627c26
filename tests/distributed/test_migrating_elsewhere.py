"""A move that was broken off and is begun again towards another topic: it doubles nothing, and says where the first one went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.verbs.jobs import topic_migration as migration

IDS = [f"{n}" for n in range(8)]


@pytest.fixture(params=[None, 3], ids=["plain", "parted"])
def partitions(request: pytest.FixtureRequest) -> int | None:
    return request.param


def migration_flow_of(mine: Any, theirs: Any, *, redirect: bool = False) -> migration.MigrationSteps:
    here, there = mine.engine.run(mine.verbs.partitions()), theirs.engine.run(theirs.verbs.partitions())
    return migration.migrate(here, there, dry_run=False, redirect=redirect)


def broken_off(migration_flow: migration.MigrationSteps, topics: Any, steps: int) -> bool:
    """After so many calls; answers whether it had come to its end before."""
    answer = None
    for _ in range(steps):
        try:
            side, request = migration_flow.send(answer)
        except StopIteration:
            return True
        answer = topics[side].engine.run(request)
    return False


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(3, 18))
def test_an_interrupted_migration_never_continues_to_another_topic(
    three: Any, steps: int, partitions: int | None
) -> None:
    """Whatever it said: in the end each job was finished once, and each schedule is in one place."""
    source = three[0]
    old, first, second = (
        client.topic("orders", partitions=n) for client, n in zip(three, (None, partitions, None), strict=True)
    )
    old.add_many([tarry.NewJob(id, id=id) for id in IDS])
    source.schedules.put("orders", "beat", every="1h")
    ended = broken_off(migration_flow_of(old, first), (old, first), steps)
    finished = [job.body for job in first.pop_many(100) if first.finish(job) is None]
    on_the_way = old.check()
    if on_the_way.leaving or on_the_way.schedules_leaving:
        before = second.stats(), old.check()
        for dry_run in (True, False):
            with pytest.raises(tarry.BadInput, match=r"on their way to another topic \(default/orders\)"):
                source.migrate(old, second, dry_run=dry_run)
        assert (second.stats().ready, old.check().leaving) == (before[0].ready, before[1].leaving)
        source.migrate(old, first)
    done = source.migrate(old, second)
    assert not done.refused
    assert not ended or not done.moved
    for topic in (first, second):
        finished += [job.body for job in topic.pop_many(100) if topic.finish(job) is None]
    assert sorted(finished) == IDS
    beats = [len(client.schedules.list("orders")) for client in three]
    assert (beats[0], sum(beats)) == (0, 1)
    assert all(topic.check().ok for topic in (old, first, second))


def until(migration_flow: migration.MigrationSteps, topics: Any, script: str, answer: Any = None) -> Any:
    """Goes on until that script is to be run; answers its request."""
    while True:
        side, request = migration_flow.send(answer)
        if getattr(getattr(request, "script", None), "name", "") == script:
            return request
        answer = topics[side].engine.run(request)


def test_a_topic_is_identified_by_its_data_not_by_its_url(three: Any, tmp_path: Path) -> None:
    old, first = (client.topic("orders") for client in three[:2])
    old.add_many([tarry.NewJob(id, id=id) for id in IDS])
    until(migration_flow_of(old, first), (old, first), "migration/arrive")
    other_name = tmp_path / "s"
    other_name.symlink_to(first.engine.config.address.url.removeprefix("unix://"))
    with tarry.Client(f"unix://{other_name}") as same:
        with pytest.raises(tarry.BadInput, match="another topic"):
            three[0].migrate(old, same.topic("orders-2"))
        assert three[0].migrate(old, same.topic("orders")).moved == len(IDS)


def test_a_move_to_a_lost_topic_can_be_redirected(three: Any) -> None:
    old, first, second = (client.topic("orders") for client in three)
    old.add_many([tarry.NewJob(id, id=id) for id in IDS])
    three[0].schedules.put("orders", "beat", every="1h")
    until(migration_flow_of(old, first), (old, first), "migration/schedule_arrive")
    assert old.check().schedules_leaving == 1
    with pytest.raises(tarry.BadInput, match="redirect"):
        three[0].migrate(old, second)
    done = three[0].migrate(old, second, redirect=True)
    assert (done.moved, done.schedules) == (len(IDS), 1)
    old.add("late", id="late")
    assert three[0].migrate(old, first).moved == 1, "all has arrived, so any topic will do"
    old.add("later", id="later")
    until(migration_flow_of(old, first), (old, first), "migration/arrive")
    assert old.check().leaving == 1
    mover = migration_flow_of(old, second, redirect=True)
    until(mover, (old, second), "migration/arrive")
    with pytest.raises(tarry.BadInput, match="another topic"):
        three[0].migrate(old, first)
    assert three[0].migrate(old, second).moved == 1, "that is where they go now"
    assert second.stats().ready == len(IDS) + 1


def test_two_simultaneous_migrations_to_different_topics_duplicate_nothing(three: Any) -> None:
    """Each has looked before the other has taken anything out."""
    old, first, second = (client.topic("orders") for client in three)
    old.add_many([tarry.NewJob(id, id=id) for id in IDS])
    one, other = migration_flow_of(old, first), migration_flow_of(old, second)
    departs = until(one, (old, first), "migration/depart"), until(other, (old, second), "migration/depart")
    taken, found = map(old.engine.run, departs)
    assert taken == found
    with pytest.raises(tarry.BadInput, match="on their way to another topic"):
        other.send(found)
    until(one, (old, first), "migration/end_departure", taken)
    assert (first.stats().ready, second.stats().ready) == (len(IDS), 0)


def test_departures_of_version_0_1_0_may_go_to_any_topic(three: Any) -> None:
    """It does not say where it was going."""
    old, first, second = (client.topic("orders") for client in three)
    old.add_many([tarry.NewJob(id, id=id) for id in IDS])
    departs = until(migration_flow_of(old, first), (old, first), "migration/depart")
    plain = migration.depart(old.verbs.keys, departs.args[1].partition(b"@")[0])
    assert len(old.engine.run(plain)[1]) == len(IDS)
    assert three[0].migrate(old, second).moved == len(IDS)
