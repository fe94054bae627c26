"""Patience: how often, and for how long, a verb is tried again when its answer is lost, before ``Unavailable`` is raised.

    try 1 ──✗── 20 ms ── try 2 ──✗── 40 ms ── try 3 ──✗── … ──✗──▶ Unavailable
    ├──────────────── at most ``patience`` seconds, of one verb ─────────────┤

A ``Patience`` is the setting of a client. A ``RetryBudget`` is what one verb has left of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

FIRST_DELAY_S, LONGEST_DELAY_S = 0.02, 1.0
SHORTEST_S = 1.0
NEGLIGIBLE_S = 0.1
"""If finding a server took no longer than this, an exchange keeps its normal timeout."""


def exponential_delay(
    failures: int, first: float, longest: float, *, factor: float = 2.0, spread: float = 0.0, draw: float = 0.5
) -> float:
    """How long to wait after failures in a row: ``first × factorⁿ``, at most ``longest``, give or take the share ``spread``.

    ``failures`` counts from 0. ``draw``: a random number from 0 to 1.
    """
    return min(first * factor ** min(failures, 100), longest) * (1 - spread + 2 * spread * draw)


@dataclass(frozen=True, slots=True)
class Patience:
    """Tries again after 20 ms, 40 ms, … 1 s (± half), until ``bound`` seconds have passed."""

    bound: float = 10.0

    @property
    def max_answer_s(self) -> float:
        """The longest time to wait for one answer: the bound, at least a second."""
        return max(self.bound, SHORTEST_S)

    def delay_before(self, tries: int, elapsed: float, draw: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``draw``: a random number from 0 to 1."""
        if elapsed >= self.bound:
            return None
        pause = exponential_delay(tries, FIRST_DELAY_S, LONGEST_DELAY_S, spread=0.5, draw=draw)
        return min(pause, self.bound - elapsed)

    def start(self, now: Callable[[], float]) -> RetryBudget:
        """The budget of one verb, which begins now."""
        return RetryBudget(self, now, now())


@dataclass(slots=True)
class RetryDelay:
    """How long to wait after failures in a row: ``first_s``, twice as long after each, ``longest_s`` at most."""

    first_s: float = FIRST_DELAY_S
    longest_s: float = LONGEST_DELAY_S
    failures: int = 0

    def next_delay(self) -> float:
        """After one more failure: seconds to wait."""
        delay = exponential_delay(self.failures, self.first_s, self.longest_s)
        self.failures += 1
        return delay

    def reset(self) -> None:
        """Forgets the failures, after a success."""
        self.failures = 0


class RetryBudget(Struct):
    """How much of its patience one verb has left. It is shared by everything done for the verb: finding the servers, connecting,
    asking."""

    _patience: Patience
    _now: Callable[[], float]
    _started_at: float
    tries: int = 0
    """How many tries have failed."""
    added: bool = False
    """Whether a try was answered, and only its confirmation is missing."""
    refusal: str = ""
    """Why the server itself refused the last try that it answered."""

    def restart(self) -> None:
        """Begins again now: the time until now was not spent on waiting for an answer."""
        self._started_at = self._now()

    def sibling(self, *, restarted: bool) -> RetryBudget:
        """The budget of one of several requests that are sent together, which counts its own tries; from the same start, or from now."""
        return RetryBudget(self._patience, self._now, self._now() if restarted else self._started_at)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._now() - self._started_at

    @property
    def remaining(self) -> float:
        """Seconds that the next operation may take, always more than 0. For the first try, the longest time for an answer."""
        whole = self._patience.bound if self.tries else self._patience.max_answer_s
        return max(whole - self.elapsed, FIRST_DELAY_S)

    @property
    def exchange_timeout(self) -> float | None:
        """A timeout in seconds for the next exchange; ``None`` for the normal one, while hardly any time is spent."""
        if not self.tries and self._now() - self._started_at <= NEGLIGIBLE_S:
            return None
        return self.remaining

    def next_delay(self, draw: float) -> float | None:
        """Seconds to wait before the next try, or ``None`` when it is time to give up. ``draw``: a random number from 0 to 1."""
        return self._patience.delay_before(self.tries, self.elapsed, draw)
