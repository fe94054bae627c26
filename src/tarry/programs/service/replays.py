"""Repeated requests: with ``Tarry-Repeated`` a client says that this request may have been carried out before, its answer lost.

The scripts of such a request run as replays: they recognise what the first one did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarry.core.flows import intercept
from tarry.core.requests import Command, Request, ScriptCall

if TYPE_CHECKING:
    from tarry.clients.awaited.engine import Engine

HEADER = b"tarry-repeated"


class ReplayEngine:
    """An engine that runs every script as a replay. It has those methods of ``Engine`` that handlers of routes call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.take = engine.take
        self.register_topic = engine.register_topic
        self.run_view = engine.run_view

    async def run(self, operation: Any) -> Any:
        if not isinstance(operation, (ScriptCall, Command)):
            operation = intercept(operation, _as_replay)
        return await self._engine.run(_as_replay(operation) if isinstance(operation, ScriptCall) else operation)


def _as_replay(request: Request) -> Request:
    return request.as_replay() if isinstance(request, ScriptCall) else request
