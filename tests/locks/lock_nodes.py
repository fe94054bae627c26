"""Where a lock is kept: its keys on Redis, its nodes on ZooKeeper."""

from __future__ import annotations

from typing import Any


def lock_key(name: str) -> str:
    return f"tarry:{{default/{name}}}:lock"


def lock_channel(name: str) -> str:
    return f"tarry:{{default/{name}}}:released"


def nodes(kazoo: Any, name: str) -> list[str]:
    return sorted(kazoo.get_children(f"/tarry/tests/{name}"), key=lambda node: node[-10:])
