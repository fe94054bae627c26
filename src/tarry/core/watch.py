"""The watch, the client's side: how all waiting pops of a client share one blocked connection, without polling.

    callers  ──▶  wait queues, one a topic    steps                what comes back
    pop(wait)     ┌ callers, in order         PopStep(queue)   ──▶ jobs, the next alarm, the seat
    pop(wait)     │ alarm: when to pop next   BlockStep(keys)  ──▶ a token's key, or nothing: the alarm rang, or a new caller came
    pop(wait)     └ seat                      LookStep(queues) ──▶ those of them that must be popped from
                                              LeaveStep(keys), GiveBackStep(jobs)

The pop script (lua/lib/watch.lua) answers by when to pop again, and whether that is a **seat**: a promise that other consumers
rely on. Until then the client blocks on the topic's **tokens**, with BLPOP: on ``wake``, and on ``relay`` while it has no seat. A
token asks for somebody to take a seat. The client answers it with a pop, or with a LeaveStep. Without a fresh answer (at
the start, after a lost connection) it pops before it blocks. A pop while blocked on ``relay`` takes no seat, and a token follows
if a seat is free: one client must never have both a seat and the token that calls for another consumer
(docs/decisions/0003-the-watch.md).

Where many topics wait without a seat, the regular pops of all of them are one LookStep: only those where something falls due before the
next one are popped from, and once a minute those that keep totals. So a topic that is empty, or whose jobs are due tomorrow, costs nothing.

Nothing here does I/O or knows the time. A driver asks for the next **step**, performs it and reports the result. Drivers are
in tarry.clients; in the one for tests, waiting makes time pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol
from zlib import crc32

from tarry.errors import Unavailable
from tarry.values.keys import TopicKeys

MOST_JOBS = 1000
"""No pop asks for more jobs than this."""
MANY_QUEUES = 8
"""From so many on, the waiting topics are looked at together, before any is popped from."""
FROZEN_S = 0.05
"""If an answer is read later than this, the process was probably frozen meanwhile."""


class PoppedAt(Protocol):
    """When jobs were popped, in µs, and with which receipt."""

    @property
    def now(self) -> int: ...
    @property
    def receipt(self) -> int: ...
    @property
    def keeps_finished(self) -> bool:
        """Whether the topic keeps finished jobs."""
        ...


class PopAnswer(PoppedAt, Protocol):
    """The answer of a pop, as far as the watch and its callers use it. Durations are in µs."""

    @property
    def jobs(self) -> Sequence[tuple[bytes, Any, int, int, int]]: ...
    @property
    def wait(self) -> int: ...
    @property
    def seat(self) -> int: ...
    @property
    def ask_again(self) -> bool: ...


class Gate(Protocol):
    """Decides at each pop of a wait how many jobs the caller may take: a worker's topics share its slots, and a wait needs none."""

    def take_slots(self) -> int:
        """For how many jobs there are slots, kept for this pop. With 0 there is no pop, and the wait ends."""
        ...

    def give_slots_back(self) -> None:
        """The pop brought this caller nothing."""
        ...


class Caller:
    """A caller of ``pop`` that waits for ``max_jobs`` jobs, from the first of its queues that has any. ``served`` is called at the end."""

    __slots__ = (
        "deadline",
        "done",
        "fault",
        "gate",
        "last_pops",
        "max_jobs",
        "queues",
        "refused",
        "result",
        "served",
        "takes",
    )

    def __init__(self, max_jobs: int, deadline: float, served: Callable[[], None], gate: Gate | None = None) -> None:
        self.max_jobs = max_jobs
        self.deadline = deadline
        self.served = served
        self.gate = gate
        #: how many jobs a pop asks for in its name; with a gate only while one is under way
        self.takes = max_jobs if gate is None else 0
        self.queues: list[WaitQueue] = []
        self.last_pops: set[WaitQueue] | None = None
        self.done = False
        #: its gate allowed no pop
        self.refused = False
        self.fault: BaseException | None = None
        #: the queue that it was served from, the pop's answer, and its share of the jobs
        self.result: tuple[WaitQueue, PopAnswer, list[tuple[bytes, bytes, int, int, int]]] | None = None


class WaitQueue:
    """The callers that wait for one topic, with one TTR and one holder. ``waiter_id`` is its name in the server's ``watch``."""

    __slots__ = ("alarm", "callers", "holder", "keys", "pause", "seat", "ttr", "uncertain", "waiter_id")

    def __init__(self, keys: TopicKeys, ttr: bytes, holder: bytes, waiter_id: bytes) -> None:
        self.keys = keys
        self.ttr = ttr
        self.holder = holder
        self.waiter_id = waiter_id
        self.callers: list[Caller] = []
        self.alarm: float | None = None
        #: how long after its last pop the alarm was to ring
        self.pause = 0.0
        self.seat = 0
        #: a pop or a wait was interrupted, or a token is not answered yet: there may be a seat or a token to give back
        self.uncertain = False


