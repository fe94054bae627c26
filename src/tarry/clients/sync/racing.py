"""Waiting on several slots of a Cluster at once, blocking: a thread for each, and the first that is served wins.

Each slot has its own waiter and its own blocked connection, so a node that does not answer holds up nobody else. What came
for a loser in the same moment goes back, its attempt not counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

from tarry.clients.sync.runner import Runner
from tarry.clients.sync.waiter import Bell, Waiter
from tarry.errors import TarryError
from tarry.idea.watch import Caller
from tarry.verbs.jobs import taking
from tarry.verbs.jobs.waiting import PostAddress

Lane = tuple[Waiter, Sequence[PostAddress]]


class Race:
    """One wait over several waiters."""

    def __init__(self, runner: Runner, lanes: Sequence[Lane], want: int, seconds: float) -> None:
        self._runner = runner
        self._lanes = lanes
        self._bells = [Bell() for _ in lanes]
        deadline = time.monotonic() + seconds
        self._callers = [Caller(want, deadline, bell.ring) for bell in self._bells]
        self._over: SimpleQueue[int] = SimpleQueue()
        self._faults: dict[int, BaseException] = {}

    def run(self) -> Caller:
        """The first that is served, else one that was not. Raises a ``TarryError``."""
        threads = [
            threading.Thread(target=self._wait, args=(number,), name="tarry race", daemon=True)
            for number in range(len(self._lanes))
        ]
        winner: int | None = None
        try:
            for thread in threads:
                thread.start()
            for _ in threads:
                number = self._over.get()
                if number in self._faults:
                    raise self._faults[number]
                if self._callers[number].found is not None:
                    winner = number
                    break
            return self._callers[winner or 0]
        finally:
            self._end(threads, winner)

    def _wait(self, number: int) -> None:
        waiter, posts = self._lanes[number]
        try:
            waiter.serve(self._callers[number], self._bells[number], posts)
        except BaseException as fault:  # noqa: BLE001  # whatever it is, who waits is told
            self._faults[number] = fault
        self._over.put(number)

    def _end(self, threads: Sequence[threading.Thread], winner: int | None) -> None:
        """The others leave; what they were served goes back."""
        for number, (waiter, _) in enumerate(self._lanes):
            if number != winner and threads[number].is_alive():
                waiter.withdraw(self._callers[number])
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        for number, caller in enumerate(self._callers):
            if number != winner and caller.found is not None:
                post, found, jobs = caller.found
                with suppress(TarryError):  # then they come back after their TTR
                    self._runner.perform(taking.give_back(post.keys, found.receipt, jobs))
