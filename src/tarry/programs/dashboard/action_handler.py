"""Actions: the plan, the confirmation, the execution.

    POST /act ─▶ plan ── many jobs, or destructive ──▶ confirmation page, with the count ── sure ──▶ do ─▶ back, with a note
                   └──────────── one job, and easily undone ───────────────────────────────────────▶┘

A destructive action has the focus on "Go back", so that no second Enter confirms it. A whole topic is deleted by typing its name.

The jobs of a form are read again when the action is executed: their states may have changed since the confirmation page.
Each action that was executed, or begun, is a line of the audit log (audit.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tarry.errors import BadInput, BodyError, JobExists, ServerUnfit, StaleReceipt, Unavailable
from tarry.programs.dashboard import audit
from tarry.programs.dashboard.access import cookies_of
from tarry.programs.dashboard.forms import Form, FormTooLong
from tarry.programs.dashboard.page_request import NotFound, PageHost, PageRequest, return_path

if TYPE_CHECKING:
    from tarry.programs.dashboard.sections import Action

NO_LONGER = "Your token was revoked, or you may not do this any more."


async def handle_action(
    dashboard: PageHost,
    actions: Mapping[str, Action],
    on_done: Callable[[], None],
    request: Request,
    visit: PageRequest,
) -> Response:
    """Executes an action and calls ``on_done``, or answers the confirmation page for it."""
    try:
        form = await Form.of(request)
        if await dashboard.access.role(request.scope, cookies_of(request)) != visit.role:  # the form has taken its time
            return dashboard.error_page(request, 403, "Nothing was done", NO_LONGER)
        action = actions.get(form.value("action"))
        if action is None:
            raise BadInput(f"action: {form.value('action')[:40]!r} is unknown.")
        back = return_path(visit.root, form.value("back"))
        plan = await action.plan(visit, form)
        if plan.nothing_to_do:
            return _redirect_back(dashboard, back, plan.question)
        if (action.destroys or plan.many) and not plan.is_confirmed_by(form):
            data = {"plan": plan, "action": action, "form": form, "back": back, "is_wrong": bool(form.value("sure"))}
            return dashboard.page(visit, "confirm.html", data)
        who = dashboard.access.who(request.scope, cookies_of(request))
        with audit.logged(who, visit.client.namespace, form) as entry:
            entry.result = result = await action.do(visit, form)
    except NotFound as fault:
        return dashboard.error_page(request, 404, "It no longer exists", str(fault), visit)
    except (BadInput, BodyError, JobExists, StaleReceipt) as fault:
        return dashboard.error_page(request, 400, "Nothing was done", str(fault), visit)
    except FormTooLong as fault:
        return dashboard.error_page(request, 400, "Nothing was done", fault.detail, visit)
    except (Unavailable, ServerUnfit, TimeoutError) as fault:
        why = f"{dashboard.unreachable_text(fault)} Part of the action may have been done: check before you repeat it."
        return dashboard.error_page(request, 503, "The server did not answer", why, visit)
    on_done()
    return _redirect_back(dashboard, back, result)


def _redirect_back(dashboard: PageHost, back: str, note: str) -> Response:
    sign = "&" if "?" in back else "?"
    return RedirectResponse(f"{back}{sign}said={dashboard.add_note(note)}", 303)
