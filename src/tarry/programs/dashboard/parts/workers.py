"""Who is alive, and what they run."""

from __future__ import annotations

from typing import Any

from tarry.programs.dashboard.asking import Visit
from tarry.programs.dashboard.sections import Section


async def view(visit: Visit) -> dict[str, Any]:
    workers = await visit.client.workers()
    return {
        "workers": workers,
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
    }


SECTIONS = (Section("/workers", "workers.html", view, title="Workers"),)
