"""Endpoints of guarded queues: values are pushed with a delay, and polled when they are due."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tarry.errors import BodyError
from tarry.verbs.codecs import RAW, BodyCodec
from tarry.verbs.guarded.guarded_context import GuardedItem, GuardedStats
from tarry.wire import bodies
from tarry.wire.endpoint import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Endpoint, Example, count_items, limit_of
from tarry.wire.redisson import queue_answers
from tarry.wire.schemas import Schema, SharedFields, schema_of
from tarry.wire.types import Answer, AnyJson, Base64, Limit, Milliseconds, Moment, Span, Strict, Wait

Layout = Annotated[
    Literal["tarry", "java"],
    Meta(description="java: d_q_p:NAME, as the Java design that guarded queues come from has it"),
]


class GuardedQuery(Strict):
    """How its items lie on the server."""

    layout: Layout = "tarry"


class Pushed(Strict):
    """A value: ``body`` (JSON) or ``body_base64`` (bytes)."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    delay: Span = 0


class PushItems(GuardedQuery, kw_only=True):
    """Values to put in, each with its delay."""

    items: Annotated[list[Pushed], Meta(min_length=1, max_length=10_000)]


class PollGuarded(GuardedQuery):
    """``max_lateness``: nothing is taken, if the first item is later."""

    limit: Limit = 1
    wait: Wait = 0
    max_lateness: Span | None = None


class ClearGuarded(GuardedQuery):
    """Everything."""


class GuardedItemShown(Answer, kw_only=True):
    """An item that was taken."""

    body: AnyJson | UnsetType = UNSET
    body_base64: Base64 | None = None
    coded: bool = False
    due: Moment
    lateness_ms: Milliseconds


class GuardedItemsShown(Struct):
    """The first first; none, if none was due in time."""

    items: list[GuardedItemShown]


_FIELDS = SharedFields(GuardedItemShown, Answer, "body", "body_base64", "coded")


def _dump_items(found: list[GuardedItem[Any]]) -> GuardedItemsShown:
    return GuardedItemsShown([_dump(item) for item in found])


def _dump(item: GuardedItem[Any]) -> GuardedItemShown:
    """A member that cannot be read is its bytes."""
    body = (item.value, RAW) if isinstance(item.value, bytes) else item.value
    return GuardedItemShown(**bodies.body_fields(body), **_FIELDS.dump(item))


def _load_items(found: GuardedItemsShown, codec: BodyCodec[Any]) -> list[GuardedItem[Any]]:
    return [GuardedItem(_load(item, codec), **_FIELDS.load(item)) for item in found.items]


def _load(item: GuardedItemShown, codec: BodyCodec[Any]) -> Any:
    """As it is, where it cannot be read: it is out of the queue already, and better so than lost."""
    raw, flag = bodies.body_in(item)
    try:
        return codec.decode(raw, flag)
    except BodyError:
        return raw


ITEMS: Schema[list[GuardedItem[Any]]] = Schema(GuardedItemsShown, _dump_items, _load_items)
GUARDED_STATS = schema_of(
    GuardedStats, "GuardedStatsShown", "The state of a guarded queue. ``lateness_ms``: how late its first item is."
)


# ── endpoints ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_PATH = {"queue": "reminders"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"to": "ann"}')


PUSH = Endpoint(
    "POST",
    "/v1/guarded-queues/{queue}/push",
    scopes=PRODUCE,
    body_model=PushItems,
    returns=queue_answers.OFFERED,
    jobs=count_items("items"),
    example=Example(
        PushItems(items=[Pushed(body=_BODY, delay=20)]),
        [_DUE],
        _PATH,
    ),
)
POLL = Endpoint(
    "POST",
    "/v1/guarded-queues/{queue}/poll",
    scopes=CONSUME,
    body_model=PollGuarded,
    returns=ITEMS,
    jobs=limit_of,
    problem_codes=("fallen_behind",),
    example=Example(
        PollGuarded(wait="30s"),
        GuardedItemsShown([GuardedItemShown(body=_BODY, due=_DUE, lateness_ms=0.4)]),
        _PATH,
    ),
)
STATS = Endpoint(
    "GET",
    "/v1/guarded-queues/{queue}",
    scopes=ANY_SCOPE,
    query_model=GuardedQuery,
    returns=GUARDED_STATS,
    example=Example(answer=GuardedStats(12, 0, _DUE, timedelta(0)), path=_PATH),
)
CLEAR = Endpoint(
    "POST",
    "/v1/guarded-queues/{queue}/clear",
    scopes=ADMIN,
    body_model=ClearGuarded,
    returns=queue_answers.CHANGED,
    example=Example(ClearGuarded(), True, _PATH),
)
