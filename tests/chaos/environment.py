"""The servers of a run, and what can be done to them. All of them are those of the tests' fixtures.

A fault is a function of (run, dice): it does its harm, waits, mends it, and writes down what it may have cost:

    undone   what was acknowledged in this span may be forgotten, by the promise that is named
    broken   calls in this span may have been sent twice, or their answers lost
    healed   from here on jobs are to be handed out again
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

import server_groups
import servers
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess

from . import history
from .faults import Faults
from .history import BODILESS, DEAD, DUE, PLACELESS, RESERVED, clock

if TYPE_CHECKING:
    from .run import Run

SECOND = 1_000_000
EVERYSEC_US = 2 * SECOND
"""What `appendfsync everysec` may lose, as its own documentation says: two seconds at worst."""
AFTER_US = 6 * SECOND
"""A client that nobody answers notices it after five seconds, and asks again then."""
REPLICATION_US = 1 * SECOND
"""What a master had acknowledged and not passed on when it died."""
SWITCHED_US = 1 * SECOND
"""So long after a switch of masters a client may still speak to the old one."""
AOF = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--enable-debug-command", "local")
NAMESPACE = "chaos"
FAR_US = 60 * SECOND
LIBFAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class Missing(Exception):
    """This machine cannot run it: what is missing."""


@dataclass
class Environment:
    """What is there."""

    url: str
    nodes: list[ServerProcess]
    proxy: Proxy | None = None
    worker_proxies: list[Proxy] = field(default_factory=list)
    """One for each worker, so that all others keep their connections."""
    sentinels: server_groups.Sentinels | None = None
    cluster: server_groups.BigCluster | None = None
    zookeeper: Any = None
    clock_file: Path | None = None
    disk: Path | None = None
    other_url: str = ""
    env: dict[str, str] = field(default_factory=dict)

    def masters(self) -> list[ServerProcess]:
        """Those that hold jobs, each once."""
        if self.sentinels is not None:
            return [self.sentinels.master()]
        if self.cluster is not None:
            return [node for node in self.nodes if self.cluster.role(node) == "master"]
        return self.nodes


class Proxy:
    """The process between the clients and a server; see proxy.py."""

    def __init__(self, target: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("proxy.py")), "0", str(target)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def do(self, order: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(order + "\n")
        assert self._process.stdout.readline() == "ok\n", order

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# ── scenes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def binary(kind: str, stack: ExitStack) -> Path:
    return servers.binary_of(kind, stack.enter_context(servers.short_folder()))


def options(kind: str) -> tuple[str, ...]:
    return AOF if kind in ("valkey", "redis8", "redis7") else AOF[:-2]


@contextmanager
def one_server(kind: str = "valkey", *more: str) -> Iterator[Environment]:
    with ExitStack() as stack:
        program = binary(kind, stack)
        node = stack.enter_context(
            servers.server(program, port=servers.free_ports(1)[0], options=(*options(kind), *more))
        )
        yield Environment(node.url, [node])


@contextmanager
def proxied() -> Iterator[Environment]:
    with one_server() as environment:
        proxy = Proxy(server_groups.port_of(environment.nodes[0]))
        try:
            environment.proxy, environment.url = proxy, proxy.url
            yield environment
        finally:
            proxy.close()


@contextmanager
def proxied_workers(workers: int) -> Iterator[Environment]:
    with one_server() as environment, ExitStack() as stack:
        for _ in range(workers):
            proxy = Proxy(server_groups.port_of(environment.nodes[0]))
            stack.callback(proxy.close)
            environment.worker_proxies.append(proxy)
        yield environment


@contextmanager
def under_sentinels(min_replicas: int) -> Iterator[Environment]:
    more = ("--min-replicas-to-write", str(min_replicas), "--min-replicas-max-lag", "2") if min_replicas else ()
    with server_groups.sentinels(options=(*AOF, *more)) as made:
        yield Environment(made.url, [*made.data, *made.watchers], sentinels=made)


@contextmanager
def a_cluster() -> Iterator[Environment]:
    with server_groups.big_cluster(options=AOF) as made:
        yield Environment(made.url, made.nodes, cluster=made)


@contextmanager
def faked_clock() -> Iterator[Environment]:
    if not LIBFAKETIME.exists():
        raise Missing("libfaketime (apt install libfaketime)")
    with servers.short_folder() as folder:
        file = folder / "clock"
        file.write_text("+0\n")
        faked = {
            "LD_PRELOAD": str(LIBFAKETIME), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip
        os.environ.update(faked)
        try:
            with one_server() as environment:
                for name in faked:
                    os.environ.pop(name, None)
                environment.clock_file = file
                yield environment
        finally:
            for name in faked:
                os.environ.pop(name, None)


@contextmanager
def small_disk() -> Iterator[Environment]:
    """Its append-only file lies on a small disk of its own; needs a mount namespace, see confined.py."""
    with servers.short_folder() as folder:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=700m", "tarry", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if mounted.returncode:
            raise Missing(f"the right to mount a file system ({mounted.stderr.strip()})")
        try:
            with one_server("valkey", "--dir", str(folder)) as environment:
                environment.disk = folder
                yield environment
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=False)


@contextmanager
def two_servers() -> Iterator[Environment]:
    with one_server() as one, one_server() as other:
        yield Environment(one.url, [*one.nodes, *other.nodes], other_url=other.url)


@contextmanager
def with_zookeeper() -> Iterator[Environment]:
    import zookeepers

    with one_server() as environment, zookeepers.server() as keeper:
        environment.zookeeper = keeper
        yield environment


# ── what there is at the end ─────────────────────────────────────────────────────────────────────────────────────────

KEY = re.compile(rb"tarry:\{" + NAMESPACE.encode() + rb"/([^}]+)\}:(\w+)$")


def line_to(node: ServerProcess) -> Any:
    assert not isinstance(node.address, str)
    return redis.Redis(*node.address, socket_timeout=20)


def process_specs(line: Any) -> dict[bytes, dict[str, bytes]]:
    """The keys of each topic (or partition) on a server, by what is in them."""
    found: dict[bytes, dict[str, bytes]] = {}
    for key in line.scan_iter(match="tarry:*", count=1000):
        if match := KEY.match(key):
            found.setdefault(match[1], {})[match[2].decode()] = key
    return found


def unsettled(environment: Environment) -> tuple[int, int]:
    """How many jobs are still to be handed out within a minute, or are in somebody's hands; and how many of them are due."""
    soon = due = 0
    for node in environment.masters():
        with line_to(node) as line:
            seconds, rest = line.time()
            now = seconds * SECOND + rest
            for keys in process_specs(line).values():
                for name in ("due", "reserved", "items"):
                    if name in keys and line.type(keys[name]) == b"zset":
                        soon += line.zcount(keys[name], "-inf", now + FAR_US)
                        due += line.zcount(keys[name], "-inf", now)
    return soon, due


