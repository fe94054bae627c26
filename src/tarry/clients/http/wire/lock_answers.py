"""Answers about locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from tarry.clients.http.wire.types import Answer, Milliseconds, ms

if TYPE_CHECKING:
    from tarry.verbs.locks.models import LockState


class LockShown(Struct):
    """The holder of a lock. ``depth``: how often it holds the lock; ``remaining_ms``: until it ends without a renewal; ``token``: the last one."""

    lock: str
    held: bool
    holder: str | None
    depth: int
    token: int | None
    remaining_ms: Milliseconds | None
    waiting: int | None


class LockPage(Answer):
    """Without ``cursor`` it is the last page; with one there may be more, even if this page is empty."""

    locks: list[LockShown]
    cursor: str | None = None


class LockReleased(Struct):
    """``released``: it was held; ``holder``: the last holder."""

    lock: str
    released: bool
    holder: str | None


def lock(now: LockState) -> LockShown:
    remaining = None if now.remaining is None else ms(now.remaining)
    return LockShown(now.name, now.held, now.holder, now.depth, now.token, remaining, now.waiting)
