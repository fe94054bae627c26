"""Repeated requests: with ``Tarry-Repeated`` a client says that this request may have been carried out before, its answer lost.

The scripts of such a request run as replays: they recognise what the first one did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarry.core.flows import intercept
from tarry.core.requests import Command, Request, ScriptCall

if TYPE_CHECKING:
    from tarry.clients.awaited.interfaces import HandleEngine

HEADER = b"tarry-repeated"


class ReplayEngine:
    """An engine that runs every script as a replay."""

    def __init__(self, engine: HandleEngine) -> None:
        self._engine = engine
        self.config = engine.config
        self.keeps_maps = engine.keeps_maps
        self.register_topic = engine.register_topic
        self.run_view = engine.run_view
        self.shared_part = engine.shared_part
        self.take = engine.take
        self.take_payload = engine.take_payload
        self.wait_until_ended = engine.wait_until_ended

    async def run(self, operation: Any) -> Any:
        if not isinstance(operation, (ScriptCall, Command)):
            operation = intercept(operation, _as_replay)
        return await self._engine.run(_as_replay(operation) if isinstance(operation, ScriptCall) else operation)


def _as_replay(request: Request) -> Request:
    return request.as_replay() if isinstance(request, ScriptCall) else request
