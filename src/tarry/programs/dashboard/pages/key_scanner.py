"""Finds what no list names: a walk through the server's keys, a few steps at each look; names are known from then on."""

from __future__ import annotations

from typing import ClassVar

from tarry.connections.faults import NotPermitted
from tarry.core.requests import Command
from tarry.programs.dashboard.app import Dashboard

STEP, STEPS = 1000, 10
MOST = 500
"""So many are shown."""


class KeyScanner:
    """Of one kind of key. Names that are gone are forgotten after a whole walk."""

    prefix: ClassVar[str]

    def __init__(self, dashboard: Dashboard) -> None:
        self._engine = dashboard.client.engine
        self._cursor = b"0"
        self._found: set[str] = set()
        self.known: set[str] = set()
        self.scanned_once = False
        self._forbidden = False

    @property
    def says(self) -> str:
        """Why not all are shown: a Cluster's nodes would all have to be walked, and a user may not SCAN who may see his own keys
        only."""
        if self._engine.origin.address.kind == "cluster":
            return "On a Cluster they are not looked for: ask for one by its name."
        if self._forbidden:
            return (
                "They are not looked for, as the server's user of this dashboard may not SCAN: ask for one by its name."
            )
        return "" if self.scanned_once else "The server's keys are still being looked through."

    @property
    def shown(self) -> list[str]:
        return sorted(self.known)[:MOST]

    async def scan_some(self) -> None:
        """Some steps further."""
        if self._forbidden or self._engine.origin.address.kind == "cluster":
            return
        for _ in range(STEPS):
            words = (b"SCAN", self._cursor, b"MATCH", self.prefix.encode() + b"*", b"COUNT", b"%d" % STEP)
            try:
                self._cursor, keys = await self._engine.run(Command(words, tuple))
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
