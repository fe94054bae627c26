"""Patience: how often and how long a lost answer is asked for again, before an error says so."""

from __future__ import annotations

from dataclasses import dataclass

FIRST, LONGEST = 0.02, 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Repeats after 20 ms, 40 ms, … 1 s (± half), until ``bound`` seconds have passed."""

    bound: float = 10.0

    def pause(self, tries: int, spent: float, luck: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``luck``: from 0 to 1."""
        if spent >= self.bound:
            return None
        return float(min(FIRST * 2 ** min(tries, 10), LONGEST)) * (0.5 + luck)
