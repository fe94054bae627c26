"""Who hears tokens, on which connections."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.connections.embedded.process import ServerProcess


def tracking_connections(running: ServerProcess) -> list[str]:
    """The ids of connections that hear."""
    listed = running.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    rows = [dict(word.split("=", 1) for word in row.split()) for row in listed.decode().splitlines()]
    return [row["id"] for row in rows if "t" in row["flags"]]


def hears(client: Any, many: int = 1) -> bool:
    """Whether so many waiters of a client hear all their tokens."""
    lines = [waiter._connection for _, waiter in client.engine._waiters.items()]
    heard = [line for line in lines if line is not None and line.keys]
    return len(heard) == many and all(
        not line._tracking._state.awaits_reply and line._tracking._state._tracked.issuperset(line.keys)
        for line in heard
    )


async def until_tracking(client: Any) -> None:
    while not hears(client):  # noqa: ASYNC110  # it tells nobody
        await asyncio.sleep(0.002)
