"""Both clients, spoken to alike: ``any_client.call(topic, "add", "tea")`` blocks, or runs the loop until it is done."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import tarry
from tarry.clients.testing import Clock, TestAsyncClient, TestClient

KINDS = ("sync", "async")


class AnyClient:
    """A client by an imaginary clock; without a clock, by the server's."""

    def __init__(self, kind: str, url: str, clock: Clock | None, **options: Any) -> None:
        self.loop = asyncio.Runner() if kind == "async" else None
        made: Any
        if clock is None:
            made = tarry.Client if kind == "sync" else tarry.AsyncClient
            self.client: Any = made(url, **options)
        else:
            made = TestClient if kind == "sync" else TestAsyncClient
            self.client = made(url, clock, **options)

    def topic(self, name: str) -> Any:
        return self.client.topic(name)

    def call(self, whose: Any, verb: str, *given: Any, **named: Any) -> Any:
        answer = getattr(whose, verb)(*given, **named)
        if not inspect.isawaitable(answer):
            return answer
        assert self.loop is not None
        return self.loop.run(_awaited(answer))

    def close(self) -> None:
        self.call(self.client, "close")
        if self.loop is not None:
            self.loop.close()


async def _awaited(answer: Any) -> Any:
    return await answer
