"""Verbs that take ids: ``kick``, ``delete``, ``reschedule``. They are for producers and operators, and need no receipt.

Each is one value, which a topic of a server and one of a service perform alike: ``verbs.by_id(RESCHEDULE, ["7"], delay=5, at=None)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, ParamSpec, cast, get_args

from tarry.core.requests import Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import Duration
from tarry.values.keys import CANCELLING_PARTS, DELETING_PARTS, KEY_PARTS, WAITING_PARTS, TopicKeys
from tarry.verbs.jobs.job_values import HasReceipt, State
from tarry.verbs.jobs.options import encode_due_time

P = ParamSpec("P")
ANY_NONCE = ANY_STATE = b""
_STATES: tuple[State, ...] = get_args(State)


def _states(reply: Reply) -> list[State | None]:
    return [cast("State", arg.decode()) if arg is not None else None for arg in reply]


@dataclass(frozen=True, slots=True, eq=False)
class ByIdVerb(Generic[P]):
    """A verb on jobs by their ids; its answer is the states that they were in. ``encode`` checks its options, which are keywords,
    and returns what the script takes after each id."""

    script: Script
    encode: Callable[P, tuple[bytes, ...]]

    def call(
        self, keys: TopicKeys, ids: Sequence[str], *args: P.args, **options: P.kwargs
    ) -> ScriptCall[list[State | None]]:
        """The call for the jobs of one partition. Raises ``BadInput``."""
        after = self.encode(*args, **options)
        items = [arg for id in ids for arg in (names.check_name(id, "id"), *after)]
        return ScriptCall(self.script, self.script.keys_for(keys), (), _states, items=items)


def _kick() -> tuple[bytes, ...]:
    return ()


def _delete(*, state: State | None = None) -> tuple[bytes, ...]:
    if state is not None and state not in _STATES:
        raise BadInput(f"state: {state!r}; a job is deleted from one of {', '.join(_STATES)}, or from any without it.")
    return (ANY_NONCE, (state or "").encode())


def _cancel(*, running: bool) -> tuple[bytes, ...]:
    """``running`` is a field of a service's request."""
    if not running:
        raise BadInput("cancel: running is true.")
    return ()


def _reschedule(*, delay: Duration | None, at: datetime | None) -> tuple[bytes, ...]:
    if delay is None and at is None:
        raise BadInput("reschedule: give delay= or at=.")
    return (encode_due_time(delay, at),)


KICK_SCRIPT = Script("topic/kick", item=("id",), keys=(*WAITING_PARTS, *KEY_PARTS))
DELETE_SCRIPT = Script("topic/delete", item=("id", "nonce", "only"), keys=(*DELETING_PARTS, *KEY_PARTS))
CANCEL_SCRIPT = Script("topic/cancel", item=("id",), keys=(*CANCELLING_PARTS, *KEY_PARTS))
RESCHEDULE_SCRIPT = Script("topic/reschedule", item=("id", "due_time"), keys=(*WAITING_PARTS, *KEY_PARTS))
KICK = ByIdVerb(KICK_SCRIPT, _kick)
"""Makes dead jobs ready again."""
DELETE = ByIdVerb(DELETE_SCRIPT, _delete)
"""Deletes jobs in any state, or in this one only."""
CANCEL = ByIdVerb(CANCEL_SCRIPT, _cancel)
"""Deletes jobs in any state, and notes which of them run, so that their workers stop them."""
CANCELLED = Script("topic/cancelled", item=("id", "receipt"), keys=CANCELLING_PARTS)
RESCHEDULE = ByIdVerb(RESCHEDULE_SCRIPT, _reschedule)
"""Sets another due time for delayed or ready jobs."""


def cancelled(keys: TopicKeys, jobs: Sequence[HasReceipt]) -> ScriptCall[list[bool]]:
    """Whether each of these runs was cancelled."""
    items = [arg for job in jobs for arg in (job.id.encode(), b"%d" % job.receipt)]
    return ScriptCall(CANCELLED, CANCELLED.keys_for(keys), (), lambda reply: [bool(arg) for arg in reply], items=items)


def delete_exactly(keys: TopicKeys, id: str, nonce: bytes) -> ScriptCall[State | None]:
    """Deletes a job, if it is still the one that was added with this nonce."""
    items = [names.check_name(id, "id"), nonce, ANY_STATE]
    return ScriptCall(DELETE.script, DELETE.script.keys_for(keys), (), lambda reply: _states(reply)[0], items=items)
