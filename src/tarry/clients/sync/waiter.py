"""Those who wait, in threads: one of them leads, the others follow; none is added for it.

    leader     steps the watch with its own thread: looks, blocks on the tokens, hands out to all in order
    follower   sleeps until it is served, or until the leader was served and it is the next to lead

A thread that waits alone does all itself, without a switch. The wait on the server outlives a change of leaders.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

from tarry.clients.sync.runner import Runner
from tarry.errors import TarryError, Unavailable
from tarry.idea.patience import FIRST, LONGEST
from tarry.idea.watch import Block, Caller, Watch
from tarry.links.blocking import WaitingLine
from tarry.links.faults import Elsewhere, Fault, Refused
from tarry.verbs.jobs import taking
from tarry.verbs.jobs.waiting import PostAddress, turn

LONGEST_WAIT_S = 60.0
CLOSING_S = 5.0
CLOSED = "The client was closed while this pop waited; nothing was handed out to it."


class Bell:
    """Wakes one thread; rung twice is once. A ``threading.Event`` that Ctrl-C strikes while it is set stays locked for
    ever: its lock is taken in Python, this one in one step."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        with suppress(RuntimeError):  # it was rung already
            self._lock.release()

    def wait(self) -> None:
        self._lock.acquire()


class Waiter:
    """All who wait on one server (on a Cluster: for one slot)."""

    def __init__(self, runner: Runner, name: bytes) -> None:
        self._runner = runner
        self._line = WaitingLine()
        self._watch = Watch(name)
        self._lock = threading.Lock()
        self._leader: Caller | None = None
        self._blocked_until: float | None = None
        self._poked = False
        self._failures = 0
        self._closed = False
        self._pid = os.getpid()
        self._bells: dict[Caller, Bell] = {}

    def wait(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Caller:
        """Waits for jobs; answers the caller, served or at the end of its time. Raises a ``TarryError``."""
        bell = Bell()
        return self.serve(Caller(want, time.monotonic() + seconds, bell.ring), bell, posts)

    def serve(self, caller: Caller, bell: Bell, posts: Sequence[PostAddress]) -> Caller:
        """The same for a caller that somebody else may ``withdraw``."""
        try:
            self._enter(caller, bell, posts)
            while not caller.done:
                if self._leader is caller:
                    self._lead(caller)
                else:
                    bell.wait()
        except BaseException:
            self._interrupted(caller)
            raise
        finally:
            self._pass_on(caller)
        if caller.fault is not None:
            raise caller.fault.with_traceback(None)
        return caller

    def withdraw(self, caller: Caller) -> None:
        """Ends a wait from another thread: with what it was served until now, or with nothing."""
        with self._lock:
            self._watch.leave(caller)
            caller.done = True
            poke = self._blocked_until is not None
            self._poked = self._poked or poke
        caller.served()
        if poke:
            self._wake_leader()

    def _enter(self, caller: Caller, bell: Bell, posts: Sequence[PostAddress]) -> None:
        with self._lock:
            if self._closed:
                raise Unavailable(CLOSED)
            self._bells[caller] = bell
            fresh = self._watch.enter(caller, posts)
            if self._leader is None:
                self._leader = caller
                return
            until = self._blocked_until
            poke = until is not None and (fresh or caller.deadline < until)
            self._poked = self._poked or poke
        if poke:
            self._wake_leader(caller)

    def _wake_leader(self, caller: Caller | None = None) -> None:
        pause = 0.001
        while (
            self._poked
            and self._leader is not None
            and not (caller is not None and (caller.done or self._leader is caller))
        ):
            self._poke()
            time.sleep(pause)  # the leader may not be blocked yet: until it has seen it, once more
            pause = min(2 * pause, 0.05)

    def _poke(self) -> None:
        try:
            self._line.poke()
        except Fault:
            pass  # then the leader loses its connection too, and looks

    def _lead(self, caller: Caller) -> None:
        while True:
            with self._lock:
                self._poked, self._blocked_until = False, None
                if caller.done and self._watch.waiting:
                    return
                step = self._watch.next_step(time.monotonic())
                if step is None:
                    return
                if isinstance(step, Block) and step.keys:
                    self._blocked_until = step.until
            if isinstance(step, Block):
                self._block(step)
            else:
                self._runner.run(turn(self._watch, step, time.monotonic, self._lock))

    def _block(self, step: Block) -> None:
        try:
            over, key = self._await_token(step)
            self._failures = 0
        except (Refused, TarryError) as refusal:  # it will not wait for us, and says why
            with self._lock:
                self._watch.dismiss(refusal.error if isinstance(refusal, Refused) else refusal)
        except Fault as fault:
            self._hold_on(fault, step.until)
            with self._lock:
                self._watch.lost()
        else:
            if over:
                with self._lock:
                    self._watch.woken(key)

    def _await_token(self, step: Block) -> tuple[bool, bytes | None]:
        """Whether the wait on the server is over, and the key whose token came. Raises a ``Fault``."""
        if self._line.keys and self._line.keys != step.keys:
            return True, self._line.end()
        if not step.keys:
            return True, None
        if not self._line.keys:
            self._line.go_to(self._runner.server_of(step.keys[0]))
            self._line.begin(step.keys)
        return self._line.wait(min(step.until - time.monotonic(), LONGEST_WAIT_S))

    def _hold_on(self, fault: Fault, until: float) -> None:
        """Waits before the next try, but not past the moment at which there is something else to do."""
        pause = min(FIRST * 2**self._failures, LONGEST)
        self._failures = min(self._failures + 1, 10)
        time.sleep(max(min(pause, until - time.monotonic()), 0))
        if isinstance(fault, Elsewhere):
            with suppress(Unavailable, Fault):
                self._runner.refresh()

    def _interrupted(self, caller: Caller) -> None:
        """Ctrl-C: what was handed out to this thread and not taken goes back."""
        with self._lock:
            self._watch.leave(caller)
            if self._leader is caller and not self._line.keys:
                self._watch.lost()
            for bell in self._bells.values():
                bell.ring()  # perhaps it was interrupted just as it served them
        caller.done = True
        if caller.found is not None:
            post, found, jobs = caller.found
            with suppress(TarryError):  # then they come back after their TTR
                self._runner.perform(taking.give_back(post.keys, found.receipt, jobs))
        if self._leader is caller:
            self._lead(caller)  # ends the wait on the server and hands back the seat, if nobody else is here to

    def _pass_on(self, caller: Caller) -> None:
        with self._lock:
            self._bells.pop(caller, None)
            self._watch.leave(caller)
            if self._leader is caller:
                self._leader = next(iter(self._watch), None)
                if self._leader is not None:
                    self._bells[self._leader].ring()

    def close(self) -> None:
        """Those who wait are told; seats and tokens are handed back."""
        if self._pid != os.getpid():
            return  # they are the parent's
        with self._lock:
            self._closed = True
            self._watch.dismiss(Unavailable(CLOSED))
        by, pause = time.monotonic() + CLOSING_S, 0.001
        while self._leader is not None and time.monotonic() < by:
            self._poke()
            time.sleep(pause)
            pause = min(2 * pause, 0.05)
        self._line.drop()
