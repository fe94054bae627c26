"""Verbs that take ids: ``kick``, ``delete``, ``reschedule``. They are for producers and operators, and need no receipt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast

from tarry.core.requests import Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import Duration
from tarry.values.keys import DELETING_PARTS, TopicKeys, deleting_keys
from tarry.verbs.jobs.models import State
from tarry.verbs.jobs.options import encode_due_time

KICK = Script("topic/kick", item=("id",))
DELETE = Script("topic/delete", item=("id", "nonce"), keys=DELETING_PARTS)
ANY_NONCE = b""
RESCHEDULE = Script("topic/reschedule", item=("id", "due_time"))


def _states(reply: Reply) -> list[State | None]:
    return [cast("State", arg.decode()) if arg is not None else None for arg in reply]


def kick(keys: TopicKeys, ids: Sequence[str]) -> ScriptCall[list[State | None]]:
    """Makes dead jobs ready again."""
    return ScriptCall(KICK, keys, (), _states, items=[names.check_name(id, "id") for id in ids])


def delete(keys: TopicKeys, ids: Sequence[str]) -> ScriptCall[list[State | None]]:
    """Deletes jobs in any state."""
    items = [arg for id in ids for arg in (names.check_name(id, "id"), ANY_NONCE)]
    return ScriptCall(DELETE, deleting_keys(keys), (), _states, items=items)


def delete_exactly(keys: TopicKeys, id: str, nonce: bytes) -> ScriptCall[State | None]:
    """Deletes a job, if it is still the one that was added with this nonce."""
    items = [names.check_name(id, "id"), nonce]
    return ScriptCall(DELETE, deleting_keys(keys), (), lambda reply: _states(reply)[0], items=items)


def new_due(delay: Duration | None, at: datetime | None) -> bytes:
    """The due time that jobs shall have, as the script expects it. Raises ``BadInput``."""
    if delay is None and at is None:
        raise BadInput("reschedule: give delay= or at=.")
    return encode_due_time(delay, at)


def reschedule(
    keys: TopicKeys, ids: Sequence[str], delay: Duration | None, at: datetime | None
) -> ScriptCall[list[State | None]]:
    """Sets another due time for delayed or ready jobs."""
    due_time = new_due(delay, at)
    items = [arg for id in ids for arg in (names.check_name(id, "id"), due_time)]
    return ScriptCall(RESCHEDULE, keys, (), _states, items=items)
