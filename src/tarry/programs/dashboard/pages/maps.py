"""The page of map caches that are shared with Java: entries, next expiry, maximum size."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.programs.dashboard.pages.key_scanner import KeyScanner
from tarry.programs.dashboard.sections import Section
from tarry.programs.dashboard.visit import Visit
from tarry.verbs.mapcache.models import MapStats


class MapScanner(KeyScanner):
    """Finds maps with an entry that expires; others can be entered by name."""

    prefix = "redisson__timeout__set:"


async def view(visit: Visit) -> dict[str, Any]:
    scanner = visit.dashboard.shared_part(MapScanner)
    await scanner.scan_some()
    entered = visit.parameter("name")
    names = sorted({*scanner.shown, entered} - {""})
    maps = [visit.client.map_cache(name, codec="bytes", policy=None) for name in names]
    found = await asyncio.gather(*[one.stats() for one in maps], return_exceptions=True)
    return {
        "maps": [stats for stats in found if isinstance(stats, MapStats)],
        "known": len(scanner.known),
        "scanner": scanner,
    }


SECTIONS = (Section("/maps", "maps.html", view, title="Map caches", every_s=3.0),)
