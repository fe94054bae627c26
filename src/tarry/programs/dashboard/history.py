"""The counters of the last 24 h: one packed record for each sample in which a counter changed.

    steps   ┌ end d ┬ seconds f ┬ added … died I×6 ┐ ┌ bucket B ┬ jobs I ┐ ┌ bucket …       about 90 bytes each

An idle topic costs nothing, one that is always busy about 1 MB. The memory of all topics is limited; the oldest records are
dropped first.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from tarry import Stats
from tarry.types import Lateness

RETENTION_S = 24 * 3600
COUNTERS = ("added", "popped", "finished", "released", "timed_out", "died")
_FIXED = Struct(f"<df{len(COUNTERS)}I")
_PAIR = Struct("<BI")
_MOST = 2**32 - 1
OVERHEAD = 60
"""Bytes that Python needs in addition for each record."""


class HistoryStep(NamedTuple):
    """The changes in the ``seconds`` before ``end`` (seconds since 1970, by the server's clock)."""

    end: float
    seconds: float
    added: int
    popped: int
    finished: int
    released: int
    timed_out: int
    died: int
    late: dict[int, int]


class History:
    """One topic's last 24 h."""

    __slots__ = ("_last", "_steps", "bytes", "first")

    def __init__(self) -> None:
        self._steps: deque[bytes] = deque()
        self._last: Stats | None = None
        self.first = 0.0
        self.bytes = 0

    def record(self, stats: Stats) -> None:
        """Records the changes since the last sample."""
        last, self._last = self._last, stats
        at = stats.now.timestamp()
        if (
            last is None or stats.popped < last.popped or stats.now <= last.now
        ):  # the first sample, or the server lost its data
            self.first = self.first or at
            return
        moved = [min(max(getattr(stats, name) - getattr(last, name), 0), _MOST) for name in COUNTERS]
        if any(moved):
            late = stats.lateness.since(last.lateness).buckets
            step = _FIXED.pack(at, at - last.now.timestamp(), *moved) + b"".join(
                _PAIR.pack(min(bucket, 255), min(n, _MOST)) for bucket, n in late.items()
            )
            self._steps.append(step)
            self.bytes += len(step) + OVERHEAD
        while self._steps and _end(self._steps[0]) < at - RETENTION_S:
            self.drop_oldest()
        self.first = max(self.first, at - RETENTION_S)

    def drop_oldest(self) -> None:
        """Drops the oldest record; the history begins after it."""
        self.first = max(self.first, _end(self._steps[0]))
        self.bytes -= len(self._steps.popleft()) + OVERHEAD

    def since(self, moment: float) -> Iterator[HistoryStep]:
        """Steps that ended after a moment, the newest first."""
        for packed in reversed(self._steps):
            if _end(packed) <= moment:
                return
            yield _unpacked(packed)

    def rate(self, counter: str, seconds: float) -> float | None:
        """The counter's rate a second over the last ``seconds``; ``None`` before the second sample."""
        if self._last is None:
            return None
        now = self._last.now.timestamp()
        span = min(seconds, now - self.first)
        if span <= 0:
            return None
        return float(sum(getattr(step, counter) for step in self.since(now - span))) / span

    def lateness(self, seconds: float) -> Lateness:
        """The lateness of jobs that were handed out in the last ``seconds``."""
        late: dict[int, int] = {}
        if self._last is not None:
            for step in self.since(self._last.now.timestamp() - seconds):
                _merge(late, step.late)
        return Lateness.of(late)

    def columns(self, seconds: float, columns: int) -> list[dict[int, int]]:
        """Lateness by bucket for each column of time, the oldest first; a step is spread over the columns it lies in."""
        found: list[dict[int, int]] = [{} for _ in range(columns)]
        if self._last is not None:
            now, width = self._last.now.timestamp(), seconds / columns
            for step in self.since(now - seconds):
                end, length = columns - (now - step.end) / width, step.seconds / width
                for at in range(max(math.floor(end - length), 0), min(math.ceil(end), columns)):
                    before, after = (min(max((edge - end) / length + 1, 0.0), 1.0) for edge in (at, at + 1))
                    shared = {bucket: round(n * after) - round(n * before) for bucket, n in step.late.items()}
                    _merge(found[at], {bucket: n for bucket, n in shared.items() if n})
        return found

    def best_minute(self, seconds: float) -> float | None:
        """The most jobs that were finished in a minute; ``None`` if none were, or after less than a minute of samples."""
        if self._last is None:
            return None
        now = self._last.now.timestamp()
        if now - self.first < 60:
            return None
        minutes: dict[int, list[float]] = {}
        for step in self.since(now - seconds):
            minute = minutes.setdefault(int((now - step.end) / 60), [0.0, 0.0])
            minute[0] += step.finished
            minute[1] += step.seconds
        best = max((60 * done / max(spent, 60.0) for done, spent in minutes.values()), default=0.0)
        return best or None


def _end(packed: bytes) -> float:
    end: float = _FIXED.unpack_from(packed)[0]
    return end


def _unpacked(packed: bytes) -> HistoryStep:
    late = dict(_PAIR.iter_unpack(memoryview(packed)[_FIXED.size :]))
    return HistoryStep._make((*_FIXED.unpack_from(packed), late))


def _merge(into: dict[int, int], more: Mapping[int, int]) -> None:
    for bucket, n in more.items():
        into[bucket] = into.get(bucket, 0) + n