@dataclass(frozen=True, slots=True)
class PopStep:
    """Pop up to ``max_jobs`` jobs for ``min_jobs`` waiting callers. If fewer come, and ``may_take_seat``, take a seat."""

    queue: WaitQueue
    max_jobs: int
    min_jobs: int
    may_take_seat: bool


@dataclass(frozen=True, slots=True)
class LookStep:
    """Ask which of these queues' topics must be popped from. Nobody relies on when it is done: they have no seat."""

    queues: tuple[WaitQueue, ...]


@dataclass(frozen=True, slots=True)
class LeaveStep:
    """Give back a seat, or a token that no caller here will answer."""

    keys: TopicKeys
    waiter_id: bytes


@dataclass(frozen=True, slots=True)
class GiveBackStep:
    """Release jobs that no caller here waits for any more; the attempt does not count."""

    queue: WaitQueue
    answer: PopAnswer
    jobs: list[tuple[bytes, bytes, int, int, int]]


@dataclass(frozen=True, slots=True)
class BlockStep:
    """Wait for a token in one of the keys, until a moment; without keys: stop waiting. ``abandon``: drop the connection, for the
    server does not answer."""

    keys: tuple[bytes, ...]
    until: float
    abandon: bool = False


WaitStep = PopStep | LookStep | LeaveStep | GiveBackStep | BlockStep


class Watch:
    """All waiting pops of one client (of one slot in a Cluster). Not thread-safe: its driver guards it."""

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
        """Adds a caller to its queues, each given by its keys, TTR and holder. True if a pop is due at once."""
        due_now = False
        self._callers[caller] = None  # first: an interrupted entry can be undone
        for keys, ttr, holder in queue_keys:
            queue = self._queues.get((keys.wake, ttr, holder))
            if queue is None:
                waiter_id = self._name + b":%d" % next(self._numbers)
                queue = self._queues[keys.wake, ttr, holder] = WaitQueue(keys, ttr, holder, waiter_id)
            if queue in caller.queues:  # the same topic twice
                continue
            due_now = due_now or queue.alarm is None
            caller.queues.append(queue)
            queue.callers.append(caller)
        return due_now

    def leave(self, caller: Caller) -> None:
        """Removes a caller, served or not."""
        if caller.gate is not None and caller.result is None:
            _give_slots_back(caller)
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
        """The next step; ``None`` when no caller waits and nothing has to be given back."""
        if (
            self._server_silent and not self._callers
        ):  # a seat or token that is not given back costs others one round at most
            self._pending_steps.clear()
            self._queues.clear()
            return BlockStep((), now, abandon=True) if self._blocked else None
        if self._pending_steps:
            return self._pending_steps.pop()
        for caller in self._callers:
            if caller.deadline <= now and caller.last_pops is None:
                caller.last_pops = set(caller.queues)
        while (due := self._due_queue(now)) is not None:
            if (step := self._look_step(due) or self._pop_step(due)) is not None:
                return step
        for key, queue in list(self._queues.items()):
            if not queue.callers:
                del self._queues[key]
                if queue.seat or queue.uncertain:
                    return LeaveStep(queue.keys, queue.waiter_id)
        if not self._queues:
            return BlockStep((), now) if self._blocked else None
        self._blocked = tuple(dict.fromkeys(key for queue in self._queues.values() for key in _tokens_of(queue)))
        return BlockStep(self._blocked, min(self._deadlines()))

    def _due_queue(self, now: float) -> WaitQueue | None:
        for caller in self._callers:
            for queue in caller.queues:
                if _wants_pop(caller, queue, now):
                    return queue
        return None

    def _deadlines(self) -> Iterator[float]:
        for queue in self._queues.values():
            yield math.inf if queue.alarm is None else queue.alarm
        for caller in self._callers:
            yield caller.deadline

    def _look_step(self, due: WaitQueue) -> LookStep | None:
        """Many topics at once, if this one's pop is a regular one, and so are theirs. Sooner than their alarms is no harm."""
        if not _is_regular(due) or len(self._queues) < MANY_QUEUES:
            return None
        queues = tuple(filter(_is_regular, self._queues.values()))
        return LookStep(queues) if len(queues) >= MANY_QUEUES else None

    def _pop_step(self, queue: WaitQueue) -> PopStep | None:
        """``None`` if no caller may take a job now: their waits have ended."""
        for caller in [one for one in queue.callers if one.gate is not None]:
            assert caller.gate is not None
            caller.takes = min(caller.gate.take_slots(), caller.max_jobs)
            if not caller.takes:
                caller.refused = True
                self._serve(caller)
        if not queue.callers:
            return None
        queue.uncertain = True
        stay = sum(1 for caller in queue.callers if caller.last_pops is None)
        max_jobs = min(sum(caller.takes for caller in queue.callers), MOST_JOBS)
        return PopStep(queue, max_jobs, min(stay, MOST_JOBS), may_take_seat=queue.keys.relay not in self._blocked)

    # ── results of steps ─────────────────────────────────────────────────────────────────────────────────────────────

    def pop_answered(self, step: PopStep, answer: PopAnswer, sent: float, now: float) -> None:
        """Hands out the jobs: one to each caller in order, then the rest in order.

        The next pop is counted from when the request was ``sent``, plus a moment: a process that was frozen before it read the
        answer must not pop later than its seat promises.
        """
        queue, jobs, self._server_silent = step.queue, list(answer.jobs), False
        stays = len(jobs) < step.min_jobs and not answer.ask_again
        queue.uncertain = False
        queue.seat = answer.seat  # 0 when it has to ask again, unless schedules are due
        jitter = (
            0 if queue.seat else crc32(queue.waiter_id) % 50 / 1000
        )  # clients without a seat do not pop at the same moment
        wait = queue.pause = answer.wait / 1e6 * (1 + jitter)
        queue.alarm = min(now, sent + FROZEN_S) + wait if stays else None
        served = [caller for caller in queue.callers if caller.takes and not caller.done][: len(jobs)]
        spare = len(jobs) - len(served)
        for caller in served:
            extra = min(caller.takes - 1, spare)
            spare -= extra
            share, jobs = jobs[: 1 + extra], jobs[1 + extra :]
            caller.result = (queue, answer, share)
            self._serve(caller)
        if jobs:
            self._pending_steps.append(GiveBackStep(queue, answer, jobs))
        for caller in queue.callers:
            if caller.gate is not None:
                _give_slots_back(caller)
        if not answer.ask_again:
            for caller in list(queue.callers):
                if caller.last_pops is not None:
                    caller.last_pops.discard(queue)
                    if not caller.last_pops:
                        self._serve(caller)

    def looked(self, step: LookStep, used: Collection[WaitQueue], sent: float) -> None:
        """The topics of the ``used`` queues are popped from. The others are looked at again."""
        for queue in step.queues:
            if _is_regular(queue):
                queue.alarm = None if queue in used else sent + queue.pause

    def pop_failed(self, step: PopStep, fault: BaseException) -> None:
        """Raises the error at the callers of the queue."""
        self._server_silent = isinstance(fault, Unavailable)
        step.queue.alarm, step.queue.seat, step.queue.uncertain = None, 0, False
        for caller in list(step.queue.callers):
            caller.fault = fault
            self._serve(caller)

    def token_received(self, key: bytes | None) -> None:
        """A BlockStep is over. If it returned a token, a queue here answers it with a pop, or it is given back."""
        self._blocked = ()
        if key is None:
            return
        mine = [queue for queue in self._queues.values() if key in (queue.keys.wake, queue.keys.relay)]
        for queue in mine:
            if queue.callers:
                queue.alarm, queue.uncertain = None, True  # if its callers go before the pop, the token is given back
                return
        if mine:
            self._pending_steps.append(LeaveStep(mine[0].keys, mine[0].waiter_id))
        else:
            self._pending_steps.append(LeaveStep(_keys_of(key), b""))

    def connection_lost(self) -> None:
        """The blocked connection is lost, and perhaps a token with it: pop before blocking again."""
        self._blocked = ()
        for queue in self._queues.values():
            queue.alarm, queue.uncertain = None, True

    def fail_all(self, error: BaseException) -> None:
        """Raises the error at all callers."""
        for caller in list(self._callers):
            caller.fault = error
            self._serve(caller)

    def _serve(self, caller: Caller) -> None:
        caller.done = True  # in this order: if this is interrupted, the caller sees that it is done, and leaves
        caller.served()
        self.leave(caller)


