"""Values out of what was taken: what the codec cannot read is set aside, with the reason, and stops nothing."""

from __future__ import annotations

from typing import TypeVar

from tarry.core.requests import Flow, ScriptCall, ask
from tarry.verbs.delayed import finding, moving
from tarry.verbs.delayed.desk import QueueDesk, Taken

T = TypeVar("T")


def poll(desk: QueueDesk[T], n: int) -> Flow[list[T]]:
    """From the head of the order of offers, whenever they are due."""
    return _some(desk, finding.poll(desk, n))


def poll_ready(desk: QueueDesk[T], n: int) -> Flow[list[T]]:
    """What is due is moved, and what is ready taken."""
    return _some(desk, moving.poll_ready(desk, n))


def _some(desk: QueueDesk[T], take: ScriptCall[Taken]) -> Flow[list[T]]:
    while True:
        taken = yield from ask(take)
        yield from _set_aside(desk, taken)
        if taken.values or not taken.unread:
            return taken.values


def read(desk: QueueDesk[T], payload: bytes) -> Flow[list[T]]:
    """The value of a payload that was taken, or none."""
    taken = desk.taken([payload])
    yield from _set_aside(desk, taken)
    return taken.values


def _set_aside(desk: QueueDesk[T], taken: Taken) -> Flow[None]:
    if taken.unread:
        yield from ask(moving.aside(desk.keys, taken.unread))
