"""Which clients track tokens, on which connections."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.connections.embedded.server_process import ServerProcess


def tracking_connections(running: ServerProcess) -> list[str]:
    """The ids of connections that hear."""
    listed = running.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    rows = [dict(word.split("=", 1) for word in row.split()) for row in listed.decode().splitlines()]
    return [row["id"] for row in rows if "t" in row["flags"]]


def is_tracking(client: Any, many: int = 1) -> bool:
    """Whether ``many`` waiters of a client track all their tokens."""
    waits = [waiter._connection for _, waiter in client.engine._waiters.items()]
    busy = [wait for wait in waits if wait is not None and wait.keys]
    return len(busy) == many and all(
        not wait._tracking._loop.state.awaits_reply and wait._tracking._loop.state._tracked.issuperset(wait.keys)
        for wait in busy
    )


async def until_tracking(client: Any) -> None:
    while not is_tracking(client):  # noqa: ASYNC110  # it tells nobody
        await asyncio.sleep(0.002)
