"""Endpoints of delayed queues that are shared with Java applications on Redisson."""

from __future__ import annotations

from datetime import datetime, timezone

from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.verbs.redisson.delayed.transfer import PoisonElement
from tarry.wire import topic_answers
from tarry.wire.endpoint import (
    ADMIN,
    ANY_SCOPE,
    CONSUME,
    PRODUCE,
    VIEW,
    Endpoint,
    Example,
    count_items,
    limit_of,
)
from tarry.wire.redisson import queue_answers, queue_models
from tarry.wire.schemas import NOTHING

_PATH = {"queue": "DelayMessage"}
_DUE = datetime(2027, 1, 15, 8, 0, 20, tzinfo=timezone.utc)
_ONE = queue_models.QueueValues(values=["AAAA"], codec="river")
_STATS = QueueStats(
    queue="DelayMessage", now=_DUE, waiting=12, overdue=0, ready=3, poison=0, leaving=0, movers=2, next_due=_DUE
)

OFFER = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/offer",
    scopes=PRODUCE,
    body_model=queue_models.Offer,
    returns=queue_answers.OFFERED,
    jobs=count_items("values"),
    example=Example(queue_models.Offer(values=["AAAA"], delay=20, codec="river"), [_DUE], _PATH),
)
SIZE = Endpoint(
    "GET",
    "/v1/delayed-queues/{queue}",
    scopes=ANY_SCOPE,
    returns=queue_answers.QUEUE_SIZE,
    example=Example(answer=queue_answers.QueueSize(12, 0), path=_PATH),
)
LIST_ELEMENTS = Endpoint(
    "GET",
    "/v1/delayed-queues/{queue}/elements",
    scopes=VIEW,
    query_model=queue_models.ListQueueQuery,
    returns=queue_answers.ELEMENTS,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
POLL = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/poll",
    scopes=CONSUME,
    body_model=queue_models.PollQueue,
    returns=queue_answers.ELEMENTS,
    jobs=limit_of,
    example=Example(queue_models.PollQueue(codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
PASS_ON = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/pass-on",
    scopes=CONSUME,
    body_model=queue_models.PassOn,
    returns=queue_answers.ELEMENTS,
    example=Example(queue_models.PassOn(to="Urgent", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
REMOVE = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/remove",
    scopes=PRODUCE | CONSUME,
    body_model=queue_models.Remove,
    returns=queue_answers.CHANGED,
    example=Example(queue_models.Remove(values=["AAAA"], codec="river"), True, _PATH),
)
RETAIN = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/retain",
    scopes=ADMIN,
    body_model=queue_models.QueueValues,
    returns=queue_answers.CHANGED,
    example=Example(_ONE, True, _PATH),
)
CONTAINS = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/contains",
    scopes=PRODUCE | CONSUME,
    body_model=queue_models.Contains,
    returns=queue_answers.CONTAINED,
    example=Example(queue_models.Contains(values=["AAAA"], codec="river"), True, _PATH),
)
SET_FORMAT = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/format",
    scopes=ADMIN,
    returns=NOTHING,
    body_model=queue_models.SetFormat,
    example=Example(queue_models.SetFormat("Bc0Lc0"), path=_PATH),
)
CLEAR = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/clear",
    scopes=ADMIN,
    returns=queue_answers.CHANGED,
    example=Example(answer=True, path=_PATH),
)
MIGRATE = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/migrate",
    scopes=ADMIN,
    body_model=queue_models.MigrateQueue,
    returns=topic_answers.MIGRATED,
    example=Example(
        queue_models.MigrateQueue(to="orders", codec="river"), topic_answers.MigratedShown(moved=12, done=True), _PATH
    ),
)
STATS = Endpoint(
    "GET",
    "/v1/delayed-queues/{queue}/stats",
    scopes=ANY_SCOPE,
    returns=queue_answers.QUEUE_STATS,
    example=Example(answer=_STATS, path=_PATH),
)
POISON = Endpoint(
    "GET",
    "/v1/delayed-queues/{queue}/poison",
    scopes=VIEW,
    returns=queue_answers.POISON,
    example=Example(answer=[PoisonElement(b"\0\0\0", "truncated")], path=_PATH),
)
ADD_POISON = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/poison",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=queue_models.AddPoison,
    example=Example(queue_models.AddPoison([queue_models.Unread("AAAA", "handler: KeyError: 'id'")]), path=_PATH),
)
PUT = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/put",
    scopes=PRODUCE,
    returns=NOTHING,
    body_model=queue_models.Put,
    jobs=count_items("values"),
    example=Example(queue_models.Put(values=["AAAA"], codec="river"), path=_PATH),
)
TAKE = Endpoint(
    "POST",
    "/v1/delayed-queues/{queue}/take",
    scopes=CONSUME,
    body_model=queue_models.Take,
    returns=queue_answers.ELEMENTS,
    jobs=limit_of,
    example=Example(queue_models.Take(wait="30s", codec="river"), queue_answers.Elements(["AAAA"]), _PATH),
)
TAKE_FROM_ANY = Endpoint(
    "POST",
    "/v1/take",
    scopes=CONSUME,
    body_model=queue_models.TakeFromAny,
    returns=queue_answers.TAKEN,
    jobs=limit_of,
    example=Example(
        queue_models.TakeFromAny(queues=["Urgent", "DelayMessage"], wait="30s", codec="river"),
        queue_answers.TakenElements(["AAAA"], "DelayMessage"),
    ),
)
PEEK = Endpoint(
    "GET",
    "/v1/delayed-queues/{queue}/peek",
    scopes=VIEW,
    query_model=queue_models.QueueQuery,
    returns=queue_answers.ELEMENTS,
    example=Example(answer=queue_answers.Elements(["AAAA"]), path=_PATH),
)
