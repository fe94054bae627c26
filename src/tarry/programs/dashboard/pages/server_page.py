"""The page of the server: memory, persistence, eviction, clock. On a Cluster, of every node that has slots."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tarry.internal import AsyncServer, address_of, ask_servers, fitness
from tarry.internal import health as node_health
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.sections import Section
from tarry.programs.serving.conditions import ServerFacts, facts_of


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """The assessment of a server, and more of its INFO."""

    node: node_health.Node
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
    cluster = address_of(visit.client).kind == "cluster"

    async def read_health(server: AsyncServer) -> NodeHealth:
        return await _read_node(server, cluster=cluster)

    return ServersHealth(dict(sorted((await ask_servers(visit.client, read_health)).items())))


async def _read_node(server: AsyncServer, *, cluster: bool) -> NodeHealth:
    began = time.perf_counter()
    replies = await server.exchange(fitness.probe_commands())
    answer_ms = (time.perf_counter() - began) * 1000
    if fitness.wants_save(replies):
        replies += await server.exchange((fitness.SAVE,))
    info, save, scripting = fitness.parse_probe(replies)
    before = time.time()
    [reply] = await server.exchange(((b"TIME",),))
    after = time.time()
    now = int(reply[0]) + int(reply[1]) / 1e6 if isinstance(reply, list) else (before + after) / 2
    ahead = now - (before + after) / 2
    skew = 0.0 if abs(ahead) < after - before else ahead  # it cannot be measured more precisely
    node = node_health.assess_node(info, save, scripting, cluster=cluster, answer_ms=answer_ms, clock_ms=skew * 1000)
    saved = info.get("rdb_last_save_time", "")
    return NodeHealth(
        node=node,
        role=info.get("role", "?"),
        up=timedelta(seconds=int(info.get("uptime_in_seconds", 0))),
        saved=timedelta(seconds=max(now - int(saved), 0))
        if saved.isdigit() and node.persistence == "snapshots"
        else None,
        fragmentation=info.get("mem_fragmentation_ratio", "?"),
        clients=info.get("connected_clients", "?"),
        per_second=info.get("instantaneous_ops_per_sec", "?"),
        skew=timedelta(seconds=skew),
    )


async def view(visit: PageRequest) -> dict[str, Any]:
    return {"health": await health(visit), "dashboard": visit.dashboard}


SECTIONS = (Section("/server", "server.html", view, title="Server"),)
