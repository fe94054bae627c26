"""Backup and restore of servers of one's own, as docs/production/back-up-and-restore.md says it: by the RDB file and by the append-only folder, of one
server, of a Cluster with replicas, at the same addresses and beside it at others, and of a master that Sentinels watch."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import servers
import tarry
from server_groups import CLUSTER, BigCluster, ask_fields, big_cluster, port_of, replicated, sentinels, until
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import topic_keys
from until import LONGEST_S

pytestmark = pytest.mark.slow


@pytest.fixture(
    params=["valkey", *(pytest.param(kind, marks=pytest.mark.otherserver) for kind in ("redis7", "redis8"))]
)
def binary(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return servers.binary_of(request.param, tmp_path)


@pytest.fixture
def start(binary: Path) -> Iterator[Any]:
    """Starts a server whose data lie in a folder."""
    with ExitStack() as stack:

        def server_in(folder: Path, *words: str, port: int = 0, **options: str) -> ServerProcess:
            folder.mkdir(exist_ok=True)
            named = [word for name, value in options.items() for word in (f"--{name}", value)]
            options_ = ("--dir", str(folder), *words, *named)
            return stack.enter_context(servers.server(binary, port=port, options=options_))

        yield server_in


class Filled:
    """A topic with a job in every state, limits and a schedule; and what somebody knows of it."""

    def __init__(self, client: tarry.Client, name: str, partitions: int | None = None) -> None:
        self.name = name
        topic = client.topic(name, partitions=partitions)
        topic.configure(concurrency=50, max_attempts=7)
        topic.add_many(range(100), delay="1d")
        topic.add("no use", id="dead")
        topic.add("in hand", id="held")
        jobs = {job.id: job for job in topic.pop_many(2, ttr="1h")}
        topic.bury(jobs["dead"], reason="no use")
        self.held = jobs["held"]
        topic.add("waits", id="waits")
        client.schedules.put(name, "report", {"kind": "daily"}, every="1h")
        self.before: set[str] = set()
        self.after: Any = None

    def is_seen(self, client: tarry.Client) -> None:
        """What is there when the backup begins."""
        self.before = {job.id for job in _all(client.topic(self.name))}
        assert {"dead", "held", "waits"} <= self.before

    def goes_on(self, client: tarry.Client) -> None:
        """After the backup: what it must not know."""
        topic = client.topic(self.name)
        topic.add("after the backup", id="later", delay="1d")
        self.after = topic.pop(ttr="1h")
        assert self.after is not None
        assert self.after.id == "waits"

    def is_as_it_was(self, client: tarry.Client) -> None:
        topic = client.topic(self.name)
        found = topic.check()
        assert found.ok, found.faults
        assert self.before <= {job.id for job in _all(topic)}
        assert topic.get("later") is None
        now = topic.stats()
        assert (now.ready, now.reserved, now.dead) == (1, 1, 1)
        assert (topic.configure().concurrency, topic.configure().max_attempts) == (50, 7)
        assert [one.id for one in client.schedules.list(self.name)] == ["report"]
        topic.finish(self.held)  # its consumer, which is still there
        topic.add("new", id="new")
        jobs = {job.id: job for job in topic.pop_many(3)}
        assert set(jobs) == {"waits", "new"}
        assert all(job.receipt > self.held.receipt for job in jobs.values())
        assert jobs["waits"].receipt > self.after.receipt
        with pytest.raises(tarry.StaleReceipt):
            topic.finish(self.after)  # the consumer that got it after the backup


def _all(topic: Any) -> Iterator[Any]:
    cursor = None
    while True:
        page = topic.list(limit=1000, cursor=cursor)
        yield from page
        cursor = page.cursor
        if cursor is None:
            return


@contextmanager
def busy(client: tarry.Client, names: list[str]) -> Iterator[None]:
    """Jobs are added all the time, from before to after what happens in the block."""
    stop, rounds = threading.Event(), threading.Semaphore(0)

    def add() -> None:
        n = 0
        while not stop.wait(0.005):
            for name in names:
                client.topic(name).add(n, id=f"busy-{n}", delay="1d")
            n += 1
            rounds.release()

    adding = threading.Thread(target=add)
    adding.start()
    try:
        for _ in range(100 // len(names)):
            assert rounds.acquire(timeout=LONGEST_S)
        yield
        assert rounds.acquire(timeout=LONGEST_S)
    finally:
        stop.set()
        adding.join()


def back_up_rdb(running: ServerProcess, folder: Path, backup: Path) -> None:
    assert running.ask("BGSAVE") == b"Background saving started"
    until("a saved file", lambda: ask_fields(running, "INFO", "persistence")["rdb_bgsave_in_progress"] == "0")
    backup.mkdir()
    shutil.copy(folder / "dump.rdb", backup)


def back_up_aof(running: ServerProcess, folder: Path, backup: Path) -> None:
    running.ask("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
    until("no rewriting", lambda: ask_fields(running, "INFO", "persistence")["aof_rewrite_in_progress"] == "0")
    # A slow disk holds up the server's writing, for two seconds at most.
    until("a written file", lambda: ask_fields(running, "INFO", "persistence")["aof_buffer_length"] == "0")
    shutil.copytree(folder / "appendonlydir", backup / "appendonlydir")
    running.ask("CONFIG", "SET", "auto-aof-rewrite-percentage", "100")


def restore(node: ServerProcess, backup: Path | None) -> None:
    """Everything in a stopped node's folder is lost, and what was copied is put there."""
    assert not node.alive
    shutil.rmtree(node.folder)
    if backup is None:
        node.folder.mkdir()
    else:
        shutil.copytree(backup, node.folder)


