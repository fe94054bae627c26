"""Finds the objects that no key lists, those shared with Java and locks, by SCAN: a few steps now and then. Names that were found
are remembered until a complete scan no longer finds them.

One scan, of one pattern after the other, finds all kinds. A kind of which none was ever found has no link in the navigation.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tarry.internal import NamespaceVerbs, NotPermitted, address_of, ask_server

if TYPE_CHECKING:
    from tarry import AsyncClient

QUEUES, MAPS, SHARED_LOCKS = b"redisson_delay_queue_timeout:", b"redisson__timeout__set:", b"redisson_lock_token:"
"""The beginnings of keys that queues with waiting elements, maps with an entry that expires, and shared locks that gave a token have."""
LOCKS = b"lock"
"""The kind of the namespace's locks that gave a token."""
PATTERN = b"redisson_*"
OWN = ("tarry:", "redisson_")
"""The beginnings of names that no shared object has; another program may still have made such keys."""
STEP, STEPS = 1000, 10
REPEAT_S = 10.0
"""How long after a complete scan the next one begins, if it is only for the navigation."""
MOST = 500
"""How many names are shown."""


class KeyScanner:
    """The scan of one server's keys, shared by all pages; without ``java`` of the namespace's locks only."""

    def __init__(self, client: AsyncClient, *, java: bool = True) -> None:
        self._client = client
        self._verbs = NamespaceVerbs(client.namespace)
        own = self._verbs.lock_pattern
        self._patterns = (PATTERN, own) if java else (own,)
        self._at = 0
        self._cursor = b"0"
        self._scanning = False
        self._completed_at = 0.0
        self._found: set[tuple[bytes, str]] = set()
        self._known: set[tuple[bytes, str]] = set()
        self._forbidden = False
        self.used: set[bytes] = set()
        """The kinds of which one was ever found, by their prefixes."""

    @property
    def note(self) -> str:
        """Why the list may be incomplete: on a Cluster every node would have to be scanned, and tarry's ACL roles may not SCAN."""
        if address_of(self._client).kind == "cluster":
            return "Names are not listed on a Cluster: enter a name."
        if self._forbidden:
            return "Names are not listed, because this dashboard's user on the server may not SCAN: enter a name."
        return "" if self._completed_at else "The server's keys are still being scanned: there may be more."

    def known(self, kind: bytes) -> set[str]:
        return {name for prefix, name in self._known if prefix == kind}

    def shown(self, kind: bytes) -> list[str]:
        return sorted(self.known(kind))[:MOST]

    async def scan_for_navigation(self) -> None:
        """Goes on with the scan, if it is not complete, or was completed a while ago."""
        if not self._completed_at or asyncio.get_running_loop().time() - self._completed_at > REPEAT_S:
            await self.scan_some()

    async def scan_some(self) -> None:
        """Goes on with the scan, some steps."""
        if self._scanning or self._forbidden or address_of(self._client).kind == "cluster":
            return
        self._scanning = True
        try:
            await self._scan()
        except NotPermitted:
            self._forbidden = True
        finally:
            self._scanning = False

    async def _scan(self) -> None:
        for _ in range(STEPS):
            scan = (b"SCAN", self._cursor, b"MATCH", self._patterns[self._at], b"COUNT", b"%d" % STEP)
            _, (self._cursor, keys) = await ask_server(self._client, 0, scan)
            if self._patterns[self._at] != PATTERN:
                self._found.update((LOCKS, self._verbs.lock_of(key).name) for key in keys)
            else:
                kinds = (QUEUES, MAPS, SHARED_LOCKS)
                self._found.update(
                    (kind, _name_of(key, kind)) for key in keys for kind in kinds if key.startswith(kind)
                )
            self._found = {found for found in self._found if not found[1].startswith(OWN)}
            self._known |= self._found
            self.used |= {kind for kind, _ in self._found}
            self._at = (self._at + (self._cursor == b"0")) % len(self._patterns)
            if self._cursor == b"0" and not self._at:
                self._known, self._found = self._found, set()
                self._completed_at = asyncio.get_running_loop().time()
                return


def _name_of(key: bytes, kind: bytes) -> str:
    name = key.removeprefix(kind).decode("utf-8", "replace")
    return name[1:-1] if name.startswith("{") and name.endswith("}") and "{" not in name[1:] else name
