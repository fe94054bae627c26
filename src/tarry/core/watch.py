"""Keeping the watch, the client's side: one waiter for all who wait, without a poll and without a herd.

    callers  ──▶  posts, one a topic      steps            what is told back
    pop(wait)     ┌ callers, in order     Look(post)   ──▶ what was handed out, the alarm, the seat
    pop(wait)     │ alarm                 Block(keys)  ──▶ a token's key, or nothing: the alarm rang, or a poke
    pop(wait)     └ seat                  Leave(post), GiveBack(jobs)

The script that looks (lua/lib/watch.lua) says by when to look again and whether this is a seat: a promise that others rely
on. Until then the waiter blocks on the topic's tokens: on ``wake``, and on ``relay`` while it has no seat. A token asks for
somebody to promise: it is answered by a look, or by leaving. No answer in hand (the start, a lost connection): look
before waiting. Who looks while blocked on ``relay`` looks without a name, takes no seat, and is called by a token if one
is free: a seat and the token that asks for somebody else must never lie in one hand (docs/decisions/0003-the-watch.md).

Nothing here talks or knows the time: a driver asks for the next step, performs it, and tells what came of it. Drivers are
in tarry.clients; the one for tests lets waiting make time pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Protocol
from zlib import crc32

from tarry.errors import Unavailable
from tarry.values.keys import TopicKeys

MOST_JOBS = 1000
"""No look asks for more jobs than this."""
FROZEN_S = 0.05
"""An answer that was read later than this came to a process that did not run."""


class PopAnswer(Protocol):
    """What a look answers, as far as the watch is concerned."""

    @property
    def jobs(self) -> Sequence[tuple[bytes, bytes, int, int, int]]: ...
    @property
    def receipt(self) -> int: ...
    @property
    def wait(self) -> int: ...
    @property
    def seat(self) -> int: ...
    @property
    def ask_again(self) -> bool: ...


class Caller:
    """Somebody who waits for ``want`` jobs of the first of some posts that has any. ``served`` is called at the end."""

    __slots__ = ("deadline", "done", "fault", "last_pops", "queues", "result", "served", "want")

    def __init__(self, want: int, deadline: float, served: Callable[[], None]) -> None:
        self.want = want
        self.deadline = deadline
        self.served = served
        self.queues: list[WaitQueue] = []
        self.last_pops: set[WaitQueue] | None = None
        self.done = False
        self.fault: BaseException | None = None
        #: the post it was served from, the look, and its share of the jobs
        self.result: tuple[WaitQueue, PopAnswer, list[tuple[bytes, bytes, int, int, int]]] | None = None


class WaitQueue:
    """The place where callers wait for one topic, with one TTR, for one holder."""

    __slots__ = ("alarm", "callers", "holder", "keys", "me", "seat", "ttr", "uncertain")

    def __init__(self, keys: TopicKeys, ttr: bytes, holder: bytes, me: bytes) -> None:
        self.keys = keys
        self.ttr = ttr
        self.holder = holder
        self.me = me
        self.callers: list[Caller] = []
        self.alarm: float | None = None
        self.seat = 0
        #: a look or a wait was broken off, or a token not yet answered: perhaps there is a seat, or a token to hand back
        self.uncertain = False


@dataclass(frozen=True, slots=True)
class PopStep:
    """Pop up to ``want`` jobs, for ``need`` callers who wait; ``named``: stay, and take a seat, if fewer come."""

    queue: WaitQueue
    want: int
    need: int
    may_take_seat: bool


@dataclass(frozen=True, slots=True)
class LeaveStep:
    """Hand back a seat, or a token that nobody here will answer."""

    keys: TopicKeys
    me: bytes


@dataclass(frozen=True, slots=True)
class GiveBackStep:
    """Release, uncounted, what nobody here waits for any more."""

    queue: WaitQueue
    answer: PopAnswer
    jobs: list[tuple[bytes, bytes, int, int, int]]


@dataclass(frozen=True, slots=True)
class BlockStep:
    """Wait for a token in one of the keys, until the moment; without keys: stop waiting. ``hang_up``: without a word, to a
    server that does not answer."""

    keys: tuple[bytes, ...]
    until: float
    abandon: bool = False


WaitStep = PopStep | LeaveStep | GiveBackStep | BlockStep


class Watch:
    """The waiter of one client (of one slot in a Cluster). Not thread-safe: its driver guards it."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._numbers = count()
        self._queues: dict[tuple[bytes, bytes, bytes], WaitQueue] = {}
        self._callers: dict[Caller, None] = {}
        self._pending_steps: list[LeaveStep | GiveBackStep] = []
        self._blocked: tuple[bytes, ...] = ()
        self._server_silent = False

    # ── callers ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, caller: Caller, queue_keys: Sequence[tuple[TopicKeys, bytes, bytes]]) -> bool:
        """A caller queues at its posts (keys, ttr, holder), in its order. True when there is something to do at once."""
        due_now = False
        self._callers[caller] = None  # first: an interrupted entry can be undone
        for keys, ttr, holder in queue_keys:
            queue = self._queues.get((keys.wake, ttr, holder))
            if queue is None:
                me = self._name + b":%d" % next(self._numbers)
                queue = self._queues[keys.wake, ttr, holder] = WaitQueue(keys, ttr, holder, me)
            if queue in caller.queues:  # a topic named twice: one place in its queue
                continue
            due_now = due_now or queue.alarm is None
            caller.queues.append(queue)
            queue.callers.append(caller)
        return due_now

    def leave(self, caller: Caller) -> None:
        """A caller goes, served or not."""
        if caller in self._callers:
            del self._callers[caller]
            for queue in caller.queues:
                if caller in queue.callers:
                    queue.callers.remove(caller)

    @property
    def waiting(self) -> bool:
        return bool(self._callers)

    def __iter__(self) -> Iterator[Caller]:
        return iter(self._callers)

    # ── steps ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def next_step(self, now: float) -> WaitStep | None:
        """What to do now; ``None`` when nobody waits and nothing is left behind."""
        if (
            self._server_silent and not self._callers
        ):  # what would be handed back is missed by others at their look-around
            self._pending_steps.clear()
            self._queues.clear()
            return BlockStep((), now, abandon=True) if self._blocked else None
        if self._pending_steps:
            return self._pending_steps.pop()
        for caller in self._callers:
            if caller.deadline <= now and caller.last_pops is None:
                caller.last_pops = set(caller.queues)
        for caller in self._callers:
            for queue in caller.queues:
                if _wants_pop(caller, queue, now):
                    return self._pop_step(queue)
        for key, queue in list(self._queues.items()):
            if not queue.callers:
                del self._queues[key]
                if queue.seat or queue.uncertain:
                    return LeaveStep(queue.keys, queue.me)
        if not self._queues:
            return BlockStep((), now) if self._blocked else None
        self._blocked = tuple(dict.fromkeys(key for queue in self._queues.values() for key in _tokens_of(queue)))
        return BlockStep(self._blocked, min(self._deadlines()))

    def _deadlines(self) -> Iterator[float]:
        for queue in self._queues.values():
            yield math.inf if queue.alarm is None else queue.alarm
        for caller in self._callers:
            yield caller.deadline

    def _pop_step(self, queue: WaitQueue) -> PopStep:
        queue.uncertain = True
        stay = sum(1 for caller in queue.callers if caller.last_pops is None)
        named = queue.keys.relay not in self._blocked
        return PopStep(queue, min(sum(caller.want for caller in queue.callers), MOST_JOBS), min(stay, MOST_JOBS), named)

    # ── what came of it ──────────────────────────────────────────────────────────────────────────────────────────────

    def pop_answered(self, step: PopStep, answer: PopAnswer, sent: float, now: float) -> None:
        """Hands out: one job to each caller in order, then what is left, in order.

        A promise counts from when the question was ``sent``, but for a moment: a process that froze before it read the
        answer must not look later than it promised.
        """
        queue, jobs, self._server_silent = step.queue, list(answer.jobs), False
        stays = len(jobs) < step.need and not answer.ask_again
        queue.uncertain = False
        queue.seat = answer.seat  # who only asks again has none, but for one who attends to a schedule first
        wait = answer.wait / 1e6 * (1 if queue.seat else 1 + crc32(queue.me) % 50 / 1000)  # look-arounds fall apart
        queue.alarm = min(now, sent + FROZEN_S) + wait if stays else None
        served = [caller for caller in queue.callers if not caller.done][: len(jobs)]
        spare = len(jobs) - len(served)
        for caller in served:
            extra = min(caller.want - 1, spare)
            spare -= extra
            share, jobs = jobs[: 1 + extra], jobs[1 + extra :]
            caller.result = (queue, answer, share)
            self._serve(caller)
        if jobs:
            self._pending_steps.append(GiveBackStep(queue, answer, jobs))
        if not answer.ask_again:
            for caller in list(queue.callers):
                if caller.last_pops is not None:
                    caller.last_pops.discard(queue)
                    if not caller.last_pops:
                        self._serve(caller)

    def pop_failed(self, step: PopStep, fault: BaseException) -> None:
        """A look could not be had: its callers learn why."""
        self._server_silent = isinstance(fault, Unavailable)
        step.queue.alarm, step.queue.seat, step.queue.uncertain = None, 0, False
        for caller in list(step.queue.callers):
            caller.fault = fault
            self._serve(caller)

    def token_received(self, key: bytes | None) -> None:
        """The waiting is over. If a token came, somebody here answers it by a look, or it is handed back."""
        self._blocked = ()
        if key is None:
            return
        mine = [queue for queue in self._queues.values() if key in (queue.keys.wake, queue.keys.relay)]
        for queue in mine:
            if queue.callers:
                queue.alarm, queue.uncertain = None, True  # whoever goes before it has looked leaves
                return
        if mine:
            self._pending_steps.append(LeaveStep(mine[0].keys, mine[0].me))
        else:
            self._pending_steps.append(LeaveStep(_keys_of(key), b""))

    def connection_lost(self) -> None:
        """The waiting connection is gone, and perhaps a token with it: no answer is in hand any more."""
        self._blocked = ()
        for queue in self._queues.values():
            queue.alarm, queue.uncertain = None, True

    def fail_all(self, error: BaseException) -> None:
        """Nobody can be served here any more: all who wait learn why."""
        for caller in list(self._callers):
            caller.fault = error
            self._serve(caller)

    def _serve(self, caller: Caller) -> None:
        caller.done = True  # in this order: wherever it is interrupted, the caller can tell, and leaves
        caller.served()
        self.leave(caller)


def _wants_pop(caller: Caller, queue: WaitQueue, now: float) -> bool:
    if caller.last_pops is not None:  # its time is up: one last look at each of its posts
        return queue in caller.last_pops
    return queue.alarm is None or queue.alarm <= now


def _tokens_of(queue: WaitQueue) -> tuple[bytes, ...]:
    return (queue.keys.wake,) if queue.seat else (queue.keys.wake, queue.keys.relay)


def _keys_of(token: bytes) -> TopicKeys:
    """The topic of a token whose post is gone."""
    stem = token.rpartition(b":")[0]
    return TopicKeys(*[stem + b":" + part.encode() for part in TopicKeys._fields])


__all__ = ["BlockStep", "Caller", "GiveBackStep", "LeaveStep", "PopStep", "WaitQueue", "WaitStep", "Watch"]
