"""Functions on clients that one of tarry's own programs needs, and no user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarry.clients.awaited.client import AsyncClient
    from tarry.clients.blocking.client import Client
    from tarry.values.keys import QueueKeys


async def take_payload(client: AsyncClient, queues: Sequence[QueueKeys], seconds: float) -> tuple[bytes, bytes] | None:
    """The first payload of any of the queues that are shared with Java, and the list it came from."""
    return await client.engine.take_payload(queues, seconds)


def started_server(client: Client) -> bool:
    """Whether this client has started the embedded server."""
    return client.engine.runner.started_server
