"""Reads the histories of a run and judges every job: streaming, in memory that does not grow with the run.

    histories ── item by item ──▶ buckets by id, on disk when there is much ──▶ one bucket at a time: sort, judge

Nothing of tarry is used here: what it says of itself is what is judged.
"""

from __future__ import annotations

import shutil
import tempfile
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

from . import history
from .faults import Faults
from .history import ADD, FIELDS, HANDED, KEPT, LOCKED, MAYBE, NAMES, OK, POLL, POLLED, PUSH, STATUSES, Event
from .judge import BREACHES, Judge, Rules, Tally, judge_locks

BUCKET_BYTES = 8 << 20
"""Of histories, for each bucket: some 60 MB while it is judged."""
_ID = itemgetter(0)
_KEY = itemgetter(0, 1)


@dataclass
class Verdict:
    """What a run came to."""

    tally: Tally
    faults: Faults
    seen: Counter[str] = field(default_factory=Counter)
    recovery: dict[str, list[int]] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """Outcomes that were written down, an item each; what lay there at the end does not count."""
        return sum(n for name, n in self.seen.items() if not name.startswith(NAMES[KEPT]))

    @property
    def acknowledged(self) -> int:
        return self.seen["add ok"] + self.seen["push ok"]

    def as_json(self) -> dict[str, Any]:
        return {
            "events": self.events,
            "acknowledged": self.acknowledged,
            "breaches": dict(self.tally.breaches),
            "counts": dict(sorted(self.tally.counts.items())),
            "seen": dict(sorted(self.seen.items())),
            "recovery_us": {
                name: {"times": len(took), "median": int(median(took)), "most": max(took)}
                for name, took in sorted(self.recovery.items())
            },
        }

    def excerpt(self, most: int = 1) -> str:
        """The shortest history of each breach, with what was done to the run around it."""
        lines: list[str] = []
        for name, n in self.tally.breaches.most_common():
            lines.append(f"\n{n} × {name}: {BREACHES[name]}")
            for words, events in self.tally.excerpts[name][:most]:
                lines += [f"  {words.strip()}"] if words else []
                if not events:
                    continue
                since, until = events[0][1], max(e[2] for e in events if e[2] < history.FOREVER or e is events[0])
                shown = events if len(events) <= 40 else [*events[:20], *events[-20:]]
                lines += [f"  job {events[0][0]:x}, seconds since {since} µs"]
                lines += ["  " + history.as_line(event, since) for event in shown]
                lines += [
                    "  fault" + line
                    for line in self.faults.around(since - 12_000_000, min(until, since + 60_000_000), since)
                ][:30]
        return "\n".join(lines)


class Recovery:
    """How long after the end of each fault the first job was handed out."""

    def __init__(self, faults: Faults) -> None:
        self._at = [at for at, _ in faults.healed]
        self._names = [name for _, name in faults.healed]
        self._first: dict[int, int] = {}

    def saw(self, moment: int) -> None:
        index = bisect_right(self._at, moment) - 1
        if index >= 0:
            took = moment - self._at[index]
            if took < self._first.get(index, 1 << 60):
                self._first[index] = took

    def times(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for index, took in self._first.items():
            found.setdefault(self._names[index], []).append(took)
        return found


def check(folder: Path, faults: Faults, rules: Rules | None = None, bucket_bytes: int = BUCKET_BYTES) -> Verdict:
    """Judges what the histories in a folder tell."""
    rules = rules or Rules()
    paths = sorted(folder.glob("*.history"))
    buckets = 1 + sum(path.stat().st_size for path in paths) // bucket_bytes
    verdict = Verdict(Tally(), faults)
    recovery, judge, locks = Recovery(faults), Judge(rules, faults, verdict.tally), _Locks()
    counted: Counter[tuple[int, int]] = Counter()
    taken = [0]

    def read() -> Iterator[Event]:
        for path in paths:
            for event in history.events(path):
                kind = event[3]
                counted[kind, event[4]] += 1
                if kind == HANDED:
                    recovery.saw(event[11] if rules.server_clock else event[2])
                if kind == LOCKED:
                    locks.add(event)
                elif kind == POLL:
                    taken[0] += event[8] if event[4] == MAYBE else 0
                else:
                    if kind == POLLED:
                        recovery.saw(event[2])
                    yield event

    for events in _jobs(read(), buckets):
        judge.job(events)
    judge.keys()
    locks.judge(verdict.tally)
    unseen = verdict.tally.counts["taken by who did not live to tell"]
    if unseen > taken[0]:
        verdict.tally.breach("lost", [], f"{unseen} items were polled by nobody; lost answers took {taken[0]} at most")
    for (kind, status), n in counted.items():
        verdict.seen[f"{NAMES[kind]} {STATUSES[status]}"] += n
    verdict.recovery = recovery.times() | verdict.tally.recovery
    return verdict


class _Locks:
    def __init__(self) -> None:
        self._held: dict[int, list[Event]] = {}

    def add(self, event: Event) -> None:
        self._held.setdefault(event[0], []).append(event)

    def judge(self, tally: Tally) -> None:
        for held in self._held.values():
            judge_locks(held, tally)


def _jobs(events: Iterable[Event], buckets: int) -> Iterator[list[Event]]:
    """The events of each id, by the moments at which they began."""
    if buckets == 1:
        yield from _grouped(list(events))
        return
    folder = Path(tempfile.mkdtemp(prefix="tarry-", dir="/tmp"))
    try:
        held = [array("q") for _ in range(buckets)]
        files = [(folder / str(n)).open("wb") for n in range(buckets)]
        for event in events:
            # ids of one producer rise by one: their last digits spread them
            n = (event[0] ^ event[0] >> 24) % buckets
            one = held[n]
            one.extend(event)
            if len(one) > 14_000:
                files[n].write(one)
                del one[:]
        for n, file in enumerate(files):
            file.write(held[n])
            file.close()
        del held
        for n in range(buckets):
            cells = array("q")
            path = folder / str(n)
            cells.frombytes(path.read_bytes())
            path.unlink()
            yield from _grouped(list(zip(*[iter(cells)] * FIELDS, strict=True)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _grouped(rows: list[Event]) -> Iterator[list[Event]]:
    rows.sort(key=_KEY)
    for _, group in groupby(rows, _ID):
        yield list(group)


__all__ = ["ADD", "OK", "PUSH", "Verdict", "check"]
