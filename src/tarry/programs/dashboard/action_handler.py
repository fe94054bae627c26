"""Actions: the plan, the confirmation, the execution.

    POST /act ─▶ plan ── many jobs, or destructive ──▶ confirmation page, with the count ── sure ──▶ do ─▶ back, with a note
                   └──────────── one job, and easily undone ───────────────────────────────────────▶┘

The jobs of a form are read again when the action is executed: their states may have changed since the confirmation page.
Each action that was executed, or begun, is a line of the audit log (audit.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tarry.errors import BadInput, BodyError, JobExists, ServerUnfit, StaleReceipt, Unavailable
from tarry.programs.dashboard import audit
from tarry.programs.dashboard.dead_scans import DeadScans
from tarry.programs.dashboard.visit import FormTooLong, NotFound, Visit, read_form, return_path

if TYPE_CHECKING:
    from tarry.programs.dashboard.app import Dashboard

LONGEST_FORM = 512 << 10
MOST_FIELDS = 1100
MOST_CHOSEN = 1000


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """The effect of an action: ``question`` is a sentence, ``button`` the label that confirms it."""

    question: str
    button: str
    note: str = ""
    many: bool = False
    nothing_to_do: bool = False


class Form:
    """The fields of a form, and the ids that were selected."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields
        self.values: Mapping[str, str] = {name: value for name, value in fields if name != "id"}
        self.ids = list(dict.fromkeys(value for name, value in fields if name == "id"))
        if len(self.ids) > MOST_CHOSEN:
            raise BadInput(f"id: {len(self.ids)} were chosen; at most {MOST_CHOSEN} at a time.")

    def value(self, name: str) -> str:
        return self.values.get(name, "").strip()

    @classmethod
    async def of(cls, request: Request) -> Form:
        """Reads the form of a request. Raises ``BadInput``, and the errors of ``read_form``."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise BadInput(f"form: {kind or 'nothing'} given; send application/x-www-form-urlencoded.")
        raw = await read_form(request, LONGEST_FORM)
        try:
            return cls(parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
        except ValueError as fault:
            if isinstance(fault, BadInput):
                raise
            raise BadInput(f"form: {fault}.") from None


async def handle_action(dashboard: Dashboard, request: Request, visit: Visit) -> Response:
    """Executes an action, or answers the confirmation page for it."""
    try:
        form = await Form.of(request)
        action = dashboard.actions.get(form.value("action"))
        if action is None:
            raise BadInput(f"action: {form.value('action')[:40]!r} is unknown.")
        back = return_path(visit.root, form.value("back"))
        plan = await action.plan(visit, form)
        if plan.nothing_to_do:
            return _redirect_back(dashboard, back, plan.question)
        if (action.destroys or plan.many) and not form.value("sure"):
            data = {"plan": plan, "action": action, "form": form, "back": back}
            return dashboard.page(visit, "confirm.html", data)
        who = dashboard.access.who(request.scope, request.cookies)
        with audit.logged(who, visit.client.namespace, form) as entry:
            entry.result = result = await action.do(visit, form)
    except NotFound as fault:
        return dashboard.error_page(request, 404, "This does not exist any more", str(fault), visit)
    except (BadInput, BodyError, JobExists, StaleReceipt) as fault:
        return dashboard.error_page(request, 400, "Nothing was done", str(fault), visit)
    except FormTooLong as fault:
        return dashboard.error_page(request, 400, "Nothing was done", fault.detail, visit)
    except (Unavailable, ServerUnfit, TimeoutError) as fault:
        why = f"{dashboard.unreachable_text(fault)} Part of it may have been done: check before you repeat it."
        return dashboard.error_page(request, 503, "The server did not answer", why, visit)
    dashboard.view_cache.invalidate()
    dashboard.shared_part(DeadScans).forget()
    return _redirect_back(dashboard, back, result)


def _redirect_back(dashboard: Dashboard, back: str, note: str) -> Response:
    sign = "&" if "?" in back else "?"
    return RedirectResponse(f"{back}{sign}said={dashboard.add_note(note)}", 303)
