"""The page of map caches that are shared with Java: entries, next expiry, maximum size."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.programs.dashboard.key_scanner import MAPS
from tarry.programs.dashboard.sections import Section
from tarry.programs.dashboard.visit import Visit
from tarry.verbs.mapcache.models import MapStats


async def view(visit: Visit) -> dict[str, Any]:
    scanner = visit.dashboard.key_scanner
    await scanner.scan_some()
    entered = visit.parameter("name")
    names = sorted({*scanner.shown(MAPS), entered} - {""})
    maps = [visit.client.map_cache(name, codec="bytes", policy=None) for name in names]
    found = await asyncio.gather(*[one.stats() for one in maps], return_exceptions=True)
    return {
        "maps": [stats for stats in found if isinstance(stats, MapStats)],
        "known": len(scanner.known(MAPS)),
        "scanner": scanner,
    }


SECTIONS = (Section("/maps", "maps.html", view, title="Map caches", every_s=3.0, kind=MAPS),)
