"""Stories in an event loop, turn by turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import tarry
from until import LONGEST_S


def real(url: str, story: Callable[[Any], Any]) -> Any:
    """A story with a client of its own, in real time, that must not hang."""

    async def run() -> Any:
        client = tarry.AsyncClient(url)
        try:
            async with asyncio.timeout(LONGEST_S):
                return await story(client)
        finally:
            await client.close()

    return asyncio.run(run(), debug=False)
