"""Patience: how often and how long a lost answer is asked for again, before an error says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST, LONGEST = 0.02, 1.0
SHORTEST = 1.0
HARDLY = 0.1
"""What was spent to find a server that is well: nobody hurries for it."""


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

    def begin(self, now: Callable[[], float]) -> Begun:
        """For one verb, from now on."""
        return Begun(self, now)


class Begun:
    """What one verb has of a patience: begun once, and asked by everything that is done for it, be it finding the servers,
    connecting or asking."""

    __slots__ = ("_at", "_now", "_patience", "added", "tries")

    def __init__(self, patience: Patience, now: Callable[[], float]) -> None:
        self._patience = patience
        self._now = now
        self._at = now()
        self.tries = 0
        """How many have failed."""
        self.added = False
        """Whether one was answered, and only its confirmation not heard."""

    def anew(self) -> None:
        """From now on: what was done until now was no waiting for an answer."""
        self._at = self._now()

    def another(self, *, anew: bool) -> Begun:
        """For one of several that are asked together, each of which counts its own tries: since the same moment, or anew."""
        other = Begun(self._patience, self._now)
        if not anew:
            other._at = self._at
        return other

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return self._now() - self._at

    @property
    def left(self) -> float:
        """Seconds that what is done next may take. At the first try as many as an answer may take; a moment at least."""
        whole = self._patience.bound if self.tries else self._patience.longest_s
        return max(whole - self.spent, FIRST)

    @property
    def hurry(self) -> float | None:
        """The same for an exchange, which has a limit of its own: ``None`` while hardly anything is spent."""
        return self.left if self.tries or self.spent > HARDLY else None

    def pause(self, luck: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``luck``: from 0 to 1."""
        return self._patience.pause(self.tries, self.spent, luck)
