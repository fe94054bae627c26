"""Limits that were set in some partitions only: the next change sets the last ones everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from distributed.conftest import PARTS
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Batch, Command
from tarry.verbs.jobs import settings
from tarry.verbs.jobs import topic_migration as migration
from tarry.verbs.jobs.settings import FIELDS, SettingsChange

BEFORE, AFTER = 20, 40


@pytest.fixture
def client(valkey_url: str, clock: Clock, namespace: str) -> Iterator[TestClient]:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        yield client


@pytest.fixture
def topic(client: TestClient) -> Any:
    topic = client.topic("orders", partitions=PARTS)
    topic.configure(ttr="9s", concurrency=BEFORE)
    return topic


def begin(topic: Any, **limits: Any) -> Any:
    """A configure of which no step is done."""
    return one_by_one(topic.verbs.configure(SettingsChange(**limits)))


def one_by_one(flow: Any) -> Any:
    """The same flow, and what it asks together one after the other: so it can be broken off in between."""
    answer: Any = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as end:
            return end.value
        if not isinstance(step, Batch):
            answer = yield step
            continue
        answer = []
        for request in step.requests:
            answer.append((yield request))


def step(topic: Any, flow: Any, answer: Any, steps: int) -> Any:
    """So many of its steps; the last answer."""
    for _ in range(steps):
        request = flow.send(answer)
        answer = topic.engine.run(request)
    return answer


def stored_settings(topic: Any) -> dict[str, set[bytes | None]]:
    """What each partition has of the whole."""
    engine = topic.engine
    each = [engine.run(settings.read_settings(part.keys, part.share)) for part in engine.run(topic.verbs.partitions())]
    return {name: set(words) for name, words in zip(FIELDS, zip(*each, strict=True), strict=True)}


def reserved_at_most(topic: Any) -> int:
    topic.add_many(range(300))
    return sum(len(topic.pop_many(100)) for _ in range(3))


@pytest.mark.parametrize("steps", range(PARTS + 1))
def test_a_partial_configure_is_completed_by_the_next_reader(
    topic: Any, client: TestClient, clock: Clock, steps: int
) -> None:
    step(topic, begin(topic, concurrency=AFTER, rate="1000/s"), None, steps)
    found = client.topic("orders").configure()
    assert found.concurrency == (AFTER if steps else BEFORE)
    assert {name: len(words) for name, words in stored_settings(topic).items()} == dict.fromkeys(FIELDS, 1)
    clock.advance("1m")  # a new rate begins with nothing saved up
    assert reserved_at_most(topic) == found.concurrency


def test_two_simultaneous_configures_are_both_applied(topic: Any) -> None:
    mine, other = begin(topic, concurrency=AFTER), begin(topic, ttr="30s")
    answer = step(topic, mine, None, 2)
    topic.engine.run(other)
    with pytest.raises(StopIteration) as end:
        step(topic, mine, answer, 99)
    assert end.value.value.concurrency == AFTER
    assert (stored_settings(topic)["concurrency"], stored_settings(topic)["ttr"]) == ({b"40"}, {b"30000000"})


def test_a_late_step_of_configure_does_not_undo_a_newer_one(topic: Any) -> None:
    late = begin(topic, concurrency=AFTER)
    answer = step(topic, late, None, 1)
    request = late.send(answer)
    topic.configure(concurrency=60)
    topic.engine.run(request)
    assert stored_settings(topic)["concurrency"] == {b"60"}


def test_a_first_partition_that_lost_its_options_takes_those_of_the_others(topic: Any) -> None:
    """A fail-over lost what it was told last: what it has holds."""
    first = topic.engine.run(topic.verbs.partitions())[0]
    topic.configure(concurrency=AFTER)
    topic.configure(concurrency=60)
    topic.engine.run(settings.configure(first.keys, SettingsChange(concurrency=AFTER), first.share))
    topic.engine.run(Command((b"HSET", first.keys.meta, b"ruling", b"1"), int))
    assert topic.configure().concurrency == AFTER
    assert stored_settings(topic)["concurrency"] == {b"40"}
    assert topic.configure(concurrency=50).concurrency == 50
    assert stored_settings(topic)["concurrency"] == {b"50"}


def test_a_migration_interrupted_among_the_limits_sets_them_everywhere(client: TestClient) -> None:
    here, there = client.topic("plain"), client.topic("parted", partitions=PARTS)
    here.configure(concurrency=AFTER)
    parts = client.engine.run(there.verbs.partitions())
    migration_flow = migration.migrate(client.engine.run(here.verbs.partitions()), parts, dry_run=False)
    answer = None
    for _ in range(4):  # two looks, two partitions
        _, request = migration_flow.send(answer)
        answer = client.engine.run(request)
    assert client.migrate("plain", there).settings == ("concurrency",)
    assert stored_settings(there)["concurrency"] == {b"40"}
