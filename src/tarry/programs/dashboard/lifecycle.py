"""The actions that are allowed on a job in each state: those of the job's life cycle that need no receipt of the caller's."""

from __future__ import annotations

from tarry.verbs.jobs.lifecycle import STATES, STEPS
from tarry.verbs.jobs.models import JobState, State, StateFilter

VERBS_OF_ACTIONS = {
    "run-now": "reschedule",
    "reschedule": "reschedule",
    "bury": "bury",
    "cancel": "cancel",
    "kick": "kick",
    "delete": "delete",
}


def _changes_anything(action: str, state: State) -> bool:
    steps = [step for step in STEPS if step.cause == VERBS_OF_ACTIONS[action] and step.before == state]
    return any(step.after == "ready" != state for step in steps) if action == "run-now" else bool(steps)


ACTIONS_BY_STATE: dict[State, tuple[str, ...]] = {
    state: tuple(action for action in VERBS_OF_ACTIONS if _changes_anything(action, state)) for state in STATES
}


def actions_for(state: StateFilter) -> tuple[str, ...]:
    """The actions that are allowed on jobs in a state. Retrying jobs are delayed ones; finished ones are history."""
    if state == "finished":
        return ()
    return ACTIONS_BY_STATE["delayed" if state == "retrying" else state]


def is_editable(state: JobState) -> bool:
    """Whether a job may be replaced by an edited one: not while somebody works on it, and not once it is history."""
    return state != "reserved" and any(step.cause == "add" and step.before == state for step in STEPS)


def is_allowed(state: JobState, action: str) -> bool:
    return action in actions_for(state)


def states_for(action: str) -> tuple[State, ...]:
    """The states in which an action is allowed."""
    return tuple(state for state in ACTIONS_BY_STATE if action in ACTIONS_BY_STATE[state])
