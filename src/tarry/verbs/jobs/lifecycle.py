"""The life cycle of a job: each step from one state to another, and what causes it.

The buttons of the dashboard, the picture in the docs and the tests of the model use this table; each step is tried on a server.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tarry.verbs.jobs.job_values import State

Place = State | Literal["new", "gone"]


class Step(NamedTuple):
    """One step. ``cause`` is a verb, or ``time``: nothing is written, the same record has another state."""

    cause: str
    before: Place
    after: Place
    condition: str = ""


STATES: tuple[State, ...] = ("delayed", "ready", "reserved", "dead")
STEPS = (
    Step("add", "new", "delayed", "with a delay"),
    Step("add", "new", "ready"),
    Step("time", "delayed", "ready", "it is due"),
    Step("reschedule", "delayed", "delayed"),
    Step("reschedule", "delayed", "ready"),
    Step("reschedule", "ready", "delayed"),
    Step("reschedule", "ready", "ready"),
    Step("pop", "ready", "reserved"),
    Step("pop", "ready", "dead", "too late, or no attempt left"),
    Step("touch", "reserved", "reserved"),
    Step("finish", "reserved", "gone"),
    Step("release", "reserved", "delayed", "after a back-off"),
    Step("release", "reserved", "ready", "at once"),
    Step("release", "reserved", "dead", "last attempt"),
    Step("time", "reserved", "ready", "its TTR is over"),
    Step("bury", "reserved", "dead"),
    Step("cancel", "reserved", "gone"),
    Step("kick", "dead", "ready"),
    Step("pop", "dead", "gone", "after 30 days"),
    *(Step("delete", state, "gone") for state in STATES),
    *(Step("add", state, "delayed", "replaces it, with a delay") for state in STATES),
    *(Step("add", state, "ready", "replaces it") for state in STATES),
)
