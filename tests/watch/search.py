"""The search: every order of events; a state that was seen before is not explored again."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from watch.model import Watch
from watch.states import FOR_EVER, NEVER, State, name

Key = tuple[Any, ...]


def same(s: State) -> Key:
    """Consumers are alike: states that differ by their names are one."""
    return (tuple(sorted(s.crew)), *s[1:])


def lateness(s: State) -> int:
    late = min(0, s.fires, s.reserved, *s.jobs)
    for c in s.crew:
        if c.held:
            late = min(late, *c.held)
    return -late


@dataclass
class Finding:
    what: str
    trace: list[tuple[str, State]]

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"  {label:44}{picture(s)}" for label, s in self.trace)])


def picture(s: State) -> str:
    crew = "  ".join(
        f"{name(i)}:{c.life if c.life != 'up' else c.phase}"
        + (f"({c.line})" if c.line else "")
        + (f" alarm {c.alarm}" if c.alarm != NEVER else "")
        + (f" seat@{c.promise}" if c.promise != NEVER else "")
        + (f" holds {c.held}" if c.held else "")
        for i, c in enumerate(s.crew)
    )
    lists = " wake" * s.wake + " relay" * s.relay
    paused = "" if s.paused == NEVER else " paused" if s.paused == FOR_EVER else f" paused for {s.paused}"
    held = (
        f" rate {s.gate}" * (s.gate > 0)
        + f" schedule {s.fires}" * (s.fires != NEVER)
        + f" reserved {s.reserved}" * (s.reserved != NEVER)
    )
    return f"jobs {list(s.jobs)}{lists}{paused}{held}  |  {crew}"


@dataclass
class Report:
    states: int = 0
    latest: int = 0  # ticks
    looks: int = 0  # the most pops that one event caused, when looks are counted
    finding: Finding | None = None


def explore(watch: Watch, start: State, *, late: int, looks: int | None = None) -> Report:
    """Try everything, breadth first (so a finding is a shortest one); stop at the first broken promise."""
    collects = gc.isenabled()
    gc.disable()  # millions of states and no cycle among them: looking for one would be a quarter of the time
    try:
        return _explore(watch, start, late, looks)
    finally:
        if collects:
            gc.enable()


def _explore(watch: Watch, start: State, late: int, looks: int | None) -> Report:
    report = Report()
    came: dict[Key, tuple[Key | None, str, State]] = {}  # state → from where, by what; names stay those of the path
    ahead: deque[tuple[Key, State]] = deque()
    quiet: list[tuple[Key, str, State]] = []  # events that meet everybody at rest

    def meet(label: str, s: State, parent: Key | None) -> None:
        key = same(s)
        met = (parent, label, s)
        if came.setdefault(key, met) is met:
            ahead.append((key, s))

    def found(what: str, key: Key | None, *after: tuple[str, State]) -> Report:
        trace = []
        while key is not None:
            key, label, s = came[key]
            trace.append((label, s))
        report.finding = Finding(what, [*trace[::-1], *after])
        return report

    meet("start", start, None)
    while ahead:
        key, s = ahead.popleft()
        report.states = len(came)
        is_late = lateness(s)
        report.latest = max(report.latest, is_late)
        if is_late > late:
            return found(f"a job is late by {is_late}, {late} allowed", key)
        each = [watch.step(s, i) for i in range(len(s.crew))]
        if wrong := watch.broken(s, each):
            return found(wrong, key)
        steps = [step for step in each if step]
        events = list(watch.events(s))
        if not steps:  # everybody rests
            events.append(("— a tick", watch.tick(s)))
            if looks is not None:
                quiet += [(key, label, t) for label, t in events]
        for label, t in steps + events:
            meet(label, t, key)

    if looks is not None:
        count_looks(watch, quiet, looks, report, found)
    return report


SPIN = 10**6


def count_looks(
    watch: Watch, quiet: list[tuple[Key, str, State]], allowed: int, report: Report, found: Callable[..., Report]
) -> None:
    known: dict[Key, int] = {}
    for key, label, s in quiet:
        n = most_looks(watch, s, known)
        report.looks = max(report.looks, n)
        if n > allowed:
            many = str(n) if n < SPIN else "endless"
            found(f"one event caused {many} looks, {allowed} allowed", key, (label, s), *busiest(watch, s, known))
            return


def most_looks(watch: Watch, start: State, known: dict[Key, int]) -> int:
    """The most pops before everybody rests again, over all orders of steps; SPIN when they need not end.

    A look-around (the alarm of a consumer without a seat) is not caused by the event and not counted."""
    stack: list[tuple[State, Key, list[tuple[int, State]] | None]] = [(start, same(start), None)]
    open_: set[Key] = set()
    while stack:
        s, key, after = stack.pop()
        if after is None:
            if key in known or key in open_:
                continue
            after = []
            for i, c in enumerate(s.crew):
                if step := watch.step(s, i):
                    around = (
                        c.phase == "waiting" and c.seat == 0 and c.alarm <= 0 and step[1].crew[i].phase == "looking"
                    )
                    after.append((int(c.phase == "looking") - int(around), step[1]))
            open_.add(key)
            stack.append((s, key, after))
            for _, t in after:
                k = same(t)
                if k in open_:
                    known[key] = SPIN
                stack.append((t, k, None))
        else:
            open_.discard(key)
            best = max((cost + known.get(same(t), SPIN) for cost, t in after), default=0)
            known[key] = SPIN if best > SPIN // 2 else best
    return known[same(start)]


def busiest(watch: Watch, s: State, known: dict[Key, int]) -> Iterator[tuple[str, State]]:
    """The steps of the longest such run; of an endless one, its beginning."""
    for _ in range(30):
        steps = [step for i in range(len(s.crew)) if (step := watch.step(s, i))]
        if not steps:
            return
        label, s = max(steps, key=lambda step: known.get(same(step[1]), SPIN))
        yield label, s
