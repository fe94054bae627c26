"""The server's health: memory, persistence, eviction, clock. On a Cluster, of one of its nodes; ``tarry doctor`` asks all."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tarry.errors import TarryError
from tarry.idea.calls import Command, Reply
from tarry.programs import nodes
from tarry.programs.dashboard.asking import Visit
from tarry.programs.dashboard.sections import Section


@dataclass(frozen=True, slots=True)
class Health:
    """A server, judged, and what it says of itself besides."""

    node: nodes.Node
    role: str
    up: timedelta
    saved: timedelta | None
    fragmentation: str
    clients: str
    per_second: str
    skew: timedelta | None


async def health(visit: Visit) -> Health:
    """Asks, and judges."""
    engine, began = visit.client.engine, time.perf_counter()
    told = await engine.run(Command((b"INFO", b"default"), _told))
    answer_ms = (time.perf_counter() - began) * 1000
    before = time.time()
    now = await engine.run(Command((b"TIME",), lambda reply: int(reply[0]) + int(reply[1]) / 1e6))
    after = time.time()
    ahead = now - (before + after) / 2
    skew = 0.0 if abs(ahead) < after - before else ahead  # it cannot be told closer than that
    cluster = engine.origin.address.kind == "cluster"
    node = nodes.judged(told, await _save(visit), None, cluster=cluster, answer_ms=answer_ms, clock_ms=skew * 1000)
    saved = told.get("rdb_last_save_time", "")
    return Health(
        node=node,
        role=told.get("role", "?"),
        up=timedelta(seconds=int(told.get("uptime_in_seconds", 0))),
        saved=timedelta(seconds=max(now - int(saved), 0))
        if saved.isdigit() and node.persistence == "snapshots"
        else None,
        fragmentation=told.get("mem_fragmentation_ratio", "?"),
        clients=told.get("connected_clients", "?"),
        per_second=told.get("instantaneous_ops_per_sec", "?"),
        skew=timedelta(seconds=skew),
    )


async def _save(visit: Visit) -> str | None:
    """When it saves a snapshot; ``None`` where it does not tell."""
    try:
        found = await visit.client.engine.run(Command((b"CONFIG", b"GET", b"save"), list))
    except TarryError:
        return None
    return found[1].decode() if len(found) == 2 else None


def _told(reply: Reply) -> dict[str, str]:
    pairs = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines() if not line.startswith("#"))
    return {name: value for name, _, value in pairs}


async def view(visit: Visit) -> dict[str, Any]:
    return {"health": await health(visit)}


SECTIONS = (Section("/server", "server.html", view, title="Server"),)
