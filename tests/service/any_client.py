"""Both clients of a service, made alike: a verb is called and answers at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import tarry
from service.running_service import RunningService


class AnyClient:
    """A client of the service, whose verbs answer at once; and one of its server."""

    def __init__(self, kind: str, running_service: RunningService, valkey_url: str, **scope: str) -> None:
        self.kind = kind
        self.near = tarry.Client(valkey_url, **scope)
        self._loop = asyncio.Runner()
        self.far: Any = (tarry.HTTPClient if kind == "http" else tarry.AsyncHTTPClient)(running_service.url, **scope)

    def call(self, verb: Callable[..., Any], *given: Any, **named: Any) -> Any:
        async def awaited() -> Any:
            answer = verb(*given, **named)
            return await answer if inspect.isawaitable(answer) else answer

        return verb(*given, **named) if self.kind == "http" else self._loop.run(awaited())

    def walk(self, entries: Any) -> list[Any]:
        async def walked() -> list[Any]:
            return [entry async for entry in entries]

        return list(entries) if self.kind == "http" else self._loop.run(walked())

    def close(self) -> None:
        self.call(self.far.close)
        self._loop.close()
        self.near.close()
