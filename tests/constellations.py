"""Several servers that belong together, for the tests: real ones, private, gone when the test is over.

    sentinels()     a master, a replica and three Sentinels that fail over within two seconds
    big_cluster()   three masters, each with a replica

The rules of ``servers.py`` hold: own folders, free ports, stopped by pid, and all data servers carry the mark of the
imaginary clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import servers
from tarry.links.embedded import wire
from tarry.links.embedded.launch import Running

MASTER = "tarry-master"
DOWN_MS, FORM_S = 1000, 30.0


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Asks again and again, for half a minute at most."""
    for _ in wire.pauses(FORM_S):
        with suppress(wire.Refused):
            if is_so():
                return
    pytest.fail(f"{what}: not within {FORM_S:.0f} s")


def port_of(running: Running) -> int:
    assert not isinstance(running.address, str)
    return running.address[1]


def told(running: Running, *words: str) -> dict[str, str]:
    """An answer of lines ``name:value``."""
    text = running.ask(*words)
    assert isinstance(text, bytes), text
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


@dataclass
class Sentinels:
    """A master, a replica, and who watches them."""

    data: list[Running]
    watchers: list[Running]

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{port_of(one)}" for one in self.watchers)

    @property
    def url(self) -> str:
        return f"redis+sentinel://{self.hosts}/{MASTER}"

    def master(self) -> Running:
        """Whom the first Sentinel that lives calls master."""
        watcher = next(one for one in self.watchers if one.alive)
        found = watcher.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        assert isinstance(found, list)
        return next(one for one in self.data if port_of(one) == int(found[1]))  # type: ignore[arg-type]

    def until_replicated(self) -> None:
        """The replica has what the master has."""
        until("a replica that has everything", lambda: replicated(told(self.master(), "INFO", "replication")))


@contextmanager
def sentinels(binary: Path | None = None, options: tuple[str, ...] = ()) -> Iterator[Sentinels]:
    binary = binary or servers.valkey_binary()
    with ExitStack() as stack:
        ports = servers.free_ports(2)
        master = stack.enter_context(servers.server(binary, port=ports[0], options=options))
        follow = ("--replicaof", f"127.0.0.1 {ports[0]}", "--repl-diskless-sync-delay", "0")
        replica = stack.enter_context(servers.server(binary, port=ports[1], options=(*options, *follow)))
        watchers = [stack.enter_context(_watcher(binary, port, ports[0])) for port in servers.free_ports(3)]
        made = Sentinels([master, replica], watchers)
        made.until_replicated()
        for watcher in watchers:
            until("Sentinels that know each other", lambda watcher=watcher: _knows(watcher))  # type: ignore[misc]
        yield made


def replicated(row: dict[str, str]) -> bool:
    words = dict(word.split("=", 1) for word in row.get("slave0", "").split(",") if "=" in word)
    return words.get("state") == "online" and words.get("offset") == row["master_repl_offset"]


def _knows(watcher: Running) -> bool:
    row = watcher.ask("SENTINEL", "MASTER", MASTER)
    assert isinstance(row, list)
    words = [word.decode() for word in row if isinstance(word, bytes)]
    found = dict(zip(words[::2], words[1::2], strict=False))
    return found.get("num-other-sentinels") == "2" and found.get("num-slaves") == "1"


@contextmanager
def _watcher(binary: Path, port: int, master: int) -> Iterator[Running]:
    with servers.short_folder() as folder:
        settings = folder / "sentinel.conf"
        settings.write_text(
            f"port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_MS}\nsentinel failover-timeout {MASTER} 5000\n"
        )
        running = Running(folder, [str(binary), str(settings), "--sentinel"], (servers.LOOPBACK, port))
        try:
            yield running
        finally:
            running.stop()


@dataclass
class BigCluster:
    """Masters and their replicas; ``nodes[i + 3]`` begins as the replica of ``nodes[i]``."""

    nodes: list[Running]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{port_of(one)}" for one in self.nodes[:3])

    def role(self, node: Running) -> str:
        return told(node, "INFO", "replication")["role"]

    def until_whole(self) -> None:
        """All slots served, every master with its replica."""
        alive = [node for node in self.nodes if node.alive]
        for node in alive:
            until("a whole Cluster", lambda node=node: told(node, "CLUSTER", "INFO").get("cluster_state") == "ok")  # type: ignore[misc]

    def owner_of(self, key: bytes) -> Running:
        """The node that serves a key."""
        from redis.crc import key_slot

        slot = key_slot(key)
        asked = next(node for node in self.nodes if node.alive)
        rows = asked.ask("CLUSTER", "SLOTS")
        assert isinstance(rows, list)
        row = next(row for row in rows if isinstance(row, list) and row[0] <= slot <= row[1])  # type: ignore[operator]
        return next(node for node in self.nodes if port_of(node) == row[2][1])  # type: ignore[index]


@contextmanager
def big_cluster() -> Iterator[BigCluster]:
    binary = servers.valkey_binary()
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", "--repl-diskless-sync-delay", "0")
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(servers.server(binary, port=port, options=options)) for port in servers.free_ports(6)
        ]
        share = -(-servers.SLOTS // 3)
        for i, node in enumerate(nodes[:3]):
            last = min((i + 1) * share, servers.SLOTS) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(i * share), str(last))
        for i, node in enumerate(nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(i + 1))
            node.ask("CLUSTER", "MEET", servers.LOOPBACK, str(port_of(nodes[0])))
        for node in nodes:
            until("six nodes", lambda node=node: told(node, "CLUSTER", "INFO").get("cluster_known_nodes") == "6")  # type: ignore[misc]
        for master, replica in zip(nodes[:3], nodes[3:], strict=True):
            name = master.ask("CLUSTER", "MYID")
            assert isinstance(name, bytes)
            until("a replica", lambda r=replica, n=name: r.ask("CLUSTER", "REPLICATE", n.decode()) == b"OK")  # type: ignore[misc]
        made = BigCluster(nodes)
        for node in nodes[3:]:
            until(
                "a linked replica",
                lambda node=node: told(node, "INFO", "replication").get("master_link_status") == "up",
            )  # type: ignore[misc]
        made.until_whole()
        yield made
