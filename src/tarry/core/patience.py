"""Patience: how often and how long a lost answer is asked for again, before an error says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST_DELAY_S, LONGEST_DELAY_S = 0.02, 1.0
SHORTEST_S = 1.0
NEGLIGIBLE_S = 0.1
"""What was spent to find a server that is well: nobody hurries for it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Repeats after 20 ms, 40 ms, … 1 s (± half), until ``bound`` seconds have passed."""

    bound: float = 10.0

    @property
    def max_answer_s(self) -> float:
        """No answer is waited for any longer: as long as the bound, a second at least."""
        return max(self.bound, SHORTEST_S)

    def delay_before(self, tries: int, elapsed: float, jitter: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``jitter``: from 0 to 1."""
        if elapsed >= self.bound:
            return None
        pause = float(min(FIRST_DELAY_S * 2 ** min(tries, 10), LONGEST_DELAY_S)) * (0.5 + jitter)
        return min(pause, self.bound - elapsed)

    def start(self, now: Callable[[], float]) -> RetryBudget:
        """For one verb, from now on."""
        return RetryBudget(self, now)


class RetryBudget:
    """What one verb has of a patience: begun once, and asked by everything that is done for it, be it finding the servers,
    connecting or asking."""

    __slots__ = ("_now", "_patience", "_started_at", "added", "tries")

    def __init__(self, patience: Patience, now: Callable[[], float]) -> None:
        self._patience = patience
        self._now = now
        self._started_at = now()
        self.tries = 0
        """How many have failed."""
        self.added = False
        """Whether one was answered, and only its confirmation not heard."""

    def restart(self) -> None:
        """From now on: what was done until now was no waiting for an answer."""
        self._started_at = self._now()

    def sibling(self, *, restarted: bool) -> RetryBudget:
        """For one of several that are asked together, each of which counts its own tries: since the same moment, or anew."""
        other = RetryBudget(self._patience, self._now)
        if not restarted:
            other._started_at = self._started_at
        return other

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self._now() - self._started_at

    @property
    def remaining(self) -> float:
        """Seconds that what is done next may take. At the first try as many as an answer may take; a moment at least."""
        whole = self._patience.bound if self.tries else self._patience.max_answer_s
        return max(whole - self.elapsed, FIRST_DELAY_S)

    @property
    def exchange_timeout(self) -> float | None:
        """The same for an exchange, which has a limit of its own: ``None`` while hardly anything is spent."""
        return self.remaining if self.tries or self.elapsed > NEGLIGIBLE_S else None

    def next_delay(self, jitter: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``jitter``: from 0 to 1."""
        return self._patience.delay_before(self.tries, self.elapsed, jitter)