def _give_slots_back(caller: Caller) -> None:
    takes, caller.takes = caller.takes, 0
    if takes and caller.gate is not None:
        caller.gate.give_slots_back()


def _wants_pop(caller: Caller, queue: WaitQueue, now: float) -> bool:
    if caller.last_pops is not None:  # its time is up: one last pop from each of its queues
        return queue in caller.last_pops
    return queue.alarm is None or queue.alarm <= now


def _is_regular(queue: WaitQueue) -> bool:
    """Whether its next pop is one in case that a token was lost: it has callers with time left, no seat, and a fresh answer."""
    return (
        queue.seat == 0
        and queue.alarm is not None
        and queue.pause > 0
        and not queue.uncertain
        and bool(queue.callers)
        and all(caller.last_pops is None for caller in queue.callers)
    )


def _tokens_of(queue: WaitQueue) -> tuple[bytes, ...]:
    return (queue.keys.wake,) if queue.seat else (queue.keys.wake, queue.keys.relay)


def _keys_of(token: bytes) -> TopicKeys:
    """The keys of the topic that a token belongs to, when its queue is gone."""
    stem = token.rpartition(b":")[0]
    return TopicKeys(*[stem + b":" + part.encode() for part in TopicKeys._fields])


__all__ = [
    "BlockStep",
    "Caller",
    "Gate",
    "GiveBackStep",
    "LeaveStep",
    "LookStep",
    "PopStep",
    "WaitQueue",
    "WaitStep",
    "Watch",
]
