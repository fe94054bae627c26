"""What was confirmed before a master was killed is there when another one takes its place: behind Sentinels and on a Cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distributed.test_failover import BOTH, Producer, ids_at, producers
from server_groups import Sentinels, big_cluster, sentinels
from tarry.values.keys import topic_keys
from until import until

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]


@pytest.fixture
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


@BOTH
def test_confirmed_adds_survive_a_killed_master(sentinel_group: Sentinels, kind: str) -> None:
    with producers(Producer(kind, sentinel_group.url, pause=0, durability="replicated")) as (one,):
        until(lambda: len(one.acknowledged) > 100)
        sentinel_group.master().kill()
        old = sentinel_group.master()
        until(lambda: sentinel_group.master() is not old, "another master")
    assert one.acknowledged.keys() <= ids_at(sentinel_group.master())


@BOTH
def test_confirmed_adds_survive_a_killed_cluster_master(kind: str) -> None:
    with big_cluster() as cluster:
        old = cluster.owner_of(topic_keys("default", "orders").jobs)
        with producers(Producer(kind, cluster.url, pause=0, durability="replicated")) as (one,):
            until(lambda: len(one.acknowledged) > 100)
            old.kill()
            until(lambda: cluster.owner_of(topic_keys("default", "orders").jobs) is not old, "another master")
        assert one.acknowledged.keys() <= ids_at(cluster.owner_of(topic_keys("default", "orders").jobs))
