"""Popping jobs: ``pop_step``, and ``leave_watch`` for a consumer that no longer waits.

pop ──▶ jobs                                       the attempt counts, even if the reply is lost
pop ──▶ jobs for their last attempt ──▶ confirm    the attempt counts from here on: a job must not die of a lost reply
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec import Struct

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import MILLISECOND, Duration, duration_us
from tarry.values.keys import KEY_PARTS, POPPING_PARTS, WAITING_PARTS, TopicKeys
from tarry.verbs.jobs.job_values import PoppedFields, Reservation, State
from tarry.verbs.jobs.settle import RELEASE, Outcome, items_to_give_back

T = TypeVar("T")

POP = Script(
    "topic/pop", args=("min_jobs", "ttr", "holder", "waiter"), item=("max_jobs",), keys=POPPING_PARTS, learns_keys=True
)
POP_BY_ID = Script("topic/pop_by_id", args=("id", "states", "ttr", "holder"), keys=(*WAITING_PARTS, *KEY_PARTS))
CONFIRM = Script("topic/confirm", item=("id", "receipt"))
LEAVE = Script("topic/leave", args=("waiter",))
LOOK = Script("topic/look", keys=())
MOST_JOBS = 1000
"""One script hands out no more jobs; a larger ``pop_many`` is refused, for it would block the server."""
NOBODY = b""
ASK_AGAIN, FIRE, KEEPS = 1, 2, 4

RawJob = PoppedFields
"""id, head and body, attempt (less than 0: the last, to be confirmed), due, TTR in µs."""


class PopReply(Struct, frozen=True, eq=False):
    """The answer of one pop."""

    now: int
    receipt: int
    wait: int
    """Microseconds until the alarm, for a consumer that waits."""
    seat: int
    """1, 2 or 0: which seat of the watch the consumer took."""
    unfinished: int
    """The next action if no jobs came: 0 nothing, ``ASK_AGAIN`` or ``FIRE``."""
    jobs: list[RawJob]
    keeps_finished: bool = False
    """Whether the topic keeps finished jobs."""

    @property
    def ask_again(self) -> bool:
        """No jobs came, but the script has put some back, or others got them, or schedules are due: pop again at once."""
        return self.unfinished > 0 and not self.jobs


def _parse_reply(reply: Reply) -> PopReply:
    now, receipt, wait, seat, todo, ttr, flat = reply
    fields = iter(flat)
    jobs = [
        (id, value, 1, due, ttr) if type(due) is int else (id, value, due[1], due[0], due[2])
        for id, value, due in zip(fields, fields, fields, strict=True)
    ]
    return PopReply(now, receipt, wait, seat, todo % KEEPS, jobs, todo >= KEEPS)


def pop_step(
    keys: TopicKeys, max_jobs: int, *, ttr: bytes, holder: bytes, min_jobs: int = 0, waiter_id: bytes = NOBODY
) -> ScriptCall[PopReply]:
    """One pop. ``waiter_id`` waits when fewer than ``min_jobs`` jobs come. Pops for one job each may be merged into one script."""

    def undo(taken: PopReply) -> ScriptCall[Any] | None:
        return give_back_reply(keys, taken.receipt, taken.jobs) if taken.jobs else None

    args, items = (b"%d" % min_jobs, ttr, holder, waiter_id), (b"%d" % max_jobs,)
    return ScriptCall(
        POP,
        POP.keys_for(keys),
        args,
        _parse_reply,
        items=items,
        reply_header=6,
        never_merged=max_jobs > 1 or min_jobs > 0,
        undo=undo,
    )


def pop_by_id(
    keys: TopicKeys, id: str, states: Sequence[State], *, ttr: bytes, holder: bytes
) -> ScriptCall[PopReply | None]:
    """Pops one job by its id, past the topic's pause and limits; ``None`` if it is in none of these states. A job whose reply is
    lost comes back after its TTR."""

    def decode(reply: Reply) -> PopReply | None:
        return PopReply(reply[0], reply[1], 0, 0, 0, [tuple(reply[2:])]) if reply else None

    def undo(taken: PopReply | None) -> ScriptCall[Any] | None:
        return give_back_reply(keys, taken.receipt, taken.jobs) if taken else None

    args = (names.check_name(id, "id"), " ".join(states).encode(), ttr, holder)
    return ScriptCall(POP_BY_ID, POP_BY_ID.keys_for(keys), args, decode, never_merged=True, undo=undo)


def confirm_last_attempts(keys: TopicKeys, taken: PopReply) -> Flow[PopReply]:
    """Confirms last attempts, and returns the jobs that the consumer has. A last attempt whose reply is lost does not count.

    A job whose TTR has ended meanwhile is left out. Raises a ``TarryError``: then the jobs come back after their TTR.
    """
    last = [job[0] for job in taken.jobs if job[2] < 0]
    if not last:
        return taken
    receipt = b"%d" % taken.receipt
    items = [arg for id in last for arg in (id, receipt)]
    confirmed: list[int] = yield from ask(
        ScriptCall(
            CONFIRM, keys, (), list, items=items, undo=lambda _: give_back_reply(keys, taken.receipt, taken.jobs)
        )
    )
    gone = {id for id, is_ours in zip(last, confirmed, strict=True) if not is_ours}
    jobs = [(id, value, abs(attempt), at, ttr) for id, value, attempt, at, ttr in taken.jobs if id not in gone]
    unfinished = taken.unfinished if jobs else ASK_AGAIN
    return PopReply(taken.now, taken.receipt, taken.wait, taken.seat, unfinished, jobs, taken.keeps_finished)


def give_back_reply(keys: TopicKeys, receipt: int, jobs: Sequence[RawJob]) -> ScriptCall[list[Outcome]]:
    """Releases the jobs of one pop to where they were, as if they had not been handed out."""
    reserved = [Reservation(job[0].decode(), receipt) for job in jobs]
    return RELEASE.call(keys, items_to_give_back(reserved, [job[3] for job in jobs]))


def pop_now(keys: TopicKeys, max_jobs: int, *, ttr: bytes, holder: bytes) -> Flow[PopReply]:
    """Pops until there are jobs, or certainly none."""
    while True:
        taken: PopReply = yield pop_step(keys, max_jobs, ttr=ttr, holder=holder)
        if any(job[2] < 0 for job in taken.jobs):
            taken = yield from confirm_last_attempts(keys, taken)
        if taken.unfinished == FIRE:
            from tarry.verbs.schedules import fire as occurrences

            yield from occurrences.fire_due(keys)
        if not taken.ask_again:
            return taken


def leave_watch(keys: TopicKeys, waiter_id: bytes) -> ScriptCall[None]:
    """Gives back a seat and a token."""
    return ScriptCall(LEAVE, keys, (waiter_id,), lambda reply: None)


def look(topics: Sequence[TopicKeys]) -> ScriptCall[list[int]]:
    """Which of several topics must be popped from now: their numbers, from 1. The others have nothing to do before the next look."""
    return ScriptCall(LOOK, tuple([key for keys in topics for key in (keys.due, keys.reserved, keys.meta)]), (), list)


def ttr_of(ttr: Duration | None) -> bytes:
    """The consumer's TTR in microseconds; 0 if none is given."""
    return b"%d" % duration_us(ttr, "ttr", minimum=MILLISECOND) if ttr is not None else b"0"


def checked_limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_JOBS:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to {MOST_JOBS}.")
    return limit
