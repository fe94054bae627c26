"""Patience: how often and how long a lost answer is asked for again, before an error says so."""

from __future__ import annotations

from dataclasses import dataclass

FIRST, LONGEST = 0.02, 1.0
SHORTEST = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """Repeats after 20 ms, 40 ms, … 1 s (± half), until ``bound`` seconds have passed."""

    bound: float = 10.0

    @property
    def longest_s(self) -> float:
        """No answer is waited for any longer: as long as the bound, a second at least."""
        return max(self.bound, SHORTEST)

    def pause(self, tries: int, spent: float, luck: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``luck``: from 0 to 1."""
        if spent >= self.bound:
            return None
        pause = float(min(FIRST * 2 ** min(tries, 10), LONGEST)) * (0.5 + luck)
        return min(pause, self.bound - spent)

    def left(self, spent: float) -> float:
        """Seconds that an answer may still take, once it has been asked for again."""
        return max(self.bound - spent, FIRST)
