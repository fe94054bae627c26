"""What one process has in its hands, as a whole: ``release_holder`` when it is dead, ``touch_holder`` when it cannot.

Flows of bounded steps through the reservations of a topic; each step leaves every job in one place. No receipt is asked:
they are for whoever started the process, and knows.
"""

from __future__ import annotations

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import names
from tarry.values.durations import MILLISECOND, Duration, duration_us
from tarry.values.keys import TopicKeys

RELEASE_HOLDER = Script("topic/release_holder", args=("holder", "counted", "most", "cursor", "limit"))
TOUCH_HOLDER = Script("topic/touch_holder", args=("holder", "ttr", "cursor", "limit"))
LONGEST_HOLDER = 255
_STEP = b"500"
_FIRST = b"0"


def release_holder(keys: TopicKeys, holder: str, *, count: bool = False, limit: int | None = None) -> Flow[int]:
    """All that the holder has, or so many, is ready again. Answers how many jobs it had."""
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise BadInput(f"limit: {limit!r}; it is a whole number, at least 1.")
    args = (encode_holder(holder), b"1" if count else b"0")
    return (yield from _in_steps(RELEASE_HOLDER, keys, args, limit))


def touch_holder(keys: TopicKeys, holder: str, ttr: Duration) -> Flow[int]:
    """All that the holder has lasts ``ttr`` from now at least. Answers how many were renewed."""
    args = (encode_holder(holder), b"%d" % duration_us(ttr, "ttr", minimum=MILLISECOND))
    return (yield from _in_steps(TOUCH_HOLDER, keys, args, None))


def _in_steps(script: Script, keys: TopicKeys, args: tuple[bytes, ...], limit: int | None) -> Flow[int]:
    cursor, found = _FIRST, 0
    while True:
        most = (b"" if limit is None else b"%d" % (limit - found),) if script is RELEASE_HOLDER else ()
        cursor, step = yield from ask(ScriptCall(script, keys, (*args, *most, cursor, _STEP), _parse_step))
        found += step
        if cursor == _FIRST or found == limit:
            return found


def _parse_step(reply: Reply) -> tuple[bytes, int]:
    return reply[0], reply[1]


def new_holder_of(value: str) -> bytes:
    """The same for who begins to take jobs."""
    names.refuse_dots(value, "holder")
    return encode_holder(value)


def encode_holder(value: str) -> bytes:
    """A holder's name as it is stored. Raises ``BadInput``."""
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else b""
    if not 0 < len(raw) <= LONGEST_HOLDER:
        raise BadInput(f"holder: {value!r}; it is a name of 1 to {LONGEST_HOLDER} bytes.")
    return raw
