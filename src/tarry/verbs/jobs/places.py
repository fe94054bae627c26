"""Where jobs of a state lie: the state is the place and the clock."""

from __future__ import annotations

from tarry.errors import BadInput
from tarry.verbs.jobs.shapes import State

Place = tuple[bytes, bytes]
"""A set, and the side of it: all, past or future."""
_PLACES: dict[State, list[Place]] = {
    "ready": [(b"due", b"past"), (b"reserved", b"past")],
    "delayed": [(b"due", b"future")],
    "reserved": [(b"reserved", b"future")],
    "dead": [(b"dead", b"all")],
}


def places_of(state: State | None) -> list[Place]:
    """Where jobs of a state lie."""
    if state is None:
        return [(b"due", b"all"), (b"reserved", b"all"), (b"dead", b"all")]
    if state not in _PLACES:
        raise BadInput(f"state: {state!r} is unknown; it is one of {', '.join(_PLACES)}.")
    return _PLACES[state]
