"""The parts of an awaited client that work for all its handles: connections of subscribers, duties, locks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tarry.clients.awaited.runner import Runner
from tarry.clients.config import ClientConfig


class Part(Protocol):
    """One part. There is one of a kind in a client."""

    async def close(self) -> None: ...


P = TypeVar("P", bound=Part)


class PartHost(Protocol):
    """The engine, as far as its parts know it."""

    origin: ClientConfig
    runner: Runner

    def shared_part(self, kind: Callable[[PartHost], P]) -> P: ...
