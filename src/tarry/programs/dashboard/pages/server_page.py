"""The page of the server: memory, persistence, eviction, clock. On a Cluster, of every node that has slots."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tarry.internal import Node, NodeReader, address_of, ask_servers
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.sections import Section
from tarry.programs.serving.conditions import ServerFacts, facts_of


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The assessment of a server, and more of its INFO."""

    node: Node
    role: str
    up: timedelta
    saved: timedelta | None
    fragmentation: str
    clients: str
    per_second: str
    skew: timedelta


@dataclass(frozen=True, slots=True)
class ServersHealth:
    """All servers behind a URL by their addresses: one, or the nodes of a Cluster."""

    nodes: dict[str, NodeHealth]

    @property
    def notes(self) -> list[str]:
        """Each note once, with its subject: the server, or the nodes it is about."""
        places_of: dict[str, list[str]] = {}
        for place, one in self.nodes.items():
            for note in one.node.notes:
                places_of.setdefault(note, []).append(place)
        several = len(self.nodes) > 1
        return [f"{', '.join(places) if several else 'The server'}: {note}" for note, places in places_of.items()]

    @property
    def versions(self) -> str:
        return _each(one.node.version for one in self.nodes.values())

    @property
    def policies(self) -> str:
        return _each(one.node.policy for one in self.nodes.values())

    @property
    def persistence(self) -> str:
        return _each(one.node.persistence for one in self.nodes.values()) or "persistence unknown"

    @property
    def memory(self) -> int:
        return sum(one.node.memory or 0 for one in self.nodes.values())

    @property
    def max_memory(self) -> int | None:
        """``None`` if any of them has no limit."""
        limits = [one.node.max_memory for one in self.nodes.values()]
        return sum(filter(None, limits)) if all(limits) else None

    @property
    def skew(self) -> timedelta:
        """The largest difference of a server's clock to this machine's."""
        return max((one.skew for one in self.nodes.values()), key=abs)

    @property
    def facts(self) -> ServerFacts:
        """Their facts for the conditions of topics."""
        return facts_of(one.node for one in self.nodes.values())


def _each(values: Any) -> str:
    return ", ".join(dict.fromkeys(word for word in values if word))


async def health(visit: PageRequest) -> ServersHealth:
    """Reads and assesses every server."""
    reader = NodeReader(cluster=address_of(visit.client).kind == "cluster")
    found = await ask_servers(visit.client, reader.read)
    return ServersHealth({place: _health_of(node) for place, node in sorted(found.items())})


def _health_of(node: Node) -> NodeHealth:
    ahead_ms, info = node.clock_ms or 0.0, node.info
    saved = info.get("rdb_last_save_time", "")
    return NodeHealth(
        node=node,
        role=info.get("role", "?"),
        up=timedelta(seconds=int(info.get("uptime_in_seconds", 0))),
        saved=timedelta(seconds=max(time.time() + ahead_ms / 1000 - int(saved), 0))
        if saved.isdigit() and node.persistence == "snapshots"
        else None,
        fragmentation=info.get("mem_fragmentation_ratio", "?"),
        clients=info.get("connected_clients", "?"),
        per_second=info.get("instantaneous_ops_per_sec", "?"),
        # it cannot be measured more precisely than a round trip
        skew=timedelta(milliseconds=0.0 if abs(ahead_ms) < node.answer_ms else ahead_ms),
    )


async def view(visit: PageRequest) -> dict[str, Any]:
    return {"health": await health(visit), "dashboard": visit.dashboard}


SECTIONS = (Section("/server", "server.html", view, title="Server"),)
