"""Servers over TCP, and Clusters made of them, for rows that compare one with several."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess, launch
from tarry.connections.embedded.shared_server import DURABLE_OPTIONS
from tarry.connections.fitness import parse_info

SLOTS = 16384


@contextmanager
def cluster(masters: int) -> Iterator[list[ServerProcess]]:
    """A Cluster of ``masters`` masters, without replicas."""
    with servers(masters, "--cluster-enabled", "yes") as started:
        _form(started)
        yield started


@contextmanager
def servers(count: int, *options: str) -> Iterator[list[ServerProcess]]:
    """``count`` servers, each with the embedded server's settings and a port of its own."""
    with ExitStack() as stack:
        started: list[ServerProcess] = []
        for port in _ports(count):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp")))
            started.append(launch(folder, port=port, options=(*DURABLE_OPTIONS, *options)))
            stack.callback(started[-1].stop)
        yield started


def _ports(count: int) -> list[int]:
    """Free ports on loopback, each with its port for the Cluster's bus."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            listener, bus = (held.enter_context(socket.socket()) for _ in range(2))
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            if port + 10_000 < 65_536 and bus.connect_ex(("127.0.0.1", port + 10_000)):
                found.append(port)
        return found


def _form(masters: list[ServerProcess]) -> None:
    share = -(-SLOTS // len(masters))
    for number, node in enumerate(masters):
        last = min((number + 1) * share, SLOTS) - 1
        node.ask("CLUSTER", "ADDSLOTSRANGE", str(number * share), str(last))
        node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
        if number:
            node.ask("CLUSTER", "MEET", "127.0.0.1", str(port_of(masters[0])))
    for node in masters:
        for _ in plain_client.backoff_delays(20):
            about = node.ask("CLUSTER", "INFO")
            assert isinstance(about, bytes)
            if b"cluster_state:ok" in about and f"cluster_known_nodes:{len(masters)}".encode() in about:
                break


def port_of(server: ServerProcess) -> int:
    assert not isinstance(server.address, str)
    return server.address[1]


def cpu_s(server: ServerProcess) -> float:
    with plain_client.RespConnection.connect(server.address) as line:
        about = parse_info(line.call("INFO", "cpu"))
    return float(about["used_cpu_user"]) + float(about["used_cpu_sys"])
