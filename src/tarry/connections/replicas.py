"""Replicas that calls may read from: which exist, and which of them are trusted.

    url_for(key)   a replica, or ``None``: then the master is asked
    check_state    trusts a replica for a while, if it says that it is connected to its master
    distrust       skips a replica for a while: it did not answer, or refused

A reply of a replica is as old as its replication lag: a moment as a rule, and at most as long as a replica takes to
notice that its master is silent (``repl-timeout``, by default 60 s).
"""

from __future__ import annotations

import random
import time
from typing import Any

from tarry.connections.address import Address
from tarry.connections.faults import Fault, TryLater
from tarry.connections.topology import all_nodes, read_replicas, read_slots, slot_of
from tarry.errors import TarryError

REDISCOVER_S = 5.0
"""Seconds for which the list of replicas, and the state of each, counts as current."""
STATE_COMMAND = (b"INFO", b"replication")
_FOLLOWS = (b"role:slave", b"master_link_status:up")


class Replicas:
    """The replicas of an address."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._slots: list[tuple[str, ...]] = []
        self._urls: tuple[str, ...] = ()
        self._discover_at = 0.0
        self._trusted_at: dict[str, float] = {}
        self._distrusted: dict[str, float] = {}

    @property
    def is_due(self) -> bool:
        """Whether to call ``discover``."""
        return time.monotonic() >= self._discover_at

    def discover(self, within_s: float) -> None:
        """Asks a Cluster's nodes, or the Sentinels, for the replicas, within a time; blocks. There are none if nobody answers."""
        self._discover_at = time.monotonic() + REDISCOVER_S
        try:
            if self._address.kind == "cluster":
                self._slots = read_slots(self._address.url, within_s, all_nodes(self._slots))
            else:
                self._urls = tuple(read_replicas(self._address.url, within_s))
        except (Fault, TarryError):  # the master is asked instead, and its error is raised
            self._slots, self._urls = [], ()

    def url_for(self, key: bytes) -> str | None:
        """The URL of a replica that has the key."""
        now = time.monotonic()
        urls = self._slots[slot_of(key)][1:] if self._slots else self._urls
        usable = [url for url in urls if self._distrusted.get(url, 0.0) <= now]
        trusted = [url for url in usable if self.is_trusted(url)]
        return random.choice(trusted or usable) if usable else None

    def is_trusted(self, url: str) -> bool:
        """Whether it said a moment ago that it is connected to its master."""
        return self._trusted_at.get(url, 0.0) > time.monotonic()

    def check_state(self, url: str, state: Any) -> None:
        """Raises a ``Fault`` unless its INFO says that it is connected to its master."""
        if not isinstance(state, bytes) or not all(line in state for line in _FOLLOWS):
            raise state if isinstance(state, Fault) else TryLater("it is not connected to its master")
        self._trusted_at[url] = time.monotonic() + REDISCOVER_S

    def distrust(self, url: str) -> None:
        """Skips it for a while."""
        self._trusted_at.pop(url, None)
        self._distrusted[url] = time.monotonic() + 2 * REDISCOVER_S
