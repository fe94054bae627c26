"""Doing something: what would happen, the question, the deed.

    POST /act ─▶ plan ── concerns many, or destroys ──▶ the question, with the count ── sure ──▶ do ─▶ back, and a note
                   └──────────── one, and mended easily ────────────────────────────────────────▶┘

What a form names is looked at anew when it is done: between question and answer jobs go their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tarry.errors import BadInput, ServerUnfit, StaleReceipt, Unavailable
from tarry.programs.dashboard.visit import NotFound, TooLong, Visit, return_path, sent

if TYPE_CHECKING:
    from tarry.programs.dashboard.app import Dashboard

LONGEST_FORM = 512 << 10
MOST_FIELDS = 1100
MOST_CHOSEN = 1000


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """What would happen: ``says`` in a sentence, ``button`` in two words; ``none`` when there is nothing to do."""

    says: str
    button: str
    note: str = ""
    many: bool = False
    none: bool = False


class Form:
    """What was sent: words, and the ids that were chosen."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields
        self.words: Mapping[str, str] = {name: value for name, value in fields if name != "id"}
        self.ids = list(dict.fromkeys(value for name, value in fields if name == "id"))
        if len(self.ids) > MOST_CHOSEN:
            raise BadInput(f"id: {len(self.ids)} were chosen; at most {MOST_CHOSEN} at a time.")

    def word(self, name: str) -> str:
        return self.words.get(name, "").strip()

    @classmethod
    async def of(cls, request: Request) -> Form:
        """Raises ``BadInput`` for what is no form, and as ``sent`` does."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/x-www-form-urlencoded":
            raise BadInput(f"form: {kind or 'nothing'} given; send application/x-www-form-urlencoded.")
        raw = await sent(request, LONGEST_FORM)
        try:
            return cls(parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS))
        except ValueError as fault:
            if isinstance(fault, BadInput):
                raise
            raise BadInput(f"form: {fault}.") from None


async def handle_action(dashboard: Dashboard, request: Request, visit: Visit) -> Response:
    """Asks, or does it."""
    try:
        form = await Form.of(request)
        action = dashboard.actions.get(form.word("action"))
        if action is None:
            raise BadInput(f"action: {form.word('action')[:40]!r} is unknown.")
        back = return_path(visit.root, form.word("back"))
        plan = await action.plan(visit, form)
        if plan.none:
            return _redirect_back(dashboard, back, plan.says)
        if (action.destroys or plan.many) and not form.word("sure"):
            data = {"plan": plan, "action": action, "form": form, "back": back}
            return dashboard.page(visit, "sure.html", data)
        told = await action.do(visit, form)
    except NotFound as fault:
        return dashboard.error_page(request, 404, "That is not there any more", str(fault), visit)
    except (BadInput, StaleReceipt) as fault:
        return dashboard.error_page(request, 400, "That was not done", str(fault), visit)
    except TooLong as fault:
        return dashboard.error_page(request, 400, "That was not done", fault.detail, visit)
    except (Unavailable, ServerUnfit, TimeoutError) as fault:
        why = f"{dashboard.lost_text(fault)} Some of it may have been done: look before you do it again."
        return dashboard.error_page(request, 503, "The server did not answer", why, visit)
    dashboard.view_cache.invalidate()
    return _redirect_back(dashboard, back, told)


def _redirect_back(dashboard: Dashboard, back: str, told: str) -> Response:
    sign = "&" if "?" in back else "?"
    return RedirectResponse(f"{back}{sign}said={dashboard.add_note(told)}", 303)
