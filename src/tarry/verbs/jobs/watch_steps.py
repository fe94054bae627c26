"""Waiting for jobs: the watch's steps as requests.

``perform_step`` performs all steps but BlockStep, which is the driver's. ``simulate_wait`` is a driver for imaginary time:
nothing
blocks, and waiting makes the time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from tarry.core.requests import Batch, Command, Flow, ask
from tarry.core.watch import BlockStep, Caller, Gate, GiveBackStep, LeaveStep, LookStep, PopStep, WaitQueue, Watch
from tarry.errors import TarryError
from tarry.values.keys import TopicKeys, part_key
from tarry.verbs.jobs import pop

WaitQueueKey = tuple[TopicKeys, bytes, bytes]
"""The key of a wait queue: the topic's keys, the consumer's TTR, the holder."""
MOST_LOOKED_AT = 500
"""Topics that one script looks at: each costs three commands, and all others wait for it."""


def perform_step(
    watch: Watch,
    step: PopStep | LookStep | LeaveStep | GiveBackStep,
    now: Callable[[], float],
    lock: AbstractContextManager[object] | None = None,
) -> Flow[None]:
    """Performs one step; ``lock`` is held while the watch is updated (by threads that share it)."""
    lock = lock if lock is not None else nullcontext()
    match step:
        case PopStep(queue, max_jobs, min_jobs, may_take_seat):
            waiter_id, sent = queue.waiter_id if may_take_seat else pop.NOBODY, now()
            try:
                reply = yield from ask(
                    pop.pop_step(
                        queue.keys, max_jobs, ttr=queue.ttr, holder=queue.holder, min_jobs=min_jobs, waiter_id=waiter_id
                    )
                )
                reply = yield from pop.confirm_last_attempts(queue.keys, reply)
                if reply.unfinished == pop.FIRE:
                    from tarry.verbs.schedules import fire as occurrences

                    yield from occurrences.fire_due(queue.keys)
            except TarryError as fault:
                with lock:
                    watch.pop_failed(step, fault)
            else:
                with lock:
                    watch.pop_answered(step, reply, sent, now())
        case LookStep(queues):
            sent = now()
            used = yield from _find_used(queues)
            with lock:
                watch.looked(step, used, sent)
        case LeaveStep(keys, waiter_id):
            with suppress(TarryError):  # then other consumers notice after a round
                yield from ask(pop.leave_watch(keys, waiter_id))
        case GiveBackStep(queue, reply, jobs):
            with suppress(TarryError):  # then they come back after their TTR
                yield from ask(pop.give_back_reply(queue.keys, reply.receipt, jobs))


def _find_used(queues: Sequence[WaitQueue]) -> Flow[set[WaitQueue]]:
    """Which topics must be popped from now. Asks which have jobs or schedules at all, or partitions by now: all together, then halves of
    what has any, unless most of it has. Then a script looks at those, a portion at a time. A refusal counts as some: their pops will tell."""
    used: list[WaitQueue] = []
    parts = [queues]
    while parts:
        counts: list[int | TarryError] = yield Batch([_count_used(part) for part in parts])
        found, parts = [(part, count) for part, count in zip(parts, counts, strict=True) if count != 0], []
        for part, count in found:
            if len(part) == 1 or (isinstance(count, int) and 2 * count >= len(part)):
                used += part
            else:
                parts += [part[: len(part) // 2], part[len(part) // 2 :]]
    due = set[WaitQueue]()
    for at in range(0, len(used), MOST_LOOKED_AT):
        part = used[at : at + MOST_LOOKED_AT]
        try:
            numbers = yield from ask(pop.look([queue.keys for queue in part]))
        except TarryError:
            due.update(part)
        else:
            due.update(part[number - 1] for number in numbers)
    return due


def _count_used(queues: Sequence[WaitQueue]) -> Command[int]:
    """Every job that waits, is reserved or dead has a field in ``jobs``; of a topic with partitions, that is a string."""
    keys = [key for queue in queues for key in (queue.keys.jobs, part_key(queue.keys, "schedules"))]
    return Command((b"EXISTS", *keys), int)


class SimulatedClock(Protocol):
    """A clock that is advanced by its user."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def simulate_wait(
    watch: Watch,
    max_jobs: int,
    seconds: float,
    queue_keys: Sequence[WaitQueueKey],
    time: SimulatedClock,
    gate: Gate | None = None,
) -> Flow[Caller]:
    """Performs a whole wait in imaginary time."""
    caller = Caller(max_jobs, time.seconds() + seconds, lambda: None, gate)
    watch.enter(caller, queue_keys)
    while (step := watch.next_step(time.seconds())) is not None:
        if not isinstance(step, BlockStep):
            yield from perform_step(watch, step, time.seconds)
            continue
        for key in step.keys:
            if (yield from ask(Command((b"LPOP", key), bool))):
                watch.token_received(key)
                break
        else:
            watch.token_received(None)  # nothing is really blocked here
            if step.keys:
                time.pass_until(step.until)
    return caller
