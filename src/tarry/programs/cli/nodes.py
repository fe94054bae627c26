"""Reads the state of each server behind a client, for ``tarry doctor``; one line of text each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any, Protocol

from tarry.internal import address_of, ask_servers, faults, fitness, health

if TYPE_CHECKING:
    from tarry import Client

PINGS = 5


class AskedServer(Protocol):
    """A server behind a client."""

    def exchange(self, commands: Sequence[tuple[bytes, ...]]) -> list[Any]:
        """Sends commands, and returns their replies."""
        ...


def read_nodes(client: Client) -> dict[str, health.Node]:
    """Every server of a client, by its address."""
    kind = address_of(client).kind
    return ask_servers(client, lambda server: read_node(server, cluster=kind == "cluster", watched=kind == "sentinel"))


def read_node(server: AskedServer, *, cluster: bool, watched: bool = False) -> health.Node:
    """Reads one server; ``watched`` if Sentinels watch it. Raises a ``Fault`` when it does not answer."""
    replies = server.exchange(fitness.probe_commands())
    if fitness.wants_save(replies):
        replies += server.exchange((fitness.SAVE,))
    info, save, scripting = fitness.parse_probe(replies)
    spans: list[float] = []
    for _ in range(PINGS):
        began = time.perf_counter()
        server.exchange(((b"PING",),))
        spans.append((time.perf_counter() - began) * 1000)
    node = health.assess_node(info, save, scripting, cluster=cluster, answer_ms=median(spans), clock_ms=_clock(server))
    found = health.alone(info, _settings(server)) if watched else []
    loses_jobs = node.loses_jobs or any(note != health.UNREADABLE for note in found)
    return replace(node, notes=(*node.notes, *found), loses_jobs=loses_jobs)


def _settings(server: AskedServer) -> dict[str, str] | None:
    """Its settings about replicas; ``None`` if this user may not read them."""
    [reply] = server.exchange(((b"CONFIG", b"GET", b"min-replicas-*"),))
    if not isinstance(reply, list):
        return None
    words = [word.decode() for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


def as_text(node: health.Node) -> str:
    """``Valkey 9.0.1, noeviction, append-only file, 1.2 MB; answers in 0.12 ms, clock +0.3 ms``"""
    memory = None if node.memory is None else f"{node.memory / 1e6:.1f} MB"
    data = ", ".join(part for part in (node.version, node.policy, node.persistence, memory) if part)
    clock = "" if node.clock_ms is None else f", clock {node.clock_ms:+.1f} ms"
    return f"{data}; answers in {node.answer_ms:.2f} ms{clock}" + "".join(f"; {note}" for note in node.notes)


def _clock(server: AskedServer) -> float | None:
    """The difference of the server's clock to ours in ms, assuming it was read in the middle of the round trip."""
    before = time.time()
    [reply] = server.exchange(((b"TIME",),))
    after = time.time()
    if isinstance(reply, faults.Fault):
        return None
    server_time: Any = int(reply[0]) + int(reply[1]) / 1e6
    return round(float(server_time - (before + after) / 2) * 1000, 3)