WAYS: dict[str, tuple[Callable[[ServerProcess, Path, Path], None], dict[str, str]]] = {
    "RDB": (back_up_rdb, {"appendonly": "no"}),
    "AOF": (back_up_aof, {"appendonly": "yes"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_backup_of_a_busy_server_is_complete(start: Any, tmp_path: Path, way: str) -> None:
    back_up, options = WAYS[way]
    first = start(tmp_path / "data", **options)
    with tarry.Client(first.url) as client:
        orders = Filled(client, "orders")
        with busy(client, ["orders"]):
            orders.is_seen(client)
            back_up(first, tmp_path / "data", tmp_path / "backup")
        orders.goes_on(client)
    first.stop()
    with tarry.Client(start(tmp_path / "backup", **options).url) as client:
        orders.is_as_it_was(client)


def test_an_rdb_file_alone_needs_a_server_without_aof(start: Any, tmp_path: Path) -> None:
    """With one, the server begins empty: so it is switched on afterwards."""
    first = start(tmp_path / "data", appendonly="no")
    with tarry.Client(first.url) as client:
        Filled(client, "orders")
        back_up_rdb(first, tmp_path / "data", tmp_path / "backup")
    shutil.copytree(tmp_path / "backup", tmp_path / "trap")
    with tarry.Client(start(tmp_path / "trap", appendonly="yes").url) as client:
        assert client.topic("orders").stats().delayed == 0
    restored = start(tmp_path / "backup", appendonly="no")
    with tarry.Client(restored.url) as client:
        assert client.topic("orders").stats().delayed == 100
        assert restored.ask("CONFIG", "SET", "appendonly", "yes") == b"OK"
        until(
            "a first append-only file",
            lambda: ask_fields(restored, "INFO", "persistence")["aof_rewrite_in_progress"] == "0",
        )
    restored.stop()
    with tarry.Client(start(tmp_path / "backup", appendonly="yes").url) as client:
        assert client.topic("orders").stats().delayed == 100


PLAIN = [f"orders-{n}" for n in range(12)]


@pytest.mark.otherserver
@pytest.mark.parametrize(("binary", "way"), [("valkey", "AOF"), ("redis7", "RDB")], indirect=["binary"])
def test_a_cluster_is_restored_at_new_addresses_and_at_its_own(
    binary: Path, start: Any, tmp_path: Path, way: str
) -> None:
    back_up, options = WAYS[way]
    words = tuple(word for name, value in options.items() for word in (f"--{name}", value))
    with big_cluster(binary, options=words) as first:
        masters = first.nodes[:3]
        assert {first.owner_of(topic_keys("default", name).due) for name in PLAIN} == set(masters)
        with tarry.Client(first.url) as client:
            filled = [*(Filled(client, name) for name in PLAIN), Filled(client, "spread", partitions=8)]
            with busy(client, [topic.name for topic in filled]):
                for topic in filled:
                    topic.is_seen(client)
                copies = [tmp_path / f"backup-{i}" for i in range(6)]
                for node, copy in zip(first.nodes, copies, strict=True):
                    if node in masters:
                        back_up(node, node.folder, copy)
                    else:
                        copy.mkdir()
                    shutil.copy(node.folder / "nodes.conf", copy)
            for topic in filled:
                topic.goes_on(client)

        other = elsewhere(first, copies, lambda folder, port: start(folder, *CLUSTER, port=port, **options))
        everything_is_there(other, filled)
        for node in (*first.nodes, *other.nodes):
            assert ask_fields(node, "CLUSTER", "INFO")["cluster_known_nodes"] == "6"
        with tarry.Client(first.url) as client:
            assert all(client.topic(topic.name).get("later") for topic in filled)
        for node in other.nodes:
            node.stop()

        for node in first.nodes:
            node.stop()
        for node, copy in zip(first.nodes, copies, strict=True):
            restore(node, copy)
            node.restart()
        everything_is_there(first, filled)


def elsewhere(cluster: BigCluster, copies: list[Path], start: Callable[[Path, int], ServerProcess]) -> BigCluster:
    """The copies at other addresses: those in each nodes.conf are replaced."""
    ports = dict(zip(map(port_of, cluster.nodes), servers.free_ports(6), strict=True))
    moves = copies[0].with_name("moves.sed")
    lines = (rf"s/127\.0\.0\.1:{o}@{o + servers.BUS}/127.0.0.1:{n}@{n + servers.BUS}/" for o, n in ports.items())
    moves.write_text("\n".join(lines))
    nodes = []
    for port, copy in zip(ports.values(), copies, strict=True):
        folder = copy.with_name(f"elsewhere-{port}")
        shutil.copytree(copy, folder)
        subprocess.run(["sed", "-i", "-f", str(moves), str(folder / "nodes.conf")], check=True)
        nodes.append(start(folder, port))
    return BigCluster(nodes)


def everything_is_there(cluster: BigCluster, filled: list[Filled]) -> None:
    cluster.until_whole()
    for master, replica in zip(cluster.nodes[:3], cluster.nodes[3:], strict=True):
        until("a replica that has everything", lambda m=master: replicated(ask_fields(m, "INFO", "replication")))  # type: ignore[misc]
        assert cluster.follows(replica, master)
    with tarry.Client(cluster.url) as client:
        assert set(client.topics()) == {topic.name for topic in filled}
        for topic in filled:
            topic.is_as_it_was(client)


def offset(server: ServerProcess) -> int:
    """How much of the stream of writes it has."""
    return int(ask_fields(server, "INFO", "replication")["master_repl_offset"])


@pytest.mark.otherserver
@pytest.mark.parametrize("binary", ["redis7"], indirect=True)
def test_a_sentinel_master_is_restored_from_a_replica_backup(binary: Path, tmp_path: Path) -> None:
    with sentinels(binary) as sentinel_group:
        master, replica = sentinel_group.data
        with tarry.Client(sentinel_group.url) as client:
            orders = Filled(client, "orders")
            with busy(client, ["orders"]):
                orders.is_seen(client)
                seen = offset(master)
                until("a replica that has what was seen", lambda: offset(replica) >= seen)
                back_up_rdb(replica, replica.folder, tmp_path / "backup")
            orders.goes_on(client)
        for one in (*sentinel_group.watchers, replica, master):
            one.stop()
        restore(master, tmp_path / "backup")
        restore(replica, None)
        for one in (master, replica, *sentinel_group.watchers):
            one.restart()
        sentinel_group.until_replicated()
        with tarry.Client(sentinel_group.url) as client:
            orders.is_as_it_was(client)
        assert sentinel_group.master() is master
