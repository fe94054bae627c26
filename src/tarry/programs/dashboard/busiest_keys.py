"""The busiest keys of each topic, read again every five seconds. One look reads a bounded number of keys."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry import AsyncTopic, KeyStats
from tarry.programs.dashboard.page_request import PageHost

SHOWN = 10
REFRESH_S = 5.0


class BusiestKeys:
    """Those of a dashboard's topics."""

    def __init__(self, _: PageHost) -> None:
        self._known: dict[str, tuple[float, tuple[KeyStats, ...]]] = {}

    async def of(self, topic: AsyncTopic[Any]) -> tuple[KeyStats, ...]:
        now = asyncio.get_running_loop().time()
        self._known = {name: one for name, one in self._known.items() if now - one[0] < REFRESH_S}
        if topic.name not in self._known:
            self._known[topic.name] = (now, await topic.busiest_keys(SHOWN))
        return self._known[topic.name][1]

    def forget(self) -> None:
        """Reads them again at the next look."""
        self._known.clear()
