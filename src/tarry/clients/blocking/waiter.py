"""The waiting callers, in threads: one of them leads, the others follow; there is no extra thread.

    leader     steps the watch with its own thread: looks, waits for the tokens, hands out to all in order
    follower   sleeps until it is served, or until the leader was served and it is the next to lead

A thread that waits alone does everything itself, without a switch. The wait on the server continues when the leader changes. A thread
that waits in several slots (tarry.clients.blocking.race) never sleeps in one of them: it goes from waiter to waiter, and lets
each ``advance`` as far as it can.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tarry.clients.blocking.runner import Runner
from tarry.clients.blocking.wait_connections import TrackedWait, WaitConnections
from tarry.connections.blocking import Server
from tarry.connections.blocking_blpop import BlpopConnection
from tarry.connections.faults import Fault, ServerRefused, WrongNode
from tarry.connections.wake_event import SocketWakeEvent, WakeEvent
from tarry.core.patience import RetryDelay
from tarry.core.requests import ScriptCall
from tarry.core.watch import BlockStep, Caller, Gate, LeaveStep, Watch
from tarry.errors import TarryError, Unavailable
from tarry.verbs.jobs import pop
from tarry.verbs.jobs.watch_steps import WaitQueueKey, perform_step

LONGEST_WAIT_S = 60.0
CLOSING_S = 5.0
CLOSED = "The client was closed while this pop waited; nothing was handed out to it."


class Waiter:
    """All waiting callers of one server (on a Cluster: of one slot)."""

    def __init__(self, runner: Runner, name: bytes, connections: WaitConnections) -> None:
        self._runner = runner
        self._connections = connections
        self._connection: BlpopConnection | TrackedWait | None = None
        self._last_server: Server | None = None
        self._watch = Watch(name)
        self._lock = threading.Lock()
        self._leader: Caller | None = None
        self._blocked_until: float | None = None
        self._poked = False
        self._back_off = RetryDelay()
        self._fault: Fault | None = None
        self._failed_at = self._again_at = 0.0
        self._closed = False
        self._pid = os.getpid()
        self._wake_events: dict[Caller, WakeEvent | SocketWakeEvent] = {}

    def wait(
        self, max_jobs: int, seconds: float, queue_keys: Sequence[WaitQueueKey], gate: Gate | None = None
    ) -> Caller:
        """Waits for jobs; returns the caller, served or at the end of its time. Raises a ``TarryError``."""
        wake_event = WakeEvent()
        caller = Caller(max_jobs, time.monotonic() + seconds, wake_event.set, gate)
        try:
            self.enter(caller, wake_event, queue_keys)
            while not caller.done:
                if self._leader is caller:
                    self._lead(caller)
                else:
                    wake_event.wait()
        except BaseException:
            self._interrupted(caller)
            raise
        finally:
            self._hand_over_lead(caller)
        if caller.fault is not None:
            raise caller.fault.with_traceback(None)
        return caller

    # ── one of several that a thread waits for ───────────────────────────────────────────────────────────────────────

    def enter(
        self, caller: Caller, wake_event: WakeEvent | SocketWakeEvent, queue_keys: Sequence[WaitQueueKey]
    ) -> None:
        """Queues a caller, and wakes the leader if that changes anything."""
        with self._lock:
            if self._closed:
                raise Unavailable(CLOSED)
            self._wake_events[caller] = wake_event
            fresh = self._watch.enter(caller, queue_keys)
            if self._leader is None:
                self._leader = caller
                return
            until = self._blocked_until
            poke = until is not None and (fresh or caller.deadline < until)
            self._poked = self._poked or poke
        if poke:
            self._wake_leader(caller)

    def advance(self, caller: Caller) -> float:
        """Does the work that is due now, if the caller leads. Returns the moment of the next work."""
        return self._lead(caller, sleeps=False) if self._leader is caller else caller.deadline + LONGEST_WAIT_S

    def socket_for(self, caller: Caller) -> Any:
        """Returns a socket that is readable when there is work for the caller, besides its wake event; ``None`` without one."""
        connection = self._connection
        return (
            connection.socket
            if self._leader is caller and isinstance(connection, BlpopConnection) and connection.keys
            else None
        )

    def leave(self, caller: Caller, final_requests: list[ScriptCall[None]], *, silent: bool) -> None:
        """Removes a caller, served or not. The last caller adds the requests that hand back seats and tokens; a ``silent``
        server is not asked to end a wait."""
        with self._lock:
            self._watch.leave(caller)
            caller.done = True
            connection = self._connection if silent and self._leader is caller and not self._watch.waiting else None
        try:
            if connection is not None and connection.keys:
                connection.drop()
                with self._lock:
                    self._watch.connection_lost()
            if self._leader is caller:
                self._lead(caller, final_requests=final_requests)
        finally:
            self._hand_over_lead(caller)

    # ── the leader ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _wake_leader(self, caller: Caller | None = None) -> None:
        back_off = RetryDelay(0.001, 0.05)
        while (
            self._poked
            and (leader := self._leader) is not None
            and not (caller is not None and (caller.done or leader is caller))
        ):
            if self._notify_leader():
                return
            self._interrupt()
            time.sleep(back_off.next_delay())  # the leader may not be blocked yet: until it has seen it, once more

    def _notify_leader(self) -> bool:
        """Wakes the leader. Returns whether that works wherever the leader waits."""
        wake_event = self._leader_event()
        if wake_event is not None:
            wake_event.set()
        return wake_event is not None and (wake_event.sees_sockets or isinstance(self._connection, TrackedWait))

    def _leader_event(self) -> WakeEvent | SocketWakeEvent | None:
        leader = self._leader
        return None if leader is None else self._wake_events.get(leader)

    def _interrupt(self) -> None:
        if isinstance(connection := self._connection, BlpopConnection):
            with suppress(Fault):  # then the leader loses its connection too, and looks
                connection.interrupt()

    def _lead(
        self, caller: Caller, *, sleeps: bool = True, final_requests: list[ScriptCall[None]] | None = None
    ) -> float:
        """Steps the watch until the caller is served; if it must not sleep, until there is nothing to do before the returned
        moment."""
        while True:
            with self._lock:
                self._poked, self._blocked_until = False, None
                if caller.done and self._watch.waiting:
                    return 0
            if (later := self._pause_after_fault(sleeps)) is not None:
                return later
            with self._lock:
                step = self._watch.next_step(time.monotonic())
                if isinstance(step, BlockStep) and step.keys:
                    self._blocked_until = step.until
            if step is None:
                self._give_connection_back()
                return 0
            if isinstance(step, LeaveStep) and final_requests is not None:
                final_requests.append(pop.leave_watch(step.keys, step.waiter_id))
            elif not isinstance(step, BlockStep):
                self._runner.run(perform_step(self._watch, step, time.monotonic, self._lock))
            elif not self._block(step, sleeps) and not sleeps:
                return step.until

    def _block(self, step: BlockStep, sleeps: bool) -> bool:
        """Returns whether something happened."""
        try:
            over, key = self._await_token(step, sleeps)
            self._back_off.reset()
        except (ServerRefused, TarryError) as refusal:  # the server refuses the wait, and says why
            with self._lock:
                self._watch.fail_all(refusal.error if isinstance(refusal, ServerRefused) else refusal)
        except Fault as fault:
            pause = self._back_off.next_delay()
            self._failed_at = time.monotonic()
            self._fault, self._again_at = fault, min(self._failed_at + pause, step.until)
        else:
            if over:
                with self._lock:
                    self._watch.token_received(key)
            return over
        return True

    def _await_token(self, step: BlockStep, sleeps: bool) -> tuple[bool, bytes | None]:
        """Returns whether the wait on the server is over, and the key whose token came. Raises a ``Fault``."""
        connection = self._connection
        if step.abandon and connection is not None:
            connection.drop()
        if connection is not None and connection.keys and connection.keys != step.keys:
            return True, connection.end()
        if not step.keys:
            return True, None
        if connection is None:
            connection = self._connection = self._connections.borrow(self._last_server, self._leader_event)
        if not connection.keys:
            self._last_server = self._runner.server_of(step.keys[0])
            connection.connect_to(self._last_server)
            connection.begin(step.keys)
        seconds = min(step.until - time.monotonic(), LONGEST_WAIT_S) if sleeps else 0.0
        return connection.wait(seconds)

    def _pause_after_fault(self, sleeps: bool) -> float | None:
        """After a fault: waits before the next try, but not past the moment at which there is something else to do."""
        fault = self._fault
        if fault is None:
            return None
        left = self._again_at - time.monotonic() if self._watch.waiting else 0
        if left > 0 and not sleeps:
            return self._again_at
        time.sleep(max(left, 0))
        if isinstance(fault, WrongNode):
            with suppress(Unavailable, Fault):
                self._runner.refresh(self._failed_at)
        with self._lock:
            self._fault = None
            self._watch.connection_lost()
        return None

    def _give_connection_back(self) -> None:
        """Gives the connection back, when no caller waits any more."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._connections.give_back(connection)

    # ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _interrupted(self, caller: Caller) -> None:
        """Ctrl-C: jobs that were handed out to this thread and not taken go back."""
        with self._lock:
            self._watch.leave(caller)
            if self._leader is caller and not (self._connection is not None and self._connection.keys):
                self._watch.connection_lost()
            for wake_event in self._wake_events.values():
                wake_event.set()  # perhaps it was interrupted just as it served them
        caller.done = True
        give_back(self._runner, caller)
        if self._leader is caller:
            self._lead(caller)  # ends the wait on the server and hands back the seat, if nobody else is here to

    def _hand_over_lead(self, caller: Caller) -> None:
        with self._lock:
            self._wake_events.pop(caller, None)
            self._watch.leave(caller)
            if self._leader is caller:
                self._leader = next(iter(self._watch), None)
                if self._leader is not None:
                    self._wake_events[self._leader].set()

    def close(self) -> None:
        """Gives the error to all callers, and hands back seats and tokens."""
        if self._pid != os.getpid():
            return  # they belong to the parent
        with self._lock:
            self._closed = True
            self._watch.fail_all(Unavailable(CLOSED))
        by, back_off = time.monotonic() + CLOSING_S, RetryDelay(0.001, 0.05)
        while self._leader is not None and time.monotonic() < by:
            self._notify_leader()
            self._interrupt()
            time.sleep(back_off.next_delay())
        if self._connection is not None:
            self._connection.drop()


def give_back(runner: Runner, caller: Caller) -> None:
    """Releases the jobs that a caller was served and does not take."""
    if caller.result is not None:
        queue, found, jobs = caller.result
        with suppress(TarryError):  # then they come back after their TTR
            runner.perform(pop.give_back_reply(queue.keys, found.receipt, jobs))
