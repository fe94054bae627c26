"""All reservations of one holder: ``release_holder`` when its process is dead, ``touch_holder`` when it cannot renew them
itself.

Flows of bounded steps through the reservations of a topic; after each step every job is in one place. They need no receipt:
they are for the parent of a worker process.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarry.core.requests import Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import MILLISECOND, Duration, duration_us
from tarry.values.keys import KEY_PARTS, WAITING_PARTS, TopicKeys

RELEASE_HOLDER = Script(
    "topic/release_holder",
    args=("holder", "counted", "max_jobs", "absence", "after", "up_to", "cursor", "limit"),
    item=("receipt",),
    keys=(*WAITING_PARTS, *KEY_PARTS),
)
TOUCH_HOLDER = Script("topic/touch_holder", args=("holder", "ttr", "cursor", "limit"))
LONGEST_HOLDER = 255
MOST_DIGITS = 16
"""Of a receipt, which the server's scripts keep exact."""
_STEP = b"500"
_FIRST_STEP = 15
"""Of the first step for a holder that is missed. Those of 64 topics are one pipeline then: few topics have more of its jobs."""
_FIRST = b"0"
_NOT_GIVEN = b""
TOO_YOUNG, LIVES = -1, -2
"""Why the jobs of a holder that is missed are not released: not yet; or not at all."""


def release_holder(keys: TopicKeys, holder: str, *, counted: bool, limit: int | None = None) -> Flow[int]:
    """Makes all jobs of a holder ready again, or at most ``limit``. Returns their number."""
    check_limit(limit)
    args = (encode_holder(holder), b"1" if counted else b"0")
    return (yield from _in_steps(RELEASE_HOLDER, RELEASE_HOLDER.keys_for(keys), args, limit, (_NOT_GIVEN,) * 3))


def ask_absent(keys: TopicKeys, holder: str, since: bytes) -> Flow[int]:
    """Lets the topic look out for signs of life of a holder that is missed ``since`` a moment. Returns 0 when its jobs can be released,
    ``TOO_YOUNG`` before that, and ``LIVES`` if it has popped, finished or renewed since."""
    args = (encode_holder(holder), b"1", b"0", since, _NOT_GIVEN, _NOT_GIVEN, _FIRST, b"1")
    _, answer = yield from ask(ScriptCall(RELEASE_HOLDER, RELEASE_HOLDER.keys_for(keys), args, _parse_step))
    return answer


def release_absent(keys: TopicKeys, holder: str, since: bytes) -> Flow[int]:
    """Makes all jobs of a holder that is missed ready again; the attempts count. Returns their number, or what ``ask_absent`` does."""
    cursor, total, limit = _FIRST, 0, _FIRST_STEP
    while True:
        args = (encode_holder(holder), b"1", b"", since, _NOT_GIVEN, _NOT_GIVEN, cursor, b"%d" % limit)
        cursor, step = yield from ask(ScriptCall(RELEASE_HOLDER, RELEASE_HOLDER.keys_for(keys), args, _parse_step))
        if step < 0:
            return step
        total += step
        if cursor == _FIRST:
            return total
        limit = min(2 * limit, int(_STEP))


def parse_receipt(stored: bytes | None) -> int:
    """The receipt that a topic's ``last`` has; 0 if it has none, or is damaged: the next pop repairs it."""
    return int(stored) if stored and len(stored) <= MOST_DIGITS and stored.isdigit() else 0


def last_receipt(keys: TopicKeys) -> Command[int]:
    """The last receipt that was handed out, to anybody."""
    return Command((b"HGET", keys.meta, b"last"), parse_receipt)


def release_lost(keys: TopicKeys, holder: bytes, after: int, up_to: int, answered: Iterable[int]) -> Flow[int]:
    """Makes the jobs of pops whose answers were lost ready again, and takes their attempts back. They have a receipt above ``after``, up to
    ``up_to``, which is none of those that were ``answered``. Returns their number."""
    items = [b"%d" % receipt for receipt in answered]
    cursor, total = _FIRST, 0
    while True:
        args = (holder, b"0", b"", _NOT_GIVEN, b"%d" % after, b"%d" % up_to, cursor, _STEP)
        call = ScriptCall(
            RELEASE_HOLDER, RELEASE_HOLDER.keys_for(keys), args, _parse_step, items=items, never_merged=True
        )
        cursor, step = yield from ask(call)
        total += step
        if cursor == _FIRST:
            return total


def worst_of(answers: Iterable[int]) -> int:
    """Of several topics or partitions: the sum, unless one refuses to release."""
    found = list(answers)
    return min(min(found, default=0), 0) or sum(found)


def check_limit(limit: int | None) -> None:
    """Raises ``BadInput`` unless ``limit`` is a number of jobs from 1, or ``None``: all of them."""
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise BadInput(f"limit: {limit!r}; it is a whole number, at least 1.")


def touch_holder(keys: TopicKeys, holder: str, ttr: Duration) -> Flow[int]:
    """Renews all reservations of a holder, to last at least ``ttr`` from now. Returns their number."""
    args = (encode_holder(holder), b"%d" % ttr_us(ttr))
    return (yield from _in_steps(TOUCH_HOLDER, keys, args, None))


def ttr_us(ttr: Duration) -> int:
    """How long reservations shall last, in µs. Raises ``BadInput``."""
    return duration_us(ttr, "ttr", minimum=MILLISECOND)


def _in_steps(
    script: Script,
    keys: tuple[bytes, ...],
    args: tuple[bytes, ...],
    limit: int | None,
    more: tuple[bytes, ...] = (),
) -> Flow[int]:
    cursor, total = _FIRST, 0
    while True:
        most = (b"" if limit is None else b"%d" % (limit - total),) if script is RELEASE_HOLDER else ()
        cursor, step = yield from ask(ScriptCall(script, keys, (*args, *most, *more, cursor, _STEP), _parse_step))
        total += step
        if cursor == _FIRST or total == limit:
            return total


def _parse_step(reply: Reply) -> tuple[bytes, int]:
    return reply[0], reply[1]


def encode_holder(value: str) -> bytes:
    """A holder's name as it is stored. Raises ``BadInput``."""
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else b""
    if not 0 < len(raw) <= LONGEST_HOLDER:
        raise BadInput(f"holder: {value!r}; it is a name of 1 to {LONGEST_HOLDER} bytes.")
    if value in names.DOTS:
        raise BadInput(f"holder: {value!r} means a folder in a URL; choose another name.")
    return raw
