"""Replicas that views may read from: which there are, and which of them is to be believed.

    of(key)    one of them, or none: then the master is asked
    judge      what a replica says of itself, before it is believed for a while: one that is cut off from its master is not
    drop       it did not answer, or cannot: for a while it is not asked

What a replica shows is as old as its replication is behind: a moment as a rule, and at most as long as a replica takes to
notice that its master is silent (``repl-timeout``, 60 s as Redis and Valkey come).
"""

from __future__ import annotations

import random
import time
from typing import Any

from redis.crc import key_slot

from tarry.connections.address import Address
from tarry.connections.faults import Fault, TryLater
from tarry.connections.topology import all_nodes, read_slots, replicas_request
from tarry.errors import TarryError

REDISCOVER_S = 5.0
"""How long it is believed which replicas there are, and that one of them follows its master."""
STATE_COMMAND = (b"INFO", b"replication")
_FOLLOWS = (b"role:slave", b"master_link_status:up")


class Replicas:
    """Those behind an address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._slots: list[tuple[str, ...]] = []
        self._urls: tuple[str, ...] = ()
        self._discover_at = 0.0
        self._trusted_at: dict[str, float] = {}
        self._distrusted: dict[str, float] = {}

    @property
    def is_due(self) -> bool:
        """Whether to ``look``."""
        return time.monotonic() >= self._discover_at

    def discover(self, within_s: float) -> None:
        """Asks which there are, for a time at most; blocks. None, where nobody can say."""
        self._discover_at = time.monotonic() + REDISCOVER_S
        try:
            if self._address.kind == "cluster":
                self._slots = read_slots(self._address.url, within_s, all_nodes(self._slots))
            else:
                self._urls = tuple(replicas_request(self._address.url, within_s))
        except (Fault, TarryError):  # the master is asked, and says what is wrong
            self._slots, self._urls = [], ()

    def url_for(self, key: bytes) -> str | None:
        """The URL of a replica that has the key."""
        now = time.monotonic()
        there = self._slots[key_slot(key)][1:] if self._slots else self._urls
        usable = [url for url in there if self._distrusted.get(url, 0.0) <= now]
        believed = [url for url in usable if self.is_trusted(url)]
        return random.choice(believed or usable) if usable else None

    def is_trusted(self, url: str) -> bool:
        """Whether it said a moment ago that it follows its master."""
        return self._trusted_at.get(url, 0.0) > time.monotonic()

    def check_state(self, url: str, state: Any) -> None:
        """Raises a ``Fault`` unless it follows its master."""
        if not isinstance(state, bytes) or not all(word in state for word in _FOLLOWS):
            raise state if isinstance(state, Fault) else TryLater("it does not follow a master")
        self._trusted_at[url] = time.monotonic() + REDISCOVER_S

    def distrust(self, url: str) -> None:
        """It is not asked for a while."""
        self._trusted_at.pop(url, None)
        self._distrusted[url] = time.monotonic() + 2 * REDISCOVER_S
