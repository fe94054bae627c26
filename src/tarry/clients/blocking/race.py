"""Waiting on several slots of a Cluster at once, blocking: a thread for each node, and the first that is served wins.

    Race ── _NodeRace, a thread ─┬─ waiter ─ connection ──▶ node   a _NodeRace lets each of its waiters advance, then sleeps
                                 ├─ waiter ─ connection ──▶ node   until a connection is readable, or it is woken
                                 └─ …
         ── _NodeRace, a thread ─┬─ …

A node that does not answer delays no wait at another node, however many slots there are. A job that came for a loser at the same
moment goes back, its attempt not counted.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue

from tarry.clients.blocking.runner import Runner
from tarry.clients.blocking.waiter import Waiter, give_back
from tarry.connections.faults import Fault
from tarry.connections.wake_event import SocketWakeEvent
from tarry.core.requests import ScriptCall
from tarry.core.watch import Caller, Gate
from tarry.errors import TarryError, Unavailable
from tarry.verbs.jobs.watch_steps import WaitQueueKey

SILENT_S = 1.0
"""A node that takes longer to end one wait is not asked to end the others."""
RaceEntry = tuple[Waiter, Sequence[WaitQueueKey]]


def race(
    runner: Runner, entries: Sequence[RaceEntry], max_jobs: int, seconds: float, gate: Gate | None = None
) -> Caller:
    """Returns the first caller that is served, else one that was not. Raises a ``TarryError``."""
    return Race(runner, entries, max_jobs, seconds, gate).run()


class Race:
    """One wait over several waiters."""

    def __init__(
        self, runner: Runner, entries: Sequence[RaceEntry], max_jobs: int, seconds: float, gate: Gate | None
    ) -> None:
        self._runner = runner
        deadline = time.monotonic() + seconds
        nodes: dict[str, list[RaceEntry]] = {}
        for waiter, queue_keys in entries:
            nodes.setdefault(_node_of(runner, queue_keys[0][0].due), []).append((waiter, queue_keys))
        self._wakeup: SimpleQueue[_NodeRace] = SimpleQueue()
        self._nodes = [_NodeRace(runner, its, max_jobs, deadline, self._wakeup, gate) for its in nodes.values()]

    def run(self) -> Caller:
        """Returns the first caller that is served, else one that was not. Raises a ``TarryError``."""
        winner: Caller | None = None
        try:
            for node in self._nodes:
                node.thread.start()
            for _ in self._nodes:
                node = self._wakeup.get()
                if node.fault is not None:
                    raise node.fault
                winner = node.served
                if winner is not None:
                    return winner
            return self._nodes[0].callers[0]
        finally:
            self._end(winner)

    def _end(self, winner: Caller | None) -> None:
        """Ends the waits of the others; the jobs that they were served go back."""
        for node in self._nodes:
            node.stop()
        for node in self._nodes:
            if node.thread.ident is not None:
                node.thread.join()
            node.wakeup.close()
            for caller in node.callers:
                if caller is not winner:
                    give_back(self._runner, caller)


class _NodeRace:
    """All waiters of a race at one node, and the thread that goes from one to the other."""

    def __init__(
        self,
        runner: Runner,
        entries: Sequence[RaceEntry],
        max_jobs: int,
        deadline: float,
        winner_found: SimpleQueue[_NodeRace],
        gate: Gate | None,
    ) -> None:
        self.wakeup = SocketWakeEvent()
        self.callers = [Caller(max_jobs, deadline, self.wakeup.set, gate) for _ in entries]
        self.fault: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="tarry race", daemon=True)
        self._runner = runner
        self._entries = entries
        self._current: dict[Caller, Waiter] = {}
        self._winner_found = winner_found
        self._stopped = False

    @property
    def served(self) -> Caller | None:
        return next((caller for caller in self.callers if caller.result is not None or caller.refused), None)

    def stop(self) -> None:
        self._stopped = True
        self.wakeup.set()

    def _run(self) -> None:
        try:
            for (waiter, queue_keys), caller in zip(self._entries, self.callers, strict=True):
                self._current[caller] = waiter
                waiter.enter(caller, self.wakeup, queue_keys)
            self._wait()
        except BaseException as fault:  # noqa: BLE001  # whatever it is, the waiting caller gets it
            self.fault = fault
        try:
            self._leave(list(self._current))
        finally:
            self._winner_found.put(self)

    def _wait(self) -> None:
        """Waits until one caller is served, the time of all is up, or a waiter at another node has won."""
        while self._current:
            until = math.inf
            for caller, waiter in list(self._current.items()):
                until = min(until, waiter.advance(caller))
                if self._stopped or caller.result is not None or caller.refused:
                    return
                if caller.fault is not None:
                    raise caller.fault
            done = [caller for caller in self._current if caller.done]
            self._leave(done)
            if not done:
                sockets = [waiter.socket_for(caller) for caller, waiter in self._current.items()]
                self.wakeup.wait(until - time.monotonic(), [one for one in sockets if one is not None])

    def _leave(self, callers: Sequence[Caller]) -> None:
        """Sends all last requests at once, and once: a node that does not answer must not delay the end for each slot."""
        leave_calls: list[ScriptCall[None]] = []
        silent = isinstance(self.fault, Unavailable)
        for caller in callers:
            began = time.monotonic()
            with suppress(TarryError):
                self._current.pop(caller).leave(caller, leave_calls, silent=silent)
            silent = silent or time.monotonic() > began + SILENT_S
        if leave_calls and not isinstance(self.fault, Unavailable):
            self._runner.send_batch(leave_calls)


def _node_of(runner: Runner, key: bytes) -> str:
    try:
        return runner.node_url_of(key)
    except (Fault, TarryError):
        return ""  # no server is known at the moment
