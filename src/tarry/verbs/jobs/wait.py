"""Waiting for jobs: what the watch's steps mean in requests.

``perform_step`` performs a step that talks; blocking is left to the driver. ``simulate_wait`` is a driver by itself: where time is
imaginary, nothing blocks, and waiting makes time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Protocol

from tarry.core.requests import Command, Flow, ask
from tarry.core.watch import BlockStep, Caller, GiveBackStep, LeaveStep, PopStep, Watch
from tarry.errors import TarryError
from tarry.values.keys import TopicKeys
from tarry.verbs.jobs import pop
from tarry.verbs.schedules import occurrences

WaitQueueKey = tuple[TopicKeys, bytes, bytes]
"""Where a caller queues: the topic's keys, the consumer's TTR, the holder."""


def perform_step(
    watch: Watch,
    step: PopStep | LeaveStep | GiveBackStep,
    now: Callable[[], float],
    lock: AbstractContextManager[object] | None = None,
) -> Flow[None]:
    """Performs one step; ``guard`` is held while the watch is told (by threads that share it)."""
    lock = lock if lock is not None else nullcontext()
    match step:
        case PopStep(post, want, need, named):
            waiter_id, sent = post.waiter_id if named else pop.NOBODY, now()
            try:
                found = yield from ask(
                    pop.pop_step(post.keys, want, ttr=post.ttr, holder=post.holder, need=need, waiter_id=waiter_id)
                )
                found = yield from pop.heard(post.keys, found)
                if found.unfinished == pop.FIRE:
                    yield from occurrences.fire_due(post.keys)
            except TarryError as fault:
                with lock:
                    watch.pop_failed(step, fault)
            else:
                with lock:
                    watch.pop_answered(step, found, sent, now())
        case LeaveStep(keys, waiter_id):
            with suppress(TarryError):  # then the others notice, at their look-around
                yield from ask(pop.leave_watch(keys, waiter_id))
        case GiveBackStep(post, found, jobs):
            with suppress(TarryError):  # then they come back after their TTR
                yield from ask(pop.give_back_reply(post.keys, found.receipt, jobs))


class SimulatedClock(Protocol):
    """A clock that passes when it is told to."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def simulate_wait(
    watch: Watch, want: int, seconds: float, queue_keys: Sequence[WaitQueueKey], time: SimulatedClock
) -> Flow[Caller]:
    """A whole wait, in a time that passes only here."""
    caller = Caller(want, time.seconds() + seconds, lambda: None)
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
