"""The page of live workers, and what they run."""

from __future__ import annotations

from typing import Any

from tarry.programs.dashboard.sections import Section
from tarry.programs.dashboard.visit import Visit


async def view(visit: Visit) -> dict[str, Any]:
    workers = await visit.client.workers()
    return {
        "workers": workers,
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
    }


SECTIONS = (Section("/workers", "workers.html", view, title="Workers"),)
