"""Endpoints of locks, of the namespace or shared with Java applications on Redisson: who holds them, and releasing one by force."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from msgspec import Meta, Struct

from tarry.verbs.locks.lock_values import LockState
from tarry.wire.endpoint import ADMIN, ANY_SCOPE, Endpoint, Example
from tarry.wire.schemas import model_schema, schema_of
from tarry.wire.types import Strict, with_pattern

LockName = Annotated[str, Meta(description="as the applications call it"), with_pattern("^.", minLength=1)]


Shared = Annotated[bool, Meta(description="Redisson's getLock(name), the same in every namespace")]


class LockQuery(Strict):
    """Which lock. ``shared``: Redisson's, not the namespace's."""

    shared: Shared = False


class LocksQuery(Strict):
    """Which locks, and where the page begins. ``all``: those that are free, too."""

    all: bool = False
    shared: Shared = False
    cursor: Annotated[str, with_pattern(r"^[0-9]{1,4}-[0-9]{1,19}$")] | None = None


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


# ── endpoints ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_PATH = {"lock": "stock"}
_HOLDER = "5f0c8d1e-2f7a-4c1b-9a53-0d6f3f1c2b7e:1"
_SHOWN = LockState(
    name="stock",
    held=True,
    holder=_HOLDER,
    depth=1,
    token=1800000000000000,
    remaining=timedelta(seconds=28.5),
    waiting=2,
)

LIST_HELD = Endpoint(
    "GET",
    "/v1/locks",
    scopes=ANY_SCOPE,
    query_model=LocksQuery,
    returns=LOCKS,
    example=Example(answer=Locks([_SHOWN])),
)
LOOK = Endpoint(
    "GET",
    "/v1/locks/{lock}",
    scopes=ANY_SCOPE,
    query_model=LockQuery,
    returns=LOCK,
    example=Example(answer=_SHOWN, path=_PATH),
)
FORCE_RELEASE = Endpoint(
    "POST",
    "/v1/locks/{lock}/force-release",
    scopes=ADMIN,
    query_model=LockQuery,
    returns=LOCK_RELEASED,
    example=Example(answer=LockReleased("stock", True, _HOLDER), path=_PATH),
)
