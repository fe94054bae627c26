"""The actions that are allowed on a job in each state. All buttons are made from this table.

delayed ──time──▶ ready ──pop──▶ reserved ──finish──▶ gone
   ▲ ▲              ▲               │ │
   │ └── reschedule ┘   release ────┘ └── bury, last attempt ──▶ dead
   └──────────────────── kick (ready at once) ───────────────────┘
"""

from __future__ import annotations

from tarry.verbs.jobs.models import State

ACTIONS_BY_STATE: dict[State, tuple[str, ...]] = {
    "delayed": ("run-now", "reschedule", "delete"),
    "ready": ("reschedule", "delete"),
    "reserved": ("bury", "delete"),
    "dead": ("kick", "delete"),
}


def is_allowed(state: State, action: str) -> bool:
    return action in ACTIONS_BY_STATE[state]


def states_for(action: str) -> tuple[State, ...]:
    """The states in which an action is allowed."""
    return tuple(state for state in ACTIONS_BY_STATE if action in ACTIONS_BY_STATE[state])
