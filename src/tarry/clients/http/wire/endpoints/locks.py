"""Endpoints of locks that are shared with Java applications on Redisson: who holds them, and releasing one by force."""

from __future__ import annotations

from datetime import timedelta

from tarry.clients.http.wire import lock_answers, lock_models
from tarry.clients.http.wire.endpoint import ADMIN, ANY_SCOPE, Endpoint, Example
from tarry.verbs.locks.models import LockState

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
    query_model=lock_models.LocksQuery,
    returns=lock_answers.LOCKS,
    example=Example(answer=lock_answers.Locks([_SHOWN])),
)
LOOK = Endpoint(
    "GET",
    "/v1/locks/{lock}",
    scopes=ANY_SCOPE,
    returns=lock_answers.LOCK,
    example=Example(answer=_SHOWN, path=_PATH),
)
FORCE_RELEASE = Endpoint(
    "POST",
    "/v1/locks/{lock}/force-release",
    scopes=ADMIN,
    returns=lock_answers.LOCK_RELEASED,
    example=Example(answer=lock_answers.LockReleased("stock", True, _HOLDER), path=_PATH),
)
