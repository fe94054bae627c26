"""A server that does not answer: told once when it begins and once when it is over, tried again with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import random

from tarry.errors import TarryError
from tarry.idea.patience import Patience

logger = logging.getLogger("tarry.worker")


class Outage:
    """What one lane knows of it."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._patience = Patience(float("inf"))
        self._tries = 0

    def tell(self, fault: TarryError) -> None:
        if not self._tries:
            logger.warning("✗ %s: %s Waiting for it.", self._topic, fault)
        self._tries += 1

    async def hold_on(self, fault: TarryError) -> None:
        """A pause before the next try."""
        self.tell(fault)
        await asyncio.sleep(self._patience.pause(self._tries, 0, random.random()) or 0)

    def over(self) -> None:
        if self._tries:
            self._tries = 0
            logger.warning("✓ %s: the server answers again.", self._topic)
