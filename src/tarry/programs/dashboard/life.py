"""What may be done with a job, by the state it is in: the only source of the buttons.

delayed ──time──▶ ready ──pop──▶ reserved ──finish──▶ gone
   ▲ ▲              ▲               │ │
   │ └── reschedule ┘   release ────┘ └── bury, last attempt ──▶ dead
   └──────────────────── kick (ready at once) ───────────────────┘
"""

from __future__ import annotations

from tarry.verbs.jobs.models import State

LIFE: dict[State, tuple[str, ...]] = {
    "delayed": ("run-now", "reschedule", "delete"),
    "ready": ("reschedule", "delete"),
    "reserved": ("bury", "delete"),
    "dead": ("kick", "delete"),
}


def allowed(state: State, action: str) -> bool:
    return action in LIFE[state]


def states_of(action: str) -> tuple[State, ...]:
    """Where an action applies."""
    return tuple(state for state in LIFE if action in LIFE[state])