def inventory(environment: Environment, book: history.History) -> list[str]:
    """Writes down every job that is there, and where. Answers what else was odd."""
    odd = []
    for node in environment.masters():
        with line_to(node) as line:
            for number, (name, keys) in enumerate(sorted(process_specs(line).items())):
                if "items" in keys:
                    _items(line, keys["items"], book)
                    continue
                _jobs(line, number, keys, book)
                for left in ("leaving", "moving"):
                    if left in keys and line.hlen(keys[left]):
                        odd += [f"{name.decode()}: {line.hlen(keys[left])} still {left}"]
    return odd


def _items(line: Any, key: bytes, book: history.History) -> None:
    for member, score in line.zscan_iter(key, count=1000):
        if found := re.search(rb'"([0-9a-f]+)"$', member):
            book.saw(history.KEPT, 0, clock(), (int(found[1], 16), DUE, int(score), 0))


def _jobs(line: Any, number: int, keys: dict[str, bytes], book: history.History) -> None:
    created: dict[bytes, int] = {}
    if (
        "jobs" in keys and line.type(keys["jobs"]) == b"hash"
    ):  # the name of a topic with partitions is guarded by a text
        for id, value in line.hscan_iter(keys["jobs"], count=1000):
            created[id] = int.from_bytes(value[:7], "little")
    cells: list[int] = []
    placed: set[bytes] = set()
    for name, place in (("due", DUE), ("keyed", DUE), ("reserved", RESERVED), ("dead", DEAD)):
        if name in keys:
            for id, score in line.zscan_iter(keys[name], count=1000):
                placed.add(id)
                cells += (int(id, 16), place if id in created else BODILESS, int(score), created.get(id, 0))
    for id in created.keys() - placed:
        cells += (int(id, 16), PLACELESS, 0, created[id])
    for at in range(0, len(cells), 40_000):
        book.saw(history.KEPT, number, clock(), cells[at : at + 40_000])


