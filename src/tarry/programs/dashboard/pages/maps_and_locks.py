"""The pages of map caches and of locks that are shared with Java: entries, next expiry, maximum size; who holds a lock, for how
long, how many wait, and releasing one by force.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.key_scanner import LOCKS, MAPS
from tarry.programs.dashboard.sections import Action, Section
from tarry.programs.dashboard.visit import Visit
from tarry.verbs.locks.models import LockState
from tarry.verbs.redisson.mapcache.models import MapStats


async def maps(visit: Visit) -> dict[str, Any]:
    names, known = await _names(visit, MAPS)
    handles = [visit.client.map_cache(name, codec="bytes", policy=None) for name in names]
    found = await asyncio.gather(*[one.stats() for one in handles], return_exceptions=True)
    return {"maps": [stats for stats in found if isinstance(stats, MapStats)], **known}


async def locks(visit: Visit) -> dict[str, Any]:
    names, known = await _names(visit, LOCKS)
    found = await asyncio.gather(*[visit.client.lock(name).state() for name in names], return_exceptions=True)
    states = [lock for lock in found if isinstance(lock, LockState)]
    entered = visit.parameter("name")
    ordered = sorted(states, key=lambda lock: (lock.name != entered, not lock.held, lock.name))
    return {"locks": ordered, "entered": entered, **known}


async def _names(visit: Visit, kind: bytes) -> tuple[list[str], dict[str, Any]]:
    """The objects of a kind that were found, with the one that was entered by name; and what the page says about the scan."""
    scanner = visit.dashboard.key_scanner
    await scanner.scan_some()
    names = sorted({*scanner.shown(kind), visit.parameter("name")} - {""})
    return names, {"known": len(scanner.known(kind)), "scanner": scanner}


async def _plan(visit: Visit, form: Form) -> ActionPlan:
    lock = await visit.client.lock(form.value("name")).state()
    if not lock.held:
        return ActionPlan(f"{filters.plain(lock.name)} is free.", "", nothing_to_do=True)
    question = f"Take {filters.plain(lock.name)} from {filters.plain(lock.holder)}?"
    note = "The holder is notified at once, but may still be working. Systems that check fencing tokens refuse it."
    return ActionPlan(question, "Release it", note)


async def _release(visit: Visit, form: Form) -> str:
    name = form.value("name")
    return (
        f"{filters.plain(name)} {'is free' if await visit.client.lock(name).force_release() else 'was free by then'}."
    )


SECTIONS = (
    Section("/maps", "maps.html", maps, title="Map caches", every_s=3.0, kind=MAPS),
    Section("/locks", "locks.html", locks, title="Locks", kind=LOCKS),
)
ACTIONS = (Action("force-release", "Release", _plan, _release, destroys=True),)
