"""Reads the state of each server behind a client, for ``tarry doctor``; one line of text each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tarry.internal import NodeReader, address_of, ask_servers

if TYPE_CHECKING:
    from tarry import Client
    from tarry.internal import Node

PINGS = 5


def read_nodes(client: Client) -> dict[str, Node]:
    """Every server of a client, by its address."""
    kind = address_of(client).kind
    reader = NodeReader(cluster=kind == "cluster", watched=kind == "sentinel")
    return ask_servers(client, partial(reader.read, pings=PINGS))


def as_text(node: Node) -> str:
    """``Valkey 9.0.1, noeviction, append-only file, 1.2 MB; answers in 0.12 ms, clock +0.3 ms``"""
    memory = None if node.memory is None else f"{node.memory / 1e6:.1f} MB"
    data = ", ".join(part for part in (node.version, node.policy, node.persistence, memory) if part)
    clock = "" if node.clock_ms is None else f", clock {node.clock_ms:+.1f} ms"
    return f"{data}; answers in {node.answer_ms:.2f} ms{clock}" + "".join(f"; {note}" for note in node.notes)
