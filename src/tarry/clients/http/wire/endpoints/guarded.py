"""Endpoints of guarded queues: values are pushed with a delay, and polled when they are due."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import msgspec

from tarry.clients.http.wire import guarded_answers, guarded_models, queue_answers
from tarry.clients.http.wire.endpoint import ADMIN, ANY_SCOPE, CONSUME, PRODUCE, Endpoint, Example, count_items
from tarry.verbs.guarded.context import GuardedStats

_PATH = {"queue": "reminders"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_BODY = msgspec.Raw(b'{"to": "ann"}')


def _count(payload: guarded_models.PollGuarded) -> int:
    """How many items a request polls."""
    return payload.count


PUSH = Endpoint(
    "POST",
    "/v1/guarded/{queue}/push",
    new_names=("queue",),
    scopes=PRODUCE,
    body_model=guarded_models.PushItems,
    returns=queue_answers.OFFERED,
    jobs=count_items("items"),
    example=Example(
        guarded_models.PushItems(items=[guarded_models.Pushed(body=_BODY, delay=20)]),
        [_DUE],
        _PATH,
    ),
)
POLL = Endpoint(
    "POST",
    "/v1/guarded/{queue}/poll",
    scopes=CONSUME,
    body_model=guarded_models.PollGuarded,
    returns=guarded_answers.ITEMS,
    jobs=_count,
    problem_codes=("fallen_behind",),
    example=Example(
        guarded_models.PollGuarded(wait="30s"),
        guarded_answers.GuardedItems([guarded_answers.GuardedItem(body=_BODY, due=_DUE, lateness_ms=0.4)]),
        _PATH,
    ),
)
STATS = Endpoint(
    "GET",
    "/v1/guarded/{queue}",
    scopes=ANY_SCOPE,
    query_model=guarded_models.GuardedQuery,
    returns=guarded_answers.GUARDED_STATS,
    example=Example(answer=GuardedStats(12, 0, _DUE, timedelta(0)), path=_PATH),
)
CLEAR = Endpoint(
    "POST",
    "/v1/guarded/{queue}/clear",
    scopes=ADMIN,
    body_model=guarded_models.ClearGuarded,
    returns=queue_answers.CHANGED,
    example=Example(guarded_models.ClearGuarded(), True, _PATH),
)
