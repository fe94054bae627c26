"""Finds objects that no key lists, by SCAN: a few steps with each view; names that were found are remembered."""

from __future__ import annotations

from typing import ClassVar

from tarry.connections.faults import NotPermitted
from tarry.core.requests import Command
from tarry.programs.dashboard.app import Dashboard

STEP, STEPS = 1000, 10
MOST = 500
"""How many names are shown."""


class KeyScanner:
    """Scans for keys with a prefix. Names that are gone are forgotten after a complete scan."""

    prefix: ClassVar[str]

    def __init__(self, dashboard: Dashboard) -> None:
        self._engine = dashboard.client.engine
        self._cursor = b"0"
        self._found: set[str] = set()
        self.known: set[str] = set()
        self.scanned_once = False
        self._forbidden = False

    @property
    def note(self) -> str:
        """Why the list may be incomplete: on a Cluster every node would have to be scanned, and tarry's ACL roles may not SCAN."""
        if self._engine.config.address.kind == "cluster":
            return "On a Cluster the keys are not scanned: enter a name."
        if self._forbidden:
            return "The keys are not scanned, because the server's user of this dashboard may not SCAN: enter a name."
        return "" if self.scanned_once else "The scan of the server's keys is not finished yet."

    @property
    def shown(self) -> list[str]:
        return sorted(self.known)[:MOST]

    async def scan_some(self) -> None:
        """Goes on with the scan, some steps."""
        if self._forbidden or self._engine.config.address.kind == "cluster":
            return
        for _ in range(STEPS):
            scan = (b"SCAN", self._cursor, b"MATCH", self.prefix.encode() + b"*", b"COUNT", b"%d" % STEP)
            try:
                self._cursor, keys = await self._engine.run(Command(scan, tuple))
            except NotPermitted:
                self._forbidden = True
                return
            self._found.update(self._name_of(key) for key in keys)
            self.known |= self._found
            if self._cursor == b"0":
                self.known, self._found, self.scanned_once = self._found, set(), True
                return

    def _name_of(self, key: bytes) -> str:
        name = key.decode("utf-8", "replace").removeprefix(self.prefix)
        return name[1:-1] if name.startswith("{") and name.endswith("}") and "{" not in name[1:] else name
