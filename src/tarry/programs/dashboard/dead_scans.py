"""Scans of dead jobs: the groups of a topic's dead jobs, read a bounded page at a time, further at each look at a page.

look ─▶ pages until LOOK_S are over ─▶ the groups so far, and how many of how many jobs were read
look ─▶ …                            ─▶ all groups; read again when they are old, or at once after an action

A scan that takes long is repeated less often, so that scans use a twentieth of the time at most.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tarry import DeadGroups
from tarry.internal import JobSearch

if TYPE_CHECKING:
    from tarry import AsyncTopic
    from tarry.programs.dashboard.page_request import PageHost

LOOK_S = 0.4
REFRESH_S, REFRESH_CHANGED_S = 10.0, 2.0
SHARE = 20
MOST_SCANS = 20
PAGE = 500
"""Jobs that are read and grouped without a pause for other requests."""
NOTHING, EVERYTHING = DeadGroups((), 0, 0), JobSearch()


class DeadScan:
    """The scan of one topic's dead jobs that match a search."""

    def __init__(self) -> None:
        self._whole: DeadGroups | None = None
        self._partial: DeadGroups | None = None
        self._reading = False
        self._took = self._ended = 0.0

    async def look(self, topic: AsyncTopic[Any], search: JobSearch, dead: int) -> DeadGroups:
        """The groups as they are known: of the last whole scan, or of a part of the first one, with a cursor."""
        if not self._reading and not self._is_fresh(dead):
            self._reading = True
            try:
                await self._read(topic, search)
            finally:
                self._reading = False
        found = self._whole if self._whole is not None else self._partial
        return found if found is not None else DeadGroups((), 0, dead, "")

    def _is_fresh(self, dead: int) -> bool:
        if self._whole is None or self._partial is not None:
            return False
        age = asyncio.get_running_loop().time() - self._ended
        return age < max(REFRESH_S if self._whole.dead == dead else REFRESH_CHANGED_S, SHARE * self._took)

    async def _read(self, topic: AsyncTopic[Any], search: JobSearch) -> None:
        loop = asyncio.get_running_loop()
        began, found = loop.time(), self._partial
        if found is None:
            self._took = 0.0
        while found is None or found.cursor is not None:
            cursor = None if found is None else found.cursor
            page = await topic.dead_groups(**search.given(), limit=PAGE, cursor=cursor)
            found = self._partial = page if found is None else found + page
            if loop.time() - began > LOOK_S:
                break
        self._took += loop.time() - began
        if found.cursor is None:
            self._whole, self._partial, self._ended = found, None, loop.time()


class DeadScans:
    """The scans of all topics; those that were looked at last are kept."""

    def __init__(self, _: PageHost) -> None:
        self._scans: dict[tuple[str, JobSearch], DeadScan] = {}

    async def of(self, topic: AsyncTopic[Any], dead: int, search: JobSearch = EVERYTHING) -> DeadGroups:
        """The groups of a topic's dead jobs as they are known; a cursor means that the scan goes on."""
        if not dead:
            return NOTHING
        scan = self._scans.pop((topic.name, search), None) or DeadScan()
        self._scans[topic.name, search] = scan
        while len(self._scans) > MOST_SCANS:
            del self._scans[next(iter(self._scans))]
        return await scan.look(topic, search, dead)

    def forget(self) -> None:
        """After an action: the groups are read again."""
        self._scans = {}
