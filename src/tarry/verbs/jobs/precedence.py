"""Which value of a setting counts, where several are given: the most specific one.

    the attempt ▶ the job ▶ the call that added it ▶ the handler or task ▶ the worker ▶ the topic ▶ the default

``decide`` is the rule. The scripts decide where only they see the job and the topic together; a job of ``add_many``, and a delay that an
attempt asks for, take a short way of their own. tests/scripts/test_precedence.py compares all of them with the rule, for each pair of
levels. docs/reference/precedence.md is made from the settings below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, NamedTuple, get_args

from msgspec import UNSET

Level = Literal["attempt", "job", "call", "handler", "worker", "topic", "default"]
"""Where a value is given, the most specific place first."""
LEVELS: tuple[Level, ...] = get_args(Level)


class Decision(NamedTuple):
    """The value that counts, and where it was given."""

    value: Any
    level: Level


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, and how it is given on each level. Of the levels in ``smallest`` none wins over the other: the smallest value counts."""

    name: str
    given_by: Mapping[Level, str]
    default: Any
    default_text: str
    smallest: tuple[Level, ...] = ()
    takes_none: bool = False
    """Whether ``None`` is a value, and not the same as leaving it out."""
    note: str = ""

    def is_given(self, value: Any) -> bool:
        return value is not UNSET and (self.takes_none or value is not None)


def decide(setting: Setting, given: Mapping[Level, Any]) -> Decision:
    """The value that counts, of those that are given. A level that is not in ``given`` gives none; nor do ``UNSET``, and ``None`` where
    it is no value."""
    for level in LEVELS:
        if not setting.is_given(given.get(level, UNSET)):
            continue
        if level not in setting.smallest:
            return Decision(given[level], level)
        equals: list[Level] = [one for one in setting.smallest if setting.is_given(given.get(one, UNSET))]
        smallest = min(equals, key=given.__getitem__)
        return Decision(given[smallest], smallest)
    return Decision(setting.default, "default")


def _job_and_call(name: str) -> dict[Level, str]:
    return {"job": f"`NewJob({name}=…)`", "call": f"`{name}=` of `add`, `add_many`, `options`, `schedules.put`"}


def _handler(name: str) -> str:
    return f"`{name}=` of `@worker.on`, `@worker.task`"


TTR = Setting(
    "ttr",
    {
        **_job_and_call("ttr"),
        "handler": "`ttr=` of `pop`, `@worker.on`",
        "worker": "`Worker(ttr=…)`, which is 15 s if it is not given",
        "topic": "`configure(ttr=…)`",
    },
    timedelta(seconds=60),
    "60 s",
    note="a worker always has a short `ttr`, and never uses the topic's, because it renews the reservations of running jobs. "
    "`touch(ttr=…)` applies to one renewal.",
)
MAX_ATTEMPTS = Setting(
    "max_attempts",
    {**_job_and_call("max_attempts"), "handler": _handler("max_attempts"), "topic": "`configure(max_attempts=…)`"},
    20,
    "20",
    takes_none=True,
    note="only the worker knows the handler's. If an attempt ends with its process, or runs out of its time, the server uses the job's "
    "or the topic's.",
)
MAX_LATENESS = Setting(
    "max_lateness",
    {
        **_job_and_call("max_lateness"),
        "handler": "`@worker.on(max_lateness=…)`",
        "topic": "`configure(max_lateness=…)`",
    },
    None,
    "none",
    smallest=("handler", "topic"),
    note="the smaller one of the handler's and the topic's counts, because a job that is too late for its topic is dead before a handler "
    "sees it.",
)
KEEP_FINISHED = Setting(
    "keep_finished",
    {"handler": _handler("keep_finished"), "topic": "`configure(keep_finished=…)`"},
    None,
    "not kept",
    note="0 of a handler keeps none of its finished jobs, whatever the topic says.",
)
PRIORITY = Setting("priority", _job_and_call("priority"), 0, "0")
RETRY = Setting(
    "retry",
    {"attempt": "`raise Retry(after=…)`, `release(delay=…)`", "handler": _handler("retry")},
    None,
    "1 s, 2 s, 4 s, … ± 20 %, at most an hour",
    note="how long a failed job waits.",
)
SETTINGS = (TTR, MAX_ATTEMPTS, MAX_LATENESS, KEEP_FINISHED, PRIORITY, RETRY)
