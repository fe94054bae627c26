"""Where the jobs of each state are stored: the state follows from the sorted set and the clock. Retrying jobs are delayed ones, and in a set of their own too. Finished jobs are history:
they are there if the topic or the task keeps them, and only a state that names them contains them."""

from __future__ import annotations

from tarry.errors import BadInput
from tarry.verbs.jobs.models import StateFilter

Range = tuple[bytes, bytes]
"""A sorted set, and its side of the present: all, past or future."""
_RANGES: dict[StateFilter, list[Range]] = {
    "ready": [(b"due", b"past"), (b"reserved", b"past")],
    "delayed": [(b"due", b"future")],
    "reserved": [(b"reserved", b"future")],
    "dead": [(b"dead", b"all")],
    "retrying": [(b"retrying", b"future")],
    "finished": [(b"finished", b"future")],
}


def ranges_of(state: StateFilter | None) -> list[Range]:
    """The ranges that contain the jobs of a state; without a state, of all jobs."""
    if state is None:
        return [(b"due", b"all"), (b"reserved", b"all"), (b"dead", b"all")]
    if state not in _RANGES:
        raise BadInput(f"state: {state!r} is unknown; it is one of {', '.join(_RANGES)}.")
    return _RANGES[state]
