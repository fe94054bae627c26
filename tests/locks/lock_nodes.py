"""The nodes of a lock on ZooKeeper."""

from __future__ import annotations

from typing import Any


def nodes(kazoo: Any, name: str) -> list[str]:
    return sorted(kazoo.get_children(f"/tests/{name}"), key=lambda node: node[-10:])
