"""Where jobs of a state lie: the state is the place and the clock."""

from __future__ import annotations

from tarry.errors import BadInput
from tarry.verbs.jobs.models import State

Range = tuple[bytes, bytes]
"""A set, and the side of it: all, past or future."""
_RANGES: dict[State, list[Range]] = {
    "ready": [(b"due", b"past"), (b"reserved", b"past")],
    "delayed": [(b"due", b"future")],
    "reserved": [(b"reserved", b"future")],
    "dead": [(b"dead", b"all")],
}


def ranges_of(state: State | None) -> list[Range]:
    """Where jobs of a state lie."""
    if state is None:
        return [(b"due", b"all"), (b"reserved", b"all"), (b"dead", b"all")]
    if state not in _RANGES:
        raise BadInput(f"state: {state!r} is unknown; it is one of {', '.join(_RANGES)}.")
    return _RANGES[state]
