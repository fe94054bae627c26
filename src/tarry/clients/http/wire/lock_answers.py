"""Answers about locks."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from tarry.clients.http.wire.schemas import model_schema, schema_of
from tarry.verbs.locks.models import LockState

LOCK = schema_of(
    LockState,
    "LockShown",
    "The holder of a lock. ``depth``: how often it holds the lock; ``remaining_ms``: until it ends without a renewal; ``token``: the last one.",
    renamed={"name": "lock"},
)


@dataclass(frozen=True, slots=True)
class Locks:
    """One page of locks."""

    locks: list[LockState]
    cursor: str | None = None


LOCKS = schema_of(
    Locks,
    "LockPage",
    "Without ``cursor`` it is the last page; with one there may be more, even if this page is empty.",
    omit_defaults=True,
)


class LockReleased(Struct):
    """``released``: it was held; ``holder``: the last holder."""

    lock: str
    released: bool
    holder: str | None


LOCK_RELEASED = model_schema(LockReleased)
