"""What was confirmed before a master was killed is there when another one takes its place: behind Sentinels and on a Cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from distributed.test_failover import Producer, ids_at, producers
from faults.any_client import KINDS
from server_groups import Sentinels, big_cluster, sentinels
from tarry.values.keys import topic_keys
from until import until

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]


@pytest.fixture
def sentinel_group() -> Iterator[Sentinels]:
    with sentinels() as made:
        yield made


def confirmed_producers(url: str) -> list[Producer]:
    return [Producer(kind, url, pause=0, durability="replicated") for kind in KINDS]


def test_confirmed_adds_survive_a_killed_master(sentinel_group: Sentinels) -> None:
    with producers(*confirmed_producers(sentinel_group.url)) as both:
        until(lambda: all(len(one.acknowledged) > 100 for one in both))
        sentinel_group.master().kill()
        old = sentinel_group.master()
        until(lambda: sentinel_group.master() is not old, "another master")
    for one in both:
        assert one.acknowledged.keys() <= ids_at(sentinel_group.master())


def test_confirmed_adds_survive_a_killed_cluster_master() -> None:
    with big_cluster() as cluster:
        old = cluster.owner_of(topic_keys("default", "orders").jobs)
        with producers(*confirmed_producers(cluster.url)) as both:
            until(lambda: all(len(one.acknowledged) > 100 for one in both))
            old.kill()
            until(lambda: cluster.owner_of(topic_keys("default", "orders").jobs) is not old, "another master")
        for one in both:
            assert one.acknowledged.keys() <= ids_at(cluster.owner_of(topic_keys("default", "orders").jobs))
