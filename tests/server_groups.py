"""Several servers that belong together, for the tests: real ones, private, gone when the test is over.

    sentinels()     a master, a replica or more, and three Sentinels that fail over within two seconds
    big_cluster()   three masters, each with a replica

The rules of ``servers.py`` hold: own folders, free ports, stopped by pid, and all data servers carry the mark of the
imaginary clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
import trustme

import servers
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S

MASTER = "tarry-master"
DOWN_MS = 1000
AT_ONCE = ("--repl-diskless-sync-delay", "0")  # a master waits 5 s otherwise, for more replicas to ask
CLUSTER = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500", *AT_ONCE)


def until(what: str, is_so: Callable[[], bool]) -> None:
    """Asks again until it is so."""
    for _ in plain_client.backoff_delays(LONGEST_S):
        with suppress(plain_client.ErrorReply, OSError):  # it is slow, or hangs up just then
            if is_so():
                return
    pytest.fail(f"{what}: not within {LONGEST_S} s")


def port_of(running: ServerProcess) -> int:
    assert not isinstance(running.address, str)
    return running.address[1]


class Plain:
    """How the servers of a constellation speak to each other and to clients: without TLS."""

    scheme, query = "redis", ""

    def options(self, running_at: int) -> tuple[str, ...]:  # noqa: ARG002  # with TLS it is remembered
        return ()

    def port_of(self, running: ServerProcess) -> int:
        """The port that they tell of."""
        return port_of(running)


class Tls(Plain):
    """With TLS, at a second port of each; the tests themselves ask at the first one."""

    scheme = "rediss"

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        authority = trustme.CA()
        self.authority = folder / "ca.pem"
        self._certificate = folder / "server.pem"
        authority.cert_pem.write_to_path(self.authority)
        authority.issue_cert(host).private_key_and_cert_chain_pem.write_to_path(self._certificate)
        self.query = f"?ssl_ca_certs={self.authority}"
        self._ports: dict[int, int] = {}

    def options(self, running_at: int) -> tuple[str, ...]:
        self._ports[running_at] = servers.free_ports(1)[0]
        pairs = {
            "tls-port": self._ports[running_at], "tls-auth-clients": "no", "tls-cert-file": self._certificate,
            "tls-key-file": self._certificate, "tls-ca-cert-file": self.authority, "tls-replication": "yes",
            "tls-cluster": "yes",
        }  # fmt: skip
        return tuple(word for name, value in pairs.items() for word in (f"--{name}", str(value)))

    def port_of(self, running: ServerProcess) -> int:
        return self._ports[port_of(running)]


PLAIN = Plain()


def ask_fields(running: ServerProcess, *words: str) -> dict[str, str]:
    """An answer of lines ``name:value``."""
    text = running.ask(*words)
    assert isinstance(text, bytes), text
    return dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)


@dataclass
class Sentinels:
    """A master, its replicas, and who watches them."""

    data: list[ServerProcess]
    watchers: list[ServerProcess]
    transport: Plain = PLAIN

    @property
    def hosts(self) -> str:
        return ",".join(f"127.0.0.1:{self.transport.port_of(one)}" for one in self.watchers)

    @property
    def url(self) -> str:
        return f"{self.transport.scheme}+sentinel://{self.hosts}/{MASTER}{self.transport.query}"

    def master(self) -> ServerProcess:
        """Whom the first Sentinel that lives calls master."""
        watcher = next(one for one in self.watchers if one.alive)
        found = watcher.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER)
        assert isinstance(found, list)
        return next(one for one in self.data if self.transport.port_of(one) == int(found[1]))  # type: ignore[arg-type]

    def until_replicated(self) -> None:
        """The replicas have what the master has."""
        others = len(self.data) - 1
        until(
            "replicas that have everything",
            lambda: replicated(ask_fields(self.master(), "INFO", "replication"), others),
        )

    @contextmanager
    def switching(self, how: str = "") -> Iterator[Switch]:
        """From the order to switch in good order until the last Sentinel has announced it."""
        with ExitStack() as stack:
            subscribers = [stack.enter_context(_ear(self.transport.port_of(one))) for one in self.watchers]
            threads = ThreadPoolExecutor(len(subscribers))
            stack.callback(threads.shutdown)
            switch = Switch(self.master(), [threads.submit(_announced, ear) for ear in subscribers])
            order = f"SENTINEL FAILOVER {MASTER} {how}".split()
            until("a Sentinel that may switch", lambda: self.watchers[0].ask(*order) == b"OK")
            yield switch
            switch.until_announced()


@dataclass
class Switch:
    """Who was master before, and when each of the Sentinels announced another, by ``time.monotonic``."""

    old: ServerProcess
    heard: list[Future[float]]

    def until_announced(self) -> float:
        """When the first of them did."""
        return min(one.result() for one in self.heard)

    @property
    def announced(self) -> bool:
        return all(one.done() for one in self.heard)


@contextmanager
def _ear(port: int) -> Iterator[Any]:
    with redis.Redis(port=port) as asked, asked.pubsub(ignore_subscribe_messages=True) as ear:
        ear.subscribe("+switch-master")
        ear.get_message(timeout=LONGEST_S)  # it is subscribed
        yield ear


def _announced(ear: Any) -> float:
    for _ in plain_client.backoff_delays(LONGEST_S):
        if ear.get_message(timeout=0.05) is not None:
            return time.monotonic()
    pytest.fail(f"no Sentinel announced another master within {LONGEST_S} s")


@contextmanager
def sentinels(
    binary: Path | None = None, options: tuple[str, ...] = (), transport: Plain = PLAIN, replicas: int = 1
) -> Iterator[Sentinels]:
    binary = binary or servers.valkey_binary()
    with ExitStack() as stack:
        ports = servers.free_ports(1 + replicas)
        mine = (*options, *AT_ONCE, *transport.options(ports[0]))
        master = stack.enter_context(servers.server(binary, port=ports[0], options=mine))
        data = [master]
        for port in ports[1:]:
            its = (
                *options,
                *AT_ONCE,
                *transport.options(port),
                "--replicaof",
                f"127.0.0.1 {transport.port_of(master)}",
            )
            data.append(stack.enter_context(servers.server(binary, port=port, options=its)))
        watchers = [
            stack.enter_context(_watcher(binary, port, transport.port_of(master), transport))
            for port in servers.free_ports(3)
        ]
        made = Sentinels(data, watchers, transport)
        made.until_replicated()
        for watcher in watchers:
            until("Sentinels that know each other", lambda watcher=watcher: _knows(watcher, replicas))  # type: ignore[misc]
        yield made


def replicated(row: dict[str, str], by: int = 1) -> bool:
    """Whether so many replicas have all that a master has, as it says."""
    said = [
        dict(word.split("=", 1) for word in row.get(f"slave{at}", "").split(",") if "=" in word) for at in range(by)
    ]
    return all(one.get("state") == "online" and one.get("offset") == row["master_repl_offset"] for one in said)


def _knows(watcher: ServerProcess, replicas: int) -> bool:
    row = watcher.ask("SENTINEL", "MASTER", MASTER)
    assert isinstance(row, list)
    words = [word.decode() for word in row if isinstance(word, bytes)]
    found = dict(zip(words[::2], words[1::2], strict=False))
    return found.get("num-other-sentinels") == "2" and found.get("num-slaves") == str(replicas)


@contextmanager
def _watcher(binary: Path, port: int, master: int, transport: Plain) -> Iterator[ServerProcess]:
    with servers.short_folder() as folder:
        settings = folder / "sentinel.conf"
        options = iter(transport.options(port))
        secure = "".join(f"{name.removeprefix('--')} {next(options)}\n" for name in options)
        settings.write_text(
            f"{secure}port {port}\nbind 127.0.0.1\nsentinel monitor {MASTER} 127.0.0.1 {master} 2\n"
            f"sentinel down-after-milliseconds {MASTER} {DOWN_MS}\nsentinel failover-timeout {MASTER} 5000\n"
        )
        running = ServerProcess(folder, [str(binary), str(settings), "--sentinel"], (servers.LOOPBACK, port))
        try:
            yield running
        finally:
            running.kill()


@dataclass
class BigCluster:
    """Masters and their replicas; ``nodes[i + 3]`` begins as the replica of ``nodes[i]``."""

    nodes: list[ServerProcess]
    transport: Plain = PLAIN

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{self.transport.port_of(one)}" for one in self.nodes[:3])
        return f"{self.transport.scheme}+cluster://{hosts}{self.transport.query}"

    def role(self, node: ServerProcess) -> str:
        return ask_fields(node, "INFO", "replication")["role"]

    def until_whole(self) -> None:
        """All slots served, every master with its replica."""
        alive = [node for node in self.nodes if node.alive]
        for node in alive:
            until("a whole Cluster", lambda node=node: ask_fields(node, "CLUSTER", "INFO").get("cluster_state") == "ok")  # type: ignore[misc]

    def follows(self, node: ServerProcess, master: ServerProcess) -> bool:
        """Whether it is a replica of that master."""
        row = ask_fields(node, "INFO", "replication")
        return row["role"] == "slave" and int(row["master_port"]) == self.transport.port_of(master)

    def slots_of(self, master: ServerProcess) -> set[int]:
        rows = master.ask("CLUSTER", "SLOTS")
        assert isinstance(rows, list)
        mine = [row for row in rows if row[2][1] == port_of(master)]  # type: ignore[index]
        return {slot for row in mine for slot in range(row[0], row[1] + 1)}  # type: ignore[index,operator,misc]

    def owner_of(self, key: bytes) -> ServerProcess:
        """The node that serves a key."""
        from redis.crc import key_slot

        slot = key_slot(key)
        asked = next(node for node in self.nodes if node.alive)
        rows = asked.ask("CLUSTER", "SLOTS")
        assert isinstance(rows, list)
        row = next(row for row in rows if isinstance(row, list) and row[0] <= slot <= row[1])  # type: ignore[operator]
        return next(node for node in self.nodes if port_of(node) == row[2][1])  # type: ignore[index]


@contextmanager
def big_cluster(
    binary: Path | None = None, transport: Plain = PLAIN, options: tuple[str, ...] = ()
) -> Iterator[BigCluster]:
    binary = binary or servers.valkey_binary()
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(
                servers.server(binary, port=port, options=(*CLUSTER, *options, *transport.options(port)))
            )
            for port in servers.free_ports(6)
        ]
        share = -(-servers.SLOTS // 3)
        for i, node in enumerate(nodes[:3]):
            last = min((i + 1) * share, servers.SLOTS) - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(i * share), str(last))
        for i, node in enumerate(nodes):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(i + 1))
            node.ask("CLUSTER", "MEET", servers.LOOPBACK, str(transport.port_of(nodes[0])))
        for node in nodes:
            until("six nodes", lambda node=node: ask_fields(node, "CLUSTER", "INFO").get("cluster_known_nodes") == "6")  # type: ignore[misc]
        for master, replica in zip(nodes[:3], nodes[3:], strict=True):
            name = master.ask("CLUSTER", "MYID")
            assert isinstance(name, bytes)
            until("a replica", lambda r=replica, n=name: r.ask("CLUSTER", "REPLICATE", n.decode()) == b"OK")  # type: ignore[misc]
        made = BigCluster(nodes, transport)
        for node in nodes[3:]:
            until(
                "a linked replica",
                lambda node=node: ask_fields(node, "INFO", "replication").get("master_link_status") == "up",
            )  # type: ignore[misc]
        made.until_whole()
        yield made
