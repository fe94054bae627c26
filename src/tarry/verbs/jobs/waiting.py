"""Waiting for jobs: what the watch's steps mean in requests.

``turn`` performs a step that talks; blocking is left to the driver. ``imaginary`` is a driver by itself: where time is
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
from tarry.verbs.jobs import taking
from tarry.verbs.schedules import firing

PostAddress = tuple[TopicKeys, bytes, bytes]
"""Where a caller queues: the topic's keys, the consumer's TTR, the holder."""


def turn(
    watch: Watch,
    step: PopStep | LeaveStep | GiveBackStep,
    now: Callable[[], float],
    guard: AbstractContextManager[object] | None = None,
) -> Flow[None]:
    """Performs one step; ``guard`` is held while the watch is told (by threads that share it)."""
    guard = guard if guard is not None else nullcontext()
    match step:
        case PopStep(post, want, need, named):
            me, sent = post.me if named else taking.NOBODY, now()
            try:
                found = yield from ask(taking.pop(post.keys, want, ttr=post.ttr, holder=post.holder, need=need, me=me))
                found = yield from taking.heard(post.keys, found)
                if found.todo == taking.FIRE:
                    yield from firing.attend(post.keys)
            except TarryError as fault:
                with guard:
                    watch.pop_failed(step, fault)
            else:
                with guard:
                    watch.pop_answered(step, found, sent, now())
        case LeaveStep(keys, me):
            with suppress(TarryError):  # then the others notice, at their look-around
                yield from ask(taking.leave(keys, me))
        case GiveBackStep(post, found, jobs):
            with suppress(TarryError):  # then they come back after their TTR
                yield from ask(taking.give_back(post.keys, found.receipt, jobs))


class Time(Protocol):
    """A clock that passes when it is told to."""

    def seconds(self) -> float: ...
    def pass_until(self, moment: float) -> None: ...


def imaginary(watch: Watch, want: int, seconds: float, posts: Sequence[PostAddress], time: Time) -> Flow[Caller]:
    """A whole wait, in a time that passes only here."""
    caller = Caller(want, time.seconds() + seconds, lambda: None)
    watch.enter(caller, posts)
    while (step := watch.next_step(time.seconds())) is not None:
        if not isinstance(step, BlockStep):
            yield from turn(watch, step, time.seconds)
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
