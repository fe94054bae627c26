"""A request that may have been done before, its answer lost, says so in ``Tarry-Repeated``; its scripts are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarry.idea.calls import Call, Command, Request
from tarry.idea.together import told

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

HEADER = b"tarry-repeated"


class Repeating:
    """An engine that tells every script that it may be a replay."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.take = engine.take
        self.introduce = engine.introduce
        self.look = engine.look

    async def run(self, operation: Any) -> Any:
        if not isinstance(operation, (Call, Command)):
            operation = told(operation, _repeated)
        return await self._engine.run(_repeated(operation) if isinstance(operation, Call) else operation)


def _repeated(request: Request) -> Request:
    return request.repeated() if isinstance(request, Call) else request
