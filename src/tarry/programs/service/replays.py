"""A request that may have been done before, its answer lost, says so in ``Tarry-Repeated``; its scripts are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarry.core.flows import intercept
from tarry.core.requests import Command, Request, ScriptCall

if TYPE_CHECKING:
    from tarry.clients.awaited.engine import Engine

HEADER = b"tarry-repeated"


class ReplayEngine:
    """An engine that tells every script that it may be a replay."""

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
