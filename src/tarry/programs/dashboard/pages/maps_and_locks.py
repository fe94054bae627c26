"""The pages of map caches, and of locks, the namespace's and those shared with Java: entries, next expiry, maximum size; who holds a lock, for how
long, how many wait, and releasing one by force.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tarry import AsyncLock, LockState
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.key_scanner import LOCKS, MAPS, SHARED_LOCKS
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.sections import Action, Section
from tarry.redisson import MapStats


async def maps(visit: PageRequest) -> dict[str, Any]:
    visit.require_java()
    scanner = visit.dashboard.key_scanner
    await scanner.scan_some()
    names = sorted({*scanner.shown(MAPS), visit.parameter("name")} - {""})
    handles = [visit.client.map_cache(name, codec="bytes", policy=None) for name in names]
    found = await asyncio.gather(*[one.stats() for one in handles], return_exceptions=True)
    return {
        "maps": [stats for stats in found if isinstance(stats, MapStats)],
        "known": len(scanner.known(MAPS)),
        "scanner": scanner,
    }


async def locks(visit: PageRequest) -> dict[str, Any]:
    scanner = visit.dashboard.key_scanner
    await scanner.scan_some()
    entered = (visit.parameter("name"), visit.parameter("shared") != "")
    if entered[1]:
        visit.require_java()
    shown = {(name, kind == SHARED_LOCKS) for kind in (LOCKS, SHARED_LOCKS) for name in scanner.shown(kind)}
    ids = sorted({*shown, entered} if entered[0] else shown)
    found = await asyncio.gather(
        *[visit.client.lock(name, shared=shared).state() for name, shared in ids], return_exceptions=True
    )
    states = [(lock, state) for lock, state in zip(ids, found, strict=True) if isinstance(state, LockState)]
    ordered = sorted(states, key=lambda pair: (pair[0] != entered, not pair[1].held, pair[0]))
    known = len(scanner.known(LOCKS)) + len(scanner.known(SHARED_LOCKS))
    held = sum(state.held for _, state in states)
    return {"locks": ordered, "entered": entered, "known": known, "held": held, "scanner": scanner}


def _lock_of(visit: PageRequest, form: Form) -> AsyncLock:
    shared = form.value("shared") != ""
    if shared:
        visit.require_java()
    return visit.client.lock(form.value("name"), shared=shared)


async def _plan(visit: PageRequest, form: Form) -> ActionPlan:
    lock = await _lock_of(visit, form).state()
    if not lock.held:
        return ActionPlan(f"{filters.plain(lock.name)} is free.", "", nothing_to_do=True)
    question = f"Release {filters.plain(lock.name)}, which {filters.plain(lock.holder)} holds?"
    note = (
        "The holder is notified at once, but may still be working. Systems that check fencing tokens refuse its writes."
    )
    return ActionPlan(question, "Release it", note)


async def _release(visit: PageRequest, form: Form) -> str:
    name = form.value("name")
    return f"{filters.plain(name)} {'is free' if await _lock_of(visit, form).force_release() else 'was free by then'}."


SECTIONS = (
    Section("/maps", "maps.html", maps, title="Map caches", every_s=3.0, kinds=(MAPS,)),
    Section("/locks", "locks.html", locks, title="Locks", kinds=(LOCKS, SHARED_LOCKS)),
)
ACTIONS = (Action("force-release", "Release", _plan, _release, destroys=True),)