MAY_STAY = {"meta", "fence"}
FOR_EVER = -1


def keys_left(environment: Environment) -> list[str]:
    """Keys without an expiry that a purge should have taken."""
    left = []
    for node in environment.masters():
        with line_to(node) as line:
            rest = [key for keys in process_specs(line).values() for what, key in keys.items() if what not in MAY_STAY]
            # what has an expiry goes by itself; a text guards the name of a topic with partitions
            left += [key.decode() for key in rest if line.ttl(key) == FOR_EVER and line.type(key) != b"string"]
    return left


# ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────────────

Fault = Callable[["Run", random.Random], None]


def healed(run: Run, name: str, since: int, after_us: int = AFTER_US) -> None:
    now = clock()
    run.journal.note("broken", since=since - SECOND // 10, until=now + after_us, name=name)
    run.journal.note("healed", at=now, name=name)


def _restart(run: Run, node: ServerProcess) -> None:
    for turn in range(40):  # a server that is killed while it starts, a port that is still held
        try:
            node.restart()
            break
        except Exception:  # tried again
            if turn == 39:
                raise
            time.sleep(0.25)
    run.keeper.keep(node.pid)


def server_killed(run: Run, dice: random.Random) -> None:
    node = dice.choice(run.environment.masters())
    since = clock()
    node.kill()
    run.rest(dice.uniform(0.02, 1.0))
    _restart(run, node)
    run.journal.note("undone", since=since - EVERYSEC_US, until=since + SECOND // 20, name="everysec")
    healed(run, "server killed", since)


def tail_torn(run: Run, dice: random.Random) -> None:
    """The last bytes of the append-only file are not there when the server starts again."""
    node = run.environment.nodes[0]
    since = clock()
    node.kill()
    files = sorted(node.folder.glob("appendonlydir/*.incr.aof"), key=lambda path: path.stat().st_mtime)
    files = files or sorted(node.folder.glob("*.aof"))
    size = files[-1].stat().st_size
    os.truncate(files[-1], max(size - dice.randrange(1, 300), 0))
    run.rest(dice.uniform(0.02, 0.5))
    _restart(run, node)
    run.journal.note("undone", since=since - EVERYSEC_US, until=since + SECOND // 20, name="torn tail")
    healed(run, "tail torn", since)


def frozen_server(run: Run, dice: random.Random) -> None:
    node = dice.choice(run.environment.masters())
    since = clock()
    node.freeze()
    run.rest(dice.choice((0.3, 1.0, 2.5, 6.0)))
    node.resume()
    healed(run, "server frozen", since)


def client_killed(run: Run, dice: random.Random) -> None:
    pids = run.processes.pids("producer", "consumer", "manager", "worker", "pusher", "poller", "locker")
    pid = dice.choice(sorted(pids))
    since = clock()
    if run.processes.spec(pid).role == "worker" and dice.random() < 0.6:
        run.processes.kill_child(pid, dice)
    else:
        run.processes.kill(pid, dice.uniform(0.05, 1.0))
    healed(run, "process killed", since, 0)


def all_of_a_role_killed(run: Run, dice: random.Random) -> None:
    role = dice.choice(("consumer", "producer", "worker"))
    since = clock()
    for pid in run.processes.pids(role):
        run.processes.kill(pid, dice.uniform(0.05, 1.0))
    healed(run, f"all {role}s killed", since, 0)


def service_killed(run: Run, dice: random.Random) -> None:
    since = clock()
    for pid in run.processes.pids("service"):
        run.processes.kill(pid, 0.1)
    run.rest(1.5)
    healed(run, "service killed", since)


def client_frozen(run: Run, dice: random.Random) -> None:
    roles = dice.choice((("producer",), ("consumer",), ("worker",), ("service",), ("manager",)))
    pids = sorted(run.processes.pids(*roles))
    if not pids:
        return
    chosen = dice.sample(pids, dice.randrange(1, len(pids) + 1))
    since = clock()
    for pid in chosen:
        run.processes.signal(pid, signal.SIGSTOP)
    run.rest(dice.choice((0.3, 1.0, 4.0, 6.0)))
    for pid in chosen:
        run.processes.signal(pid, signal.SIGCONT)
    healed(run, f"{roles[0]} frozen", since)


def _proxy_of(run: Run) -> Proxy:
    assert run.environment.proxy is not None
    return run.environment.proxy


def line_slow(run: Run, dice: random.Random) -> None:
    since = clock()
    _proxy_of(run).do(f"delay {dice.choice((5, 20, 100, 400))}")
    run.rest(dice.uniform(1, 4))
    _proxy_of(run).do("delay 0")
    healed(run, "line slow", since)


def line_cut(run: Run, dice: random.Random) -> None:
    since = clock()
    for _ in range(dice.randrange(1, 12)):
        _proxy_of(run).do("cut")
        run.rest(0.2)
    healed(run, "line cut", since)


def line_reset(run: Run, dice: random.Random) -> None:
    since = clock()
    for _ in range(dice.randrange(1, 12)):
        _proxy_of(run).do("reset")
        run.rest(0.2)
    healed(run, "line reset", since)


def line_half_open(run: Run, dice: random.Random) -> None:
    since = clock()
    _proxy_of(run).do("hold subscribed,blocked,commands")
    run.journal.note("healed", at=clock(), name="half-open")
    run.rest(7)
    healed(run, "half-open, 7 s later", since)


def line_refused(run: Run, dice: random.Random) -> None:
    since = clock()
    _proxy_of(run).do("refuse on")
    _proxy_of(run).do(dice.choice(("cut", "reset")))
    run.rest(dice.uniform(0.3, 3))
    _proxy_of(run).do("refuse off")
    healed(run, "line refused", since)


# ── Sentinels ────────────────────────────────────────────────────────────────────────────────────────────────────────


def masters_port(run: Run) -> int:
    """Whom the Sentinels call master; 0: nobody can say."""
    made = run.environment.sentinels
    assert made is not None
    with suppress(Exception):
        return server_groups.port_of(made.master())
    return 0


def _until_switched(run: Run, before: int, most_s: float = 20) -> int:
    """The moment at which the Sentinels name another master."""
    for _ in plain_client.backoff_delays(most_s, most_s=0.02):
        if masters_port(run) not in (0, before):
            break
    return clock()


def _until_followed(run: Run, since: int) -> None:
    """Every other server is a replica again, and its link is up. It never has everything: writes go on."""
    for _ in plain_client.backoff_delays(20, most_s=0.1):
        with suppress(Exception):
            master = masters_port(run)
            rows = [server_groups.ask_fields(node, "INFO", "replication") for node in run.environment.nodes]
            linked = [row for row in rows if row["role"] == "slave" and row["master_link_status"] == "up"]
            if len(linked) == len(rows) - 1 and all(row["master_port"] == str(master) for row in linked):
                break
    run.journal.note("replicated", at=clock(), since=since)


def sentinel_master_killed(run: Run, dice: random.Random) -> None:
    made = run.environment.sentinels
    assert made is not None
    old, before = made.master(), masters_port(run)
    since = clock()
    old.kill()
    switched = _until_switched(run, before)
    run.journal.note("undone", since=since - REPLICATION_US, until=switched + SWITCHED_US, name="replication lag")
    healed(run, "Sentinel: master killed", since)
    run.rest(dice.uniform(0.5, 3))
    _restart(run, old)
    run.journal.note("broken", since=since, until=clock() + AFTER_US, name="old master back")
    _until_followed(run, since)


def sentinel_master_frozen(run: Run, dice: random.Random) -> None:
    made = run.environment.sentinels
    assert made is not None
    old, before = made.master(), masters_port(run)
    since = clock()
    old.freeze()
    run.rest(dice.choice((0.4, 1.6, 3.0)))
    if masters_port(run) == before:
        old.resume()
        switched = _until_switched(run, before, 3)
    else:
        switched = clock()
        old.resume()
    run.journal.note("undone", since=since - REPLICATION_US, until=switched + SWITCHED_US, name="replication lag")
    healed(run, "Sentinel: master frozen", since)
    run.rest(2)
    _until_followed(run, since)


def sentinel_planned(run: Run, dice: random.Random) -> None:
    made = run.environment.sentinels
    assert made is not None
    before = masters_port(run)
    since = clock()
    for _ in range(40):
        try:
            made.watchers[0].ask("SENTINEL", "FAILOVER", server_groups.MASTER)
            break
        except plain_client.ErrorReply:
            run.rest(0.5)
    switched = _until_switched(run, before)
    if not run.family.min_replicas:
        run.journal.note("undone", since=since - SECOND // 10, until=switched + SWITCHED_US, name="planned switch")
    healed(run, "Sentinel: planned switch", since)
    run.rest(1)
    _until_followed(run, since)


# ── Cluster ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cluster(run: Run) -> server_groups.BigCluster:
    assert run.environment.cluster is not None
    return run.environment.cluster


def _whole(run: Run, since: int) -> None:
    with suppress(BaseException):
        _cluster(run).until_whole()
        for node in run.environment.nodes:
            if _cluster(run).role(node) == "slave":
                server_groups.until(
                    "a linked replica",
                    lambda node=node: (
                        server_groups.ask_fields(node, "INFO", "replication")["master_link_status"] == "up"
                    ),  # type: ignore[misc]
                )
    run.journal.note("whole", at=clock(), since=since)


def _served(run: Run, slots: set[int], but: ServerProcess, most_s: float = 20) -> int:
    """The moment at which somebody else serves what a master served."""
    for _ in plain_client.backoff_delays(most_s, most_s=0.03):
        for node in run.environment.nodes:
            with suppress(Exception):
                served = node is not but and node.alive and _cluster(run).slots_of(node) & slots
                if served and server_groups.ask_fields(node, "CLUSTER", "INFO")["cluster_state"] == "ok":
                    return clock()
    return clock()


def elections(log: str) -> Iterator[tuple[int, bool]]:
    """What a node's log says: when it was elected master, and whether CLUSTER FAILOVER had asked for it."""
    asked = -FAR_US
    for words in re.finditer(
        r"^\d+:\w (\d+ \w+ \d+ [\d:]+)\.(\d+) . (Manual failover user|Failover election won)", log, re.M
    ):
        at = int(time.mktime(time.strptime(words[1], "%d %b %Y %H:%M:%S"))) * SECOND + int(words[2]) * 1000
        if words[3].startswith("Manual"):
            asked = at
        else:
            yield at, at - asked < 10 * SECOND


def note_elections(run: Run) -> None:
    """A starved machine may make a Cluster elect another master when nobody asked for it: that excuses what a dead master
    excuses."""
    if run.environment.cluster is None:
        return
    known = Faults.read(run.journal.path)
    for node in run.environment.nodes:
        for at, asked in elections(node.log.read_text(errors="replace")):
            if asked or known.undone(at):
                continue
            run.done["cluster_switch_of_its_own"] += 1
            run.journal.note("undone", since=at - 2 * REPLICATION_US, until=at + SWITCHED_US, name="replication lag")
            run.journal.note("broken", since=at - 2 * SECOND, until=at + AFTER_US, name="a switch of its own")


def cluster_master_killed(run: Run, dice: random.Random) -> None:
    node = dice.choice(run.environment.masters())
    slots = _cluster(run).slots_of(node)
    if not slots:
        return
    since = clock()
    node.kill()
    served = _served(run, slots, node)
    run.journal.note("undone", since=since - REPLICATION_US, until=served + SWITCHED_US, name="replication lag")
    healed(run, "Cluster: master killed", since)
    run.rest(dice.uniform(0.2, 2))
    _restart(run, node)
    _whole(run, since)


def cluster_failover(run: Run, dice: random.Random) -> None:
    """An operator's CLUSTER FAILOVER: the two masters agree, and nothing may be lost."""
    masters = run.environment.masters()
    replicas = [n for n in run.environment.nodes if n not in masters]
    node = dice.choice(replicas)
    since = clock()
    with suppress(plain_client.ErrorReply):
        node.ask("CLUSTER", "FAILOVER")
    for _ in plain_client.backoff_delays(10):
        if _cluster(run).role(node) == "master":
            break
    healed(run, "Cluster: planned switch", since)
    _whole(run, since)


def cluster_slot_moved(run: Run, dice: random.Random) -> None:
    masters = [node for node in run.environment.masters() if _cluster(run).slots_of(node)]
    topic = dice.choice(run.family.topics)
    source = _cluster(run).owner_of(f"tarry:{{{NAMESPACE}/{topic}}}:due".encode())
    target = dice.choice([node for node in masters if node is not source])
    from redis.crc import key_slot

    slot = key_slot(f"{NAMESPACE}/{topic}".encode())
    since = clock()
    there, here = (str(bytes(node.ask("CLUSTER", "MYID")), "ascii") for node in (target, source))  # type: ignore[arg-type]
    target.ask("CLUSTER", "SETSLOT", str(slot), "IMPORTING", here)
    source.ask("CLUSTER", "SETSLOT", str(slot), "MIGRATING", there)
    while keys := source.ask("CLUSTER", "GETKEYSINSLOT", str(slot), "10"):
        assert isinstance(keys, list)
        words = [bytes(key).decode() for key in keys]  # type: ignore[arg-type]
        source.ask("MIGRATE", "127.0.0.1", str(server_groups.port_of(target)), "", "0", "5000", "KEYS", *words)
    for node in (target, source, *masters):
        node.ask("CLUSTER", "SETSLOT", str(slot), "NODE", there)
    healed(run, "Cluster: slot moved", since)


# ── what is scarce ───────────────────────────────────────────────────────────────────────────────────────────────────


def memory_full(run: Run, dice: random.Random) -> None:
    node = run.environment.nodes[0]
    used = int(server_groups.ask_fields(node, "INFO", "memory")["used_memory"])
    since = clock()
    node.ask("CONFIG", "SET", "maxmemory", str(max(used - dice.randrange(0, 400_000), 1_000_000)))
    run.rest(dice.uniform(0.5, 4))
    node.ask("CONFIG", "SET", "maxmemory", "0")
    healed(run, "memory full", since)


def disk_full(run: Run, dice: random.Random) -> None:
    disk, node = run.environment.disk, run.environment.nodes[0]
    assert disk is not None
    since = clock()
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        piece = b"\0" * (1 << 20)
        try:
            while True:
                file.write(piece)
                file.flush()
        except OSError:
            pass
        with suppress(OSError):
            while True:
                os.write(file.fileno(), b"\0" * 512)
        with suppress(OSError):
            file.close()
    run.rest(dice.uniform(1, 4))
    ballast.unlink()
    for _ in plain_client.backoff_delays(10):
        if server_groups.ask_fields(node, "INFO", "persistence").get("aof_last_write_status") == "ok":
            break
    healed(run, "disk full", since)


def clock_stepped(run: Run, dice: random.Random) -> None:
    assert run.environment.clock_file is not None
    step = dice.choice((-3600, 3600, -600, 600, -2, 2, 0.2, -0.2))
    since = clock()
    run.environment.clock_file.write_text(f"{step:+}\n")
    run.rest(dice.uniform(1, 5))
    run.environment.clock_file.write_text("+0\n")
    run.journal.note("stepped", at=since, until=clock(), by=step)
    healed(run, "clock stepped", since)


def packets_lost(run: Run, dice: random.Random) -> None:
    share = dice.choice((1, 3, 10, 25))
    since = clock()
    rule = f"add rule inet chaos out oifname lo tcp sport != 0 numgen random mod 100 < {share} counter drop"
    subprocess.run(["nft", rule], check=True, capture_output=True)
    run.rest(dice.uniform(2, 6))
    counted = subprocess.run(["nft", "list chain inet chaos out"], check=True, capture_output=True, text=True).stdout
    run.done["packets dropped"] += sum(int(n) for n in re.findall(r"packets (\d+)", counted))
    subprocess.run(["nft", "flush chain inet chaos out"], check=True, capture_output=True)
    healed(run, f"{share} % of packets lost", since, 3 * AFTER_US)


def prepare_packet_loss() -> None:
    from shutil import which

    if which("nft") is None:
        raise Missing("nftables (apt install nftables)")
    for words in ("add table inet chaos", "add chain inet chaos out { type filter hook output priority 0; }"):
        done = subprocess.run(["nft", words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"a kernel with nftables ({done.stderr.strip()})")


# ── ZooKeeper, migrations, upgrades ──────────────────────────────────────────────────────────────────────────────────


def zookeeper_restarted(run: Run, dice: random.Random) -> None:
    since = clock()
    run.environment.zookeeper.restart()
    healed(run, "ZooKeeper restarted", since)


def zookeeper_frozen(run: Run, dice: random.Random) -> None:
    since = clock()
    run.environment.zookeeper.signal(signal.SIGSTOP)
    run.rest(dice.choice((0.5, 1.5, 4)))
    run.environment.zookeeper.signal(signal.SIGCONT)
    healed(run, "ZooKeeper frozen", since)


def migrated(run: Run, dice: random.Random) -> None:
    """Begun again and again, killed in the middle now and then."""
    since = clock()
    for _ in range(dice.randrange(2, 5)):
        process = start_migration(run)
        try:
            process.wait(dice.choice((0.6, 1.0, 2.0, 6.0)))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    run.journal.note("migrated", at=since, until=clock())


def start_migration(run: Run) -> subprocess.Popen[bytes]:
    words = ["-m", "tarry", "--url", run.environment.url, "--namespace", NAMESPACE, "migrate", "old", "--to", "new"]
    words += ["--to-url", run.environment.other_url, "--partitions", "4"]
    with (run.folder / "migrate.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd="/")
    run.keeper.keep(process.pid)
    return process


def upgraded(run: Run, dice: random.Random) -> None:
    """One process of one version goes, and one of the other comes."""
    pids = sorted(run.processes.pids("producer", "consumer", "manager", "worker", "service"))
    pid = dice.choice(pids)
    spec = run.processes.spec(pid)
    since = clock()
    spec = type(spec)(spec.role, spec.told, older=not spec.older)
    if dice.random() < 0.4:
        run.processes.kill(pid, 1e9)
        run.processes.forget_last()
    else:
        run.processes.end(pid)
    run.processes.start(spec)
    run.rest(0.5)
    healed(run, "one of another version", since, AFTER_US if spec.role == "service" else 0)


def reachable(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
