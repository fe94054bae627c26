"""Questions to a server that does not answer yet: tried again, and logged, alike by both clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from faults.proxy import Proxy
from tarry.connections.embedded.process import ServerProcess
from until import until

PING = (b"PING",)


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
def test_a_question_to_all_servers_is_tried_again_and_says_so(
    own_server: Callable[..., ServerProcess], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO, "tarry")
    proxy = Proxy(None, own_server(port=True).address)
    proxy.refusing = True
    url = f"redis://{proxy.address}"

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "Trying again for 600 s" in record.getMessage()]

    async def awaited() -> list[Any]:
        async with tarry.AsyncClient(url, patience="10m") as client:
            asking = asyncio.ensure_future(client.engine.runner.ask_all(lambda server: server.exchange([PING])))
            await asyncio.to_thread(until, told, "it is logged")
            proxy.refusing = False
            return list((await asking).values())

    async def in_thread() -> list[Any]:
        with tarry.Client(url, patience="10m") as client:
            asking = asyncio.ensure_future(
                asyncio.to_thread(client.engine.runner.ask_all, lambda server: server.exchange([PING]))
            )
            await asyncio.to_thread(until, told, "it is logged")
            proxy.refusing = False
            return list((await asking).values())

    try:
        assert asyncio.run(awaited() if kind == "awaited" else in_thread()) == [[b"PONG"]]
    finally:
        proxy.close()
