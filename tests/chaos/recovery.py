"""By when the jobs of a killed worker are to be ready again, by the journal of a run. Nothing of tarry is used here.

    killed ──── 2 s ────▶ ready again                                if another worker ran all the time
    killed ── known: the first of those that run for 2 s ── 2 s ──▶  if none did

A worker runs from the moment at which the server knows it to its end, but for the spans in which it was suspended or some of its
connections were half open. A thread sleeps for 0.1 s and asks the server, twenty times in two seconds; how much later it is than that tells
how long each turn of a worker takes: on a machine that gives nobody a turn, nobody can keep a promise in seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

PROMISED_US, PROMISED_TURNS = 2_000_000, 20
REQUESTS, TOO_LATE_US = 30, 1_000_000
"""So many turns a worker may need meanwhile. Where twenty turns of a thread take three seconds, nothing is judged."""
CUT_OFF_US = 10_000_000
"""So long after all its connections had ended without its notice a worker may be overtaken: then it has made new ones."""
AFTER_US = 2_000_000
FOREVER = 1 << 60
ALL_KINDS = 3


def _hides_an_end(half_open: dict[str, Any]) -> bool:
    return "subscribed" in half_open["kinds"] or (half_open["way"] == "hold" and "blocked" in half_open["kinds"])


@dataclass(frozen=True)
class Death:
    """Of a worker that was killed: when, in which fault, and by when its jobs are to be back; never, if none ran or nothing told of it."""

    at: int
    name: str
    back_by: int


class Workers:
    """When each worker ran, and when it was killed."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        by: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for entry in entries:
            by[entry["what"]].append(entry)
        self._ends = {e["who"]: e["at"] for e in by["ended"]}
        self._killed = {e["who"]: e for e in by["ended"] if e["how"] == "killed" and e.get("role") == "worker"}
        self._known = {e["who"]: e["at"] for e in by["known"]}
        self._away: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._half_open: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for e in by["frozen"] + by["half-open"]:
            self._away[e["who"]].append((e["since"], e["until"] + AFTER_US))
        for e in by["half-open"]:
            self._half_open[e["who"]].append(e)
        self._turns = [at for e in by["turns"] for at in e["moments"]]
        self._deaths: dict[int, Death] = {}

    def was_cut_off(self, who: int, at: int) -> bool:
        """Whether all connections of a worker had ended without its notice, just before."""
        return any(
            len(e["kinds"]) == ALL_KINDS and e["since"] <= at <= e["since"] + CUT_OFF_US for e in self._half_open[who]
        )

    def death(self, who: int) -> Death | None:
        """``None``: it was no worker, or not killed."""
        entry = self._killed.get(who)
        if entry is None or not self._known:
            return None
        if who not in self._deaths:
            at = entry["at"]
            self._deaths[who] = Death(
                at, entry["name"], FOREVER if self._is_hidden(who, at) else self._back_by(who, at)
            )
        return self._deaths[who]

    def _is_hidden(self, who: int, at: int) -> bool:
        """Whether the server may not have seen its connections end, or had just been told that it lives."""
        return any(_hides_an_end(e) and e["since"] <= at <= e["until"] + AFTER_US for e in self._half_open[who])

    def _back_by(self, who: int, at: int) -> int:
        ends = [FOREVER]
        for other in self._known:
            for since, until in self._ran(other) if other != who else ():
                first = max(since, at)
                if self._two_seconds_after(first) <= until:
                    ends.append(self._two_seconds_after(first))
        return min(ends)

    def _ran(self, who: int) -> list[tuple[int, int]]:
        since, spans = self._known[who], []
        for away, back in sorted(self._away[who]):
            spans.append((since, away))
            since = max(since, back)
        return [*spans, (since, self._ends.get(who, FOREVER))]

    def _two_seconds_after(self, at: int) -> int:
        last = bisect_right(self._turns, at) + PROMISED_TURNS
        late = max(self._turns[last] - at - PROMISED_US, 0) if last < len(self._turns) else 0
        return at + PROMISED_US + late * REQUESTS // PROMISED_TURNS if late < TOO_LATE_US else FOREVER
