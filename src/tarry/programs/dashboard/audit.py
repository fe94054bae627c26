"""The audit log: one line for each action of the dashboard that was executed, or begun.

    tarry.audit   token 4f1c09be1d2e3a4b: delete orders/7: 1 job deleted.

The logger is ``tarry.audit``. As JSON a line has who, namespace, action, topic, ids and result as fields. Bodies and headers are
never in it. It is a log and no more: nothing is stored, so the dashboard has no list of it.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tarry.programs.dashboard import filters
from tarry.programs.dashboard.page_request import SEARCH_FIELDS

if TYPE_CHECKING:
    from tarry.programs.dashboard.forms import Form

logger = logging.getLogger("tarry.audit")
MOST_IDS = 20
LONGEST = 200
FIELDS = (
    "topic", "name", "worker", "mode", "state", "after", "before", *SEARCH_FIELDS, "delay", "at", "duration", "key", "reason",
)  # fmt: skip
"""The fields of forms that say on what an action was taken, and how."""


@dataclass(slots=True)
class AuditEntry:
    """The outcome of an action; empty until it is known."""

    result: str = ""


@contextmanager
def logged(who: str, namespace: str, form: Form) -> Generator[AuditEntry]:
    """Logs the action of the block when it has ended, also with an error."""
    entry, fault = AuditEntry(), ""
    try:
        yield entry
    except BaseException as raised:
        fault = type(raised).__name__  # its text may contain something of the form
        raise
    finally:
        _log(who, namespace, form, entry.result or f"failed, perhaps partly done: {fault}")


def _log(who: str, namespace: str, form: Form, result: str) -> None:
    given: dict[str, Any] = {name: _short(form.value(name)) for name in FIELDS if form.value(name)}
    ids = [_short(id) for id in (*form.ids, form.value("new") or form.value("new_id")) if id]
    target = [given.get("topic") or given.get("name") or given.get("worker") or ""]
    if form.value("all"):
        given["all"] = True
        target.append(f"all {given.get('state', '')}".rstrip())
        target += [f"{name} {given[name]}" for name in SEARCH_FIELDS if name in given]
    elif ids:
        given["ids"], given["jobs"] = ids[:MOST_IDS], len(ids)
        target.append(", ".join(ids[:MOST_IDS]) + (f" and {len(ids) - MOST_IDS} more" if len(ids) > MOST_IDS else ""))
    action, result = _short(form.value("action")), _short(result)
    fields = {"who": _short(who), "namespace": namespace, "action": action, **given, "result": result}
    logger.info("%s: %s %s: %s", _short(who), action, "/".join(target), result, extra={"tarry": fields})


def _short(text: str) -> str:
    return filters.plain(text[:LONGEST])
