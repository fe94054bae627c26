"""The actions on jobs, and in which states they are allowed: those of the job's life cycle that need no receipt of the caller's.

A test compares them with the table of the life cycle (docs/life_cycle.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from tarry.types import JobState, State, StateFilter


@dataclass(frozen=True, slots=True)
class JobAction:
    """An action on jobs: the verb that does it, its word on a button, and the word for jobs that it was done to."""

    verb: str
    word: str
    done: str
    destroys: bool = False


JOB_ACTIONS = {
    "run-now": JobAction("reschedule", "run now", "made due now"),
    "reschedule": JobAction("reschedule", "reschedule", "rescheduled"),
    "kick": JobAction("kick", "kick", "kicked"),
    "bury": JobAction("bury", "bury", "buried", destroys=True),
    "cancel": JobAction("cancel", "cancel", "cancelled", destroys=True),
    "delete": JobAction("delete", "delete", "deleted", destroys=True),
}
"""In the order of their buttons on every page: what destroys comes after the rest, and delete is the last."""


ACTIONS_BY_STATE: dict[State, tuple[str, ...]] = {
    "delayed": ("run-now", "reschedule", "delete"),
    "ready": ("reschedule", "delete"),
    "reserved": ("bury", "cancel", "delete"),
    "dead": ("kick", "delete"),
}


def actions_for(state: StateFilter) -> tuple[str, ...]:
    """The actions that are allowed on jobs in a state. Retrying jobs are delayed ones; finished ones are history."""
    if state == "finished":
        return ()
    return ACTIONS_BY_STATE["delayed" if state == "retrying" else state]


def is_editable(state: JobState) -> bool:
    """Whether a job may be replaced by an edited one: not while somebody works on it, and not once it is history."""
    return state in ("delayed", "ready", "dead")


def is_allowed(state: JobState, action: str) -> bool:
    return action in actions_for(state)


def states_for(action: str) -> tuple[State, ...]:
    """The states in which an action is allowed."""
    return tuple(state for state in ACTIONS_BY_STATE if action in ACTIONS_BY_STATE[state])
