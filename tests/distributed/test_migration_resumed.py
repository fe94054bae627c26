"""A move that was broken off and is begun again doubles nothing and brings nothing back, whatever became of the jobs meanwhile."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Command
from tarry.values.keys import part_key
from tarry.verbs.jobs import topic_migration as migration

IDS = ["buried", "deleted", "done", "held", "later", "lost", "replaced", "waits"]


def migration_flow_of(mine: Any, theirs: Any) -> migration.MigrationSteps:
    here, there = mine.engine.run(mine.verbs.partitions()), theirs.engine.run(theirs.verbs.partitions())
    return migration.migrate(here, there, dry_run=False)


def lived(to: Any) -> set[str]:
    """What becomes of those that have arrived. Answers which."""
    there = {job.id for job in to.list(limit=100)}
    hands = {job.id: job for job in to.pop_many(100, ttr="1h")}
    for id, job in hands.items():
        assert job.attempt == 1
        if id == "done":
            to.finish(job)
        elif id == "buried":
            to.bury(job, reason="no use")
        elif id != "held":
            to.release(job, counted=False)
    if "deleted" in there:
        to.delete("deleted")
    if "replaced" in there:
        to.add("new", id="replaced", if_exists="replace")
    if "later" in there:
        to.reschedule("later", delay="9h")
    if "lost" in there:
        to.delete("lost")
        to.add("another", id="lost")
    return there


@pytest.mark.slow
@pytest.mark.parametrize("steps", range(4, 9))
def test_a_resumed_migration_leaves_arrived_jobs_alone(two: Any, steps: int, targets: int | None) -> None:
    """Broken off after each call; or its answer was lost, and it comes again when the jobs have lived over there."""
    for again in (False, True):
        old, new = (
            client.topic(f"orders-{again}", partitions=n) for client, n in zip(two, (None, targets), strict=True)
        )
        old.add_many([tarry.NewJob("old", id=id) for id in IDS])
        migration_flow, answer, side, request = migration_flow_of(old, new), None, 0, None
        for _ in range(steps):
            try:
                side, request = migration_flow.send(answer)
            except StopIteration:
                break
            answer = (old, new)[side].engine.run(request)
        arrived = lived(new)
        if again and request is not None:
            (old, new)[side].engine.run(request)
        result = two[0].migrate(old, new)
        assert (result.refused, list(old.list())) == (0, [])
        there = {job.id: (job.body, job.state, job.attempts) for job in new.list(limit=100)}
        expected = dict.fromkeys(IDS, ("old", "ready", 0))
        if "done" in arrived:
            del expected["done"]
        if "deleted" in arrived:
            del expected["deleted"]
        changed = {
            "buried": ("old", "dead", 1), "held": ("old", "reserved", 1), "later": ("old", "delayed", 0),
            "replaced": ("new", "ready", 0), "lost": ("another", "ready", 0),
        }  # fmt: skip
        expected |= {id: row for id, row in changed.items() if id in arrived}
        assert there == expected
        assert old.check().ok
        assert new.check().ok


def test_a_refused_job_stays_refused_until_it_is_back_at_the_source(two: Any) -> None:
    """Otherwise, of two processes that migrate at once, one would put it back while the other lets it arrive."""
    old, new = (client.topic("orders") for client in two)
    old.add("old", id="tea", delay="1h")
    new.add("other", id="tea", delay="1h")
    first, second = migration_flow_of(old, new), migration_flow_of(old, new)
    stand = {
        migration_flow: until(migration_flow, (old, new), "migration/arrive") for migration_flow in (first, second)
    }
    assert two[1].engine.run(stand[first]) == [False]
    new.delete("tea")
    assert two[1].engine.run(stand[second]) == [False]
    first.send([False])
    second.send([False])
    assert two[0].migrate(old, new).refused == 1
    assert (old.get("tea").state, new.get("tea")) == ("delayed", None)
    assert two[0].migrate(old, new).moved == 1


def until(migration_flow: migration.MigrationSteps, topics: Any, script: str, answer: Any = None) -> Any:
    """Goes on until that script is to be run; answers its request."""
    while True:
        side, request = migration_flow.send(answer)
        if getattr(getattr(request, "script", None), "name", "") == script:
            return request
        answer = topics[side].engine.run(request)


def test_a_delayed_migration_process_restores_and_removes_nothing(two: Any) -> None:
    """A second process slept after its request. Meanwhile the move was completed, undone and begun again."""
    old, new = (client.topic("orders") for client in two)
    old.add("old", id="tea")
    sleeper = migration_flow_of(old, new)
    arrival = until(sleeper, (old, new), "migration/arrive")
    assert two[0].migrate(old, new).moved == 1
    assert new.pop().finish() is None
    old.add("again", id="tea")
    mover = migration_flow_of(old, new)
    second = until(mover, (old, new), "migration/arrive")
    assert two[1].engine.run(arrival) == [True], "told the same again"
    assert new.get("tea") is None
    ending = sleeper.send([True])[1]
    assert two[0].engine.run(ending) == 0
    assert old.get("tea").body == "again", "which has not arrived yet"
    assert two[1].engine.run(second) == [True]
    assert new.pop().body == "again"
    late = two[1].engine.run(arrival)
    assert isinstance(late, migration.LateDeparture)
    told = migration_flow_of(old, new)
    until(told, (old, new), "migration/arrive")
    side, look = told.send(late)
    assert (side, until(told, (old, new), "migration/arrive", old.engine.run(look)).items) == (
        migration.HERE,
        second.items,
    )
    assert two[0].migrate(old, new).moved == 1
    assert (new.get("tea").state, old.get("tea")) == ("reserved", None)


def test_a_refused_schedule_stays_refused_until_it_is_back_at_the_source(two: Any) -> None:
    old, new = (client.topic("orders") for client in two)
    two[0].schedules.put("orders", "tea", 1, every="1h")
    two[1].schedules.put("orders", "tea", 2, every="1h")
    first, second = migration_flow_of(old, new), migration_flow_of(old, new)
    arrivals = [until(migration_flow, (old, new), "migration/schedule_arrive") for migration_flow in (first, second)]
    assert two[1].engine.run(arrivals[0]) == [False]
    two[1].schedules.delete("orders", "tea")
    assert two[1].engine.run(arrivals[1]) == [False]
    assert two[0].migrate(old, new) == tarry.Migrated(0, 0, 0, schedules=1), "it has gone back, and left anew"
    assert [[one.body for one in client.schedules.list("orders")] for client in two] == [[], [1]]


def test_a_delayed_schedule_migration_restores_and_removes_nothing(two: Any) -> None:
    """While the first migrating process slept, the schedule moved there and back, left again, and was deleted there."""
    old, new = (client.topic("orders") for client in two)
    two[0].schedules.put("orders", "tea", every="1h")
    sleeper = migration_flow_of(old, new)
    arrival = until(sleeper, (old, new), "migration/schedule_arrive")
    assert two[0].migrate(old, new).schedules == 1
    assert two[1].migrate(new, old).schedules == 1
    second = until(migration_flow_of(old, new), (old, new), "migration/schedule_arrive")
    assert two[0].engine.run(sleeper.send([True])[1]) == 0, "it has left again, and not arrived"
    assert two[1].engine.run(second) == [True]
    two[1].schedules.delete("orders", "tea")
    assert two[1].engine.run(arrival) == [False]
    assert two[0].migrate(old, new).schedules == 1, "of the departure that has arrived"
    assert [client.schedules.list("orders") for client in two] == [[], []]


def test_a_server_that_lost_its_departure_number_loses_no_job(two: Any, clock: Clock) -> None:
    """After a fail-over, with a clock behind: over there a later departure is known than the one that it makes now."""
    old, new = (client.topic("orders") for client in two)
    old.add("first", id="first", delay="1h")
    assert two[0].migrate(old, new).moved == 1
    meta = old.verbs.keys.meta
    place, number, _ = two[0].engine.run(Command((b"HGET", meta, b"departed"), bytes)).split(b".")
    arrived = part_key(new.verbs.keys, "arrived")
    two[1].engine.run(Command((b"HSET", arrived, place, b"%s.%d.word" % (place, int(number) + 10**9)), int))
    old.add_many([tarry.NewJob(n, id=f"{n}") for n in range(300)])
    assert two[0].migrate(old, new).moved == 300
    assert new.stats().ready == 300
    assert old.check().ok


def test_departures_of_an_older_version_arrive(two: Any) -> None:
    old, new = (client.topic("orders") for client in two)
    old.add_many(range(3), delay="1h")
    until(migration_flow_of(old, new), (old, new), "migration/arrive")
    two[0].engine.run(Command((b"HDEL", part_key(old.verbs.keys, "leaving"), b""), int))
    assert two[0].migrate(old, new).moved == 3


class Crowd:
    """Several processes move jobs there and back at once, and die anywhere; others add, pop and finish."""

    def __init__(self, client: TestClient, clock: Clock, random: Random, places: list[Any]) -> None:
        self.client, self.clock, self.random, self.places = client, clock, random, places
        self.movers: list[list[Any]] = []
        self.handed = Counter[Any]()
        self.added = 0

    def add(self) -> None:
        id = f"{self.random.randrange(12)}"
        if all(topic.get(id) is None for topic in self.places):
            self.added += 1
            self.random.choice(self.places).add(self.added, id=id)

    def work(self) -> None:
        topic = self.random.choice(self.places)
        for job in topic.pop_many(self.random.randint(1, 4)):
            self.handed[job.body or job.id] += 1
            topic.finish(job)

    def come(self) -> None:
        if len(self.movers) < 3:
            way = self.places if self.random.random() < 0.7 else self.places[::-1]
            self.movers.append([migration_flow_of(*way), None])

    def die(self) -> None:
        if self.movers:
            self.movers.remove(self.random.choice(self.movers))

    def wait(self) -> None:
        self.clock.advance("20s")

    def move(self) -> None:
        if not self.movers:
            return
        mover = self.random.choice(self.movers)
        try:
            _, request = mover[0].send(mover[1])
        except StopIteration:
            self.movers.remove(mover)
        else:
            mover[1] = self.client.engine.run(request)
            if self.random.random() < 0.1:
                self.client.engine.run(request)  # it was lost, came again, and the first one was answered


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "targets"), [*((seed, None) for seed in range(5)), *((seed, 3) for seed in range(5, 10))]
)
def test_migrations_that_start_stop_and_die_in_random_order_hand_out_each_job_once(
    two: Any, clock: Clock, seed: int, targets: int | None
) -> None:
    """Each job is handed out once, and each occurrence of a schedule."""
    random, client = Random(seed), two[0]
    places = [client.topic("a"), client.topic("b", partitions=targets)]
    crowd = Crowd(client, clock, random, places)
    client.schedules.put("a", "beat", every="1m", missed="all")
    does = [crowd.add, crowd.work, crowd.come, crowd.die, crowd.wait, crowd.move]
    for act in random.choices(does, weights=[15, 15, 10, 4, 6, 50], k=400):
        act()
    for way in (places, places[::-1], places):
        client.migrate(*way)
    while any(topic.stats().ready for topic in places) or client.schedules.get("b", "beat").next <= clock.now:
        crowd.work()
    fired = {id for id in crowd.handed if isinstance(id, str)}
    assert set(crowd.handed.values()) == {1}
    assert crowd.handed.keys() - fired == set(range(1, crowd.added + 1))
    assert len(fired) == client.schedules.get("b", "beat").fired
    assert all(topic.check().ok for topic in places)
