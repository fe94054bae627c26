"""The page of live workers, and what they run; asking one to be quiet, to stop, or to work again."""

from __future__ import annotations

from typing import Any, cast

from tarry.errors import BadInput
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.sections import Action, Section
from tarry.types import WorkerMode

BUTTONS = {"work": (("quiet", "Quiet"), ("stop", "Stop")), "quiet": (("work", "Resume"), ("stop", "Stop")), "stop": ()}
"""The modes that a worker may be asked to take in each mode, and their buttons."""
ASKED = {"quiet": "to be quiet", "stop": "to stop", "work": "to work again"}
NOTES = {
    "quiet": "It takes no new jobs, and finishes those that it has.",
    "stop": "It takes no new jobs. Running ones may go on for its grace period; then it releases the rest, and exits. It stays "
    "stopped unless a supervisor restarts it.",
    "work": "It takes jobs again.",
}


async def view(visit: PageRequest) -> dict[str, Any]:
    workers = await visit.client.workers()
    return {
        "workers": workers,
        "slots": sum(worker.slots for worker in workers),
        "busy": sum(worker.busy for worker in workers),
        "buttons": BUTTONS,
        "asked": ASKED,
    }


async def _plan(_: PageRequest, form: Form) -> ActionPlan:
    mode = form.value("mode")
    if mode not in ASKED:
        raise BadInput(f"mode: {mode[:40]!r} is unknown; it is one of {', '.join(ASKED)}.")
    question = f"Ask {filters.plain(form.value('worker'))} {ASKED[mode]}?"
    return ActionPlan(question, f"Ask it {ASKED[mode]}", NOTES[mode], many=mode == "stop")


async def _ask(visit: PageRequest, form: Form) -> str:
    worker, mode = form.value("worker"), cast("WorkerMode", form.value("mode"))
    shown = filters.plain(worker)
    if not await visit.client.set_worker_mode(worker, mode):
        return f"{shown} is gone; nothing was done."
    return f"{shown} is asked {ASKED[mode]}. It gets the request with its next report."


SECTIONS = (Section("/workers", "workers.html", view, title="Workers"),)
ACTIONS = (Action("worker-mode", "Ask", _plan, _ask),)
