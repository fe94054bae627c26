"""The journal of a run's faults, for the checker. Nothing of tarry is used here.

undone    what was acknowledged in this span may be forgotten by the server (NAME says by which promise)
broken    connections broke or nobody answered: calls in this span may have been sent twice
ended     a process was killed, or told to stop: what it had in hand may be released at once
healed    the fault is over: how long until the next job is handed out?
stepped   the server's clock was ahead by so many seconds (BY), or behind
known, frozen, half-open, turns    what concerns the recovery of a killed worker's jobs: see worker_faults.py and recovery.py
"""

from __future__ import annotations

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

from .recovery import Workers

LONG_CALL_US = 4_000_000
"""A call that took so long may have been sent twice: a client gives a silent connection up after five seconds."""

STEP_US = 20_000
"""So long after a clock was set, it may still show the time before."""


class Faults:
    """The journal, for looking up."""

    def __init__(self, entries: list[dict[str, Any]] | None = None) -> None:
        self.entries = entries or []
        self._undone = sorted((e["since"], e["until"], e["name"]) for e in self._of("undone"))
        self._broken = _merged((e["since"], e["until"]) for e in self._of("broken"))
        self._starts = [since for since, _ in self._broken]
        self._ended: dict[int, tuple[int, str]] = {e["who"]: (e["at"], e["how"]) for e in self._of("ended")}
        self.healed = sorted((e["at"], e["name"]) for e in self._of("healed"))
        self.workers = Workers(self.entries)
        self._stepped = [(e["at"], e["until"], int(e["by"] * 1_000_000)) for e in self._of("stepped")]

    def _of(self, what: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["what"] == what]

    @classmethod
    def read(cls, path: Path) -> Faults:
        return cls([json.loads(line) for line in path.read_text().splitlines()])

    def undone(self, *moments: int) -> str:
        """Why what was acknowledged at one of these moments may be forgotten; empty: it may not."""
        return next((n for since, until, n in self._undone if any(since <= at <= until for at in moments)), "")

    def undone_within(self, since: int, until: int) -> str:
        """Why the server may have forgotten something between these moments."""
        return next((n for began, ended, n in self._undone if began <= until and ended >= since), "")

    def broken(self, since: int, until: int) -> bool:
        """Whether a call between these moments may have been sent twice, or its answer lost."""
        if until - since >= LONG_CALL_US:
            return True
        index = bisect_right(self._starts, until) - 1
        return index >= 0 and self._broken[index][1] >= since

    def calm_after(self, since: int, until: int) -> int:
        """When connections were whole again after what broke them between these moments; ``until`` if nothing did."""
        index = bisect_right(self._starts, until) - 1
        return max(until, self._broken[index][1]) if index >= 0 and self._broken[index][1] >= since else until

    def ended(self, who: int, until: int) -> str:
        """How a process ended before that moment; empty: it did not."""
        at, how = self._ended.get(who, (until + 1, ""))
        return how if at <= until else ""

    def end_of(self, who: int) -> int | None:
        """When a process ended; ``None`` if it did not."""
        return self._ended[who][0] if who in self._ended else None

    def disturbed(self, since: int, until: int) -> bool:
        """Whether an answer may have been lost between these moments."""
        return self.broken(since, until) or any(since <= at <= until for at, _ in self._ended.values())

    def moments(self, shown: int) -> list[int]:
        """The moments of this machine's clock at which the server's clock may have shown this."""
        found = [shown - by for at, until, by in self._stepped if at - STEP_US <= shown - by <= until + STEP_US]
        if not any(at + STEP_US < shown < until - STEP_US for at, until, _ in self._stepped):
            found.append(shown)
        return found

    def around(self, since: int, until: int, zero: int) -> list[str]:
        """What was done between these moments, in lines; told in seconds after ``zero``."""
        shown = []
        for entry in self.entries:
            begun = entry.get("at", entry.get("since", 0))
            if since <= begun <= until:
                rest = {k: v for k, v in entry.items() if k not in ("what", "at", "since", "until")}
                end = f" until {(entry['until'] - zero) / 1e6:.6f}" if "until" in entry else ""
                words = " ".join(f"{k} {v}" for k, v in rest.items())
                shown.append(f"{(begun - zero) / 1e6:>12.6f}  {entry['what']}{end} {words}")
        return shown


def _merged(spans: Any) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for since, until in sorted(spans):
        if found and since <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], until))
        else:
            found.append((since, until))
    return found
