"""The page of locks that are shared with Java: who holds them, for how long, how many wait; and releasing one by force."""

from __future__ import annotations

import asyncio
from typing import Any

from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.key_scanner import LOCKS
from tarry.programs.dashboard.sections import Action, Section
from tarry.programs.dashboard.visit import Visit
from tarry.verbs.locks.models import LockState


async def view(visit: Visit) -> dict[str, Any]:
    scanner = visit.dashboard.key_scanner
    await scanner.scan_some()
    entered = visit.parameter("name")
    names = sorted({*scanner.shown(LOCKS), entered} - {""})
    found = await asyncio.gather(*[visit.client.lock(name).state() for name in names], return_exceptions=True)
    locks = [lock for lock in found if isinstance(lock, LockState)]
    ordered = sorted(locks, key=lambda lock: (lock.name != entered, not lock.held, lock.name))
    return {"locks": ordered, "entered": entered, "known": len(scanner.known(LOCKS)), "scanner": scanner}


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


SECTIONS = (Section("/locks", "locks.html", view, title="Locks", kind=LOCKS),)
ACTIONS = (Action("force-release", "Release", _plan, _release, destroys=True),)
