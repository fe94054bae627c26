"""A server that does not answer, or refuses: told once when it begins and once when it is over, tried again with growing pauses.

    part of a worker     asks ──▶ refused ──▶ pause ──▶ asks ──▶ answered          each has tries and pauses of its own
    outage               told: ✗ …            nothing            told: ✓ …         when no part is in trouble any more

What has never been answered may be told that the server cannot be used, and ends the worker. Who has once worked waits out
whatever the server says: a full disk passes, and so does a password that somebody is changing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading

from tarry.core.patience import Patience
from tarry.errors import TarryError, Unavailable

logger = logging.getLogger("tarry.worker")
PATIENCE = Patience(float("inf"))


class Outage:
    """What a worker knows of it; the same one for all its parts, in the loop and in the thread that renews."""

    def __init__(self) -> None:
        self.worked = False
        """Whether any part was ever answered."""
        self._told: set[str] = set()
        self._troubled: set[Part] = set()
        self._lock = threading.Lock()

    def part(self) -> Part:
        """For one that asks the server by itself."""
        return Part(self)

    @property
    def lasts(self) -> bool:
        return bool(self._told)

    def report(self, fault: TarryError, of: Part | None = None) -> None:
        """Once for each kind of trouble; it lasts until it is over for the part that has it."""
        with self._lock:
            if of is not None:
                self._troubled.add(of)
            fresh = fault.code not in self._told
            self._told.add(fault.code)
        if fresh:
            logger.warning("✗ %s Waiting for it.", fault)

    def rested(self, part: Part) -> None:
        """It asks no more for now, so nobody knows."""
        with self._lock:
            self._troubled.discard(part)

    def resolved(self, part: Part) -> None:
        with self._lock:
            self._troubled.discard(part)
            if self._troubled or not self._told:
                return
            self._told.clear()
        logger.warning("✓ The server answers again.")


class Part:
    """A take loop, a topic's answers, the renewal: whatever asks and waits on its own."""

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        self._tries = 0
        self._worked = False

    @property
    def well(self) -> bool:
        """Whether it was answered the last time."""
        return self._worked and not self._tries

    def may_wait_for(self, fault: TarryError) -> bool:
        """Whether there is sense in another try."""
        return self._worked or isinstance(fault, Unavailable)

    def tell(self, fault: TarryError) -> None:
        """It is in trouble, and will ask again by itself."""
        self._tries += 1
        self._outage.report(fault, self)

    async def hold_on(self, fault: TarryError) -> None:
        """A pause before the next try."""
        self.tell(fault)
        await asyncio.sleep(PATIENCE.delay_before(self._tries, 0, random.random()) or 0)

    def rested(self) -> None:
        """It has nothing to ask."""
        if self._tries:
            self._tries = 0
            self._outage.rested(self)

    def over(self) -> None:
        """It was answered."""
        self._worked = self._outage.worked = True
        if self._tries or self._outage.lasts:
            self._tries = 0
            self._outage.resolved(self)
