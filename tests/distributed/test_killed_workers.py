"""Workers that are killed on a Cluster and behind Sentinels: absence counts on a server that has seen them alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.crc import key_slot

from distributed.test_cluster import move_slot
from server_groups import BigCluster, big_cluster, sentinels
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import holder_keys
from until import until
from warm import WarmTarry
from worker.killed_workers import Scene, kill_all_of

pytestmark = [pytest.mark.otherserver, pytest.mark.slow]
NAMESPACE = "recovered"


@pytest.fixture(scope="module")
def cluster() -> Iterator[BigCluster]:
    with big_cluster() as made:
        yield made


def look_at(scene: Scene, node: ServerProcess) -> None:
    """From now on the scene looks at this node."""
    scene.raw.close()
    scene.raw = redis.Redis.from_url(node.url)


def until_all_are_seen(scene: Scene, workers: int) -> None:
    """All are subscribed here, and an observer has looked since."""
    until(lambda: sum(map(bool, scene.subscribers())) == workers, "subscribed here")
    scene.until_looked()


def test_a_killed_worker_is_noticed_on_a_cluster_and_after_its_slot_has_moved(
    cluster: BigCluster, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    """Promise: When a worker is killed."""
    holders = holder_keys(NAMESPACE).holders
    source = cluster.owner_of(holders)
    masters = [node for node in cluster.nodes if cluster.role(node) == "master"]
    target = next(node for node in masters if node is not source)
    scene = Scene(cluster.url, NAMESPACE, tmp_path, tarry_command, source.url)
    with ExitStack() as stack:
        stack.callback(scene.close)
        workers = [scene.start_known() for _ in range(3)]
        scene.hold()
        kill_holder(scene, workers)
        until(lambda: len(scene.journal()) == 2, "taken by another one")

        move_slot(masters, source, target, key_slot(holders))
        look_at(scene, target)
        until_all_are_seen(scene, 2)
        assert len(scene.journal()) == 2, "those who live keep theirs"
        kill_holder(scene, workers)
        until(lambda: len(scene.journal()) == 3, "taken by the last one")


def kill_holder(scene: Scene, workers: list[Any]) -> None:
    """Kills the worker that has the job."""
    _, _, pid = max(scene.journal(), key=lambda taken: int(taken[1]))
    kill_all_of(scene, next(worker for worker in workers if worker.pid == int(pid)))


def test_after_a_failover_those_who_live_keep_their_jobs_and_a_dead_one_is_noticed(
    tmp_path: Path, tarry_command: WarmTarry
) -> None:
    with sentinels() as own, ExitStack() as stack:
        scene = Scene(own.url, NAMESPACE, tmp_path, tarry_command, own.master().url)
        stack.callback(scene.close)
        workers = [scene.start_known() for _ in range(2)]
        scene.hold()
        with own.switching():
            pass
        look_at(scene, own.master())
        until_all_are_seen(scene, 2)
        assert len(scene.journal()) == 1, "those who live keep theirs"
        kill_holder(scene, workers)
        until(lambda: len(scene.journal()) == 2, "taken by the other one")
