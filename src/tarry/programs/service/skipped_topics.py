"""Topics, queues and servers that a service cannot read: they are left out, and the log says so once."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

from tarry.errors import TarryError, Unavailable

T = TypeVar("T")
logger = logging.getLogger("tarry")


class SkippedTopics:
    """Warns once of each that is left out, for example because of missing permissions, until it can be read again."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    async def or_none(self, what: str, request: Awaitable[T]) -> T | None:
        """Awaits the request; ``None`` when it is refused. Raises ``Unavailable`` when the server does not answer."""
        try:
            found = await request
        except Unavailable:
            raise
        except TarryError as fault:
            if what not in self._reported:
                self._reported.add(what)
                logger.warning("The %s is left out of the metrics: %s", what, fault)
            return None
        self._reported.discard(what)
        return found
