"""A request that may have been done before, its answer lost, says so in ``Tarry-Repeated``; its scripts are told."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from tarry.idea.calls import Call, Command

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
        if isinstance(operation, Call):
            return await self._engine.run(operation.repeated())
        return await self._engine.run(operation if isinstance(operation, Command) else _repeated(operation))


def _repeated(flow: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """The same flow; each of its calls is told."""
    try:
        request = next(flow)
        while True:
            told = request.repeated() if isinstance(request, Call) else request
            try:
                answer = yield told
            except Exception as fault:  # noqa: BLE001  # the flow decides what it means
                request = flow.throw(fault)
            else:
                request = flow.send(answer)
    except StopIteration as end:
        return end.value
