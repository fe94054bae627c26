"""A server that does not answer: told once when it begins and once when it is over, tried again with growing pauses."""

from __future__ import annotations

import asyncio
import logging
import random

from tarry.errors import TarryError
from tarry.idea.patience import Patience

logger = logging.getLogger("tarry.worker")


class Outage:
    """What a worker knows of it; the same one for all its topics."""

    def __init__(self) -> None:
        self._patience = Patience(float("inf"))
        self._tries = 0

    def tell(self, fault: TarryError) -> None:
        self._tries += 1
        if self._tries == 1:
            logger.warning("✗ %s Waiting for it.", fault)

    async def hold_on(self, fault: TarryError) -> None:
        """A pause before the next try."""
        self.tell(fault)
        await asyncio.sleep(self._patience.pause(self._tries, 0, random.random()) or 0)

    def over(self) -> None:
        if self._tries:
            self._tries = 0
            logger.warning("✓ The server answers again.")
