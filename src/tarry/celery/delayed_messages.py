"""The delayed messages of one Celery app: their topic, and the content of a job.

    id      the task's id; another message with the id of one that still waits: the id, "~" and a random word
    body    {"task": "shop.close", "delay": 3600.0,
             "publish": {"body": "[[7], {}, …]", "headers": {"id": …}, "routing_key": …},    for kombu's Producer.publish
             "declare": ["celery"]}                                                          queues it must find

JSON as kombu writes it, so that bytes, dates and UUIDs in it come back as what they were.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Annotated, Any, TypedDict
from weakref import WeakKeyDictionary

import msgspec
from celery import Celery, signals
from celery.app.task import Context
from kombu.entity import Queue
from kombu.exceptions import ContentDisallowed, SerializationError
from kombu.message import Message
from kombu.serialization import prepare_accept_content
from kombu.utils import json
from msgspec import Meta

from tarry import AsyncClient, Client, NewJob, Topic  # here, before a worker forks: an import takes a child a moment
from tarry.errors import BadInput, BodyError, JobExists
from tarry.internal import JobOptions, perform, server_verbs
from tarry.types import IfExists

ETA = "tarry_eta"
"""The header that a message's ``eta`` travels in."""
TTR_S = 10.0
"""How long a relay has a message in hand; after the relay was killed, another one takes it so much later."""
MAX_MESSAGE = 16 << 20
NOT_STORED = frozenset({"retry", "retry_policy", "declare", "serializer", "compression"})
"""Arguments of kombu's ``publish`` that concern only the call itself."""
LONGEST_S = 1e12
"""The longest delay, in seconds; more is no time of this calendar."""
_JOB_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.:~/@+-]{0,149}")
_waiting: WeakKeyDictionary[Celery, WaitingTasks] = WeakKeyDictionary()


class WaitingMessage(TypedDict):
    """The body of a job."""

    task: str
    delay: Annotated[float, Meta(ge=0, le=LONGEST_S)]
    publish: dict[str, Any]
    declare: list[str]


_NOTHING = type(None)
_KINDS: dict[str, tuple[type, ...]] = {
    "body": (str, bytes),
    "headers": (dict,),
    "content_type": (str,),
    "content_encoding": (str,),
    "exchange": (str, _NOTHING),
    "routing_key": (str, _NOTHING),
    "reply_to": (str, _NOTHING),
    "correlation_id": (str, _NOTHING),
    "delivery_mode": (int, str, _NOTHING),
    "priority": (int, _NOTHING),
    "expiration": (int, float, _NOTHING),
    "timeout": (int, float, _NOTHING),
    "confirm_timeout": (int, float, _NOTHING),
}


class MessageCodec:
    """Messages as JSON, as kombu writes it. A message that the sender cannot have written is refused when it is read."""

    def encode(self, body: WaitingMessage, /) -> bytes:
        text: str = json.dumps(body)
        return text.encode()

    def decode(self, raw: bytes, /) -> WaitingMessage:
        message = msgspec.convert(json.loads(raw), WaitingMessage)
        _check_fields(message["publish"])
        return message


class WaitingTasks:
    """The tasks of one app that wait in a topic. Thread-safe, fork-safe; connects when it is first used."""

    _for_modules = ("add", "async_client", "queues", "settings")

    def __init__(
        self,
        app: Celery,
        url: str | None,
        namespace: str | None,
        topic: str,
        max_message: int,
        queues: Sequence[str | Queue] = (),
    ) -> None:
        self.app = app
        """The Celery app."""
        self.queues: tuple[str | Queue, ...] = tuple(queues)
        self.settings: dict[str, Any] = {"url": url, "namespace": namespace, "max_body": max_message}
        self.name = topic
        """The name of the topic in which they wait."""
        _waiting[app] = self

    @cached_property
    def topic(self) -> Topic[WaitingMessage]:
        """The topic in which the tasks wait, a ``Topic`` of a blocking client."""
        return Client(**self.settings).topic(self.name, type=MessageCodec())

    def describe(self) -> str:
        """Where the tasks wait, and for which broker, without secrets."""
        broker = self.app.connection_for_write().as_uri()
        return f"topic {self.name}, {AsyncClient(**self.settings)!r}, broker {broker}"

    def async_client(self) -> AsyncClient:
        """A client for a relay."""
        return AsyncClient(**self.settings)

    def add(self, task_id: str, *, retries: int, message: WaitingMessage) -> None:
        """Lets a message wait.

        A task that retries at once does so while a relay still holds the message that it came by: the new one takes its place.
        Any other message with the id of one that waits has to wait beside it, as both would be delivered without tarry.
        Raises ``TopicFull`` where no more may wait, but not for a retry: Celery drops a task whose retry cannot be sent.
        """
        id = _job_id(task_id)
        try:
            self._add(id, message, "error", retries)
        except JobExists as taken:
            if taken.state == "reserved" and retries:
                self._add(id, message, "replace", retries)
            else:
                self._add(_job_id(f"{id}~{uuid.uuid4().hex[:12]}"), message, "error", retries)

    def _add(self, id: str, message: WaitingMessage, if_exists: IfExists, retries: int) -> None:
        """A retry is counted against a limit for producers, and never refused."""
        options: dict[str, Any] = {"ttr": TTR_S, "max_attempts": None, "if_exists": if_exists}
        if not retries:
            self.topic.add(message, id=id, delay=message["delay"], **options)
            return
        jobs, encoded = [NewJob(message, id=id, delay=message["delay"])], JobOptions(**options).encode()
        adding = server_verbs(self.topic).add_many_with(jobs, encoded, atomic=False, moves=True)
        perform(self.topic, adding, registers=True)

    def reschedule(self, task_id: str, delay: float) -> bool:
        """Sets another due time for a waiting task. Returns whether it still waits."""
        return self.topic.reschedule(_job_id(task_id), delay=delay) in ("delayed", "ready")

    def revoke(self, task_ids: list[str]) -> None:
        """Deletes the waiting messages of these tasks, reports the tasks as revoked to the result backend, and sends Celery's signal."""
        ids = [_job_id(task_id) for task_id in task_ids]
        jobs = self.topic.get_many(ids)
        for job, state in zip(jobs, self.topic.delete_many(ids), strict=True):
            if job is not None and state not in (None, "reserved"):
                with suppress(BodyError):  # no message of a task, and it is gone
                    self._mark_revoked(job.body)

    def _mark_revoked(self, waiting: WaitingMessage) -> None:
        publish = waiting["publish"]
        task = self.app.tasks.get(waiting["task"])
        message = Message(
            **{name: publish.get(name) for name in ("body", "content_type", "content_encoding", "headers")},
            accept=prepare_accept_content(self.app.conf.accept_content),
        )
        request = _request_of(message)
        ignored = getattr(task, "ignore_result", False) if request.ignore_result is None else request.ignore_result
        backend = self.app.backend if task is None else task.backend
        backend.mark_as_revoked(
            request.id,
            "revoked",
            request=request,
            store_result=not ignored or bool(task is not None and task.store_errors_even_if_ignored),
        )
        signals.task_revoked.send(sender=task, request=request, terminated=False, signum=None, expired=False)


def _check_fields(publish: dict[str, Any]) -> None:
    if refused := NOT_STORED & publish.keys():
        raise ValueError(f"publish has {', '.join(sorted(refused))}, which are not stored")
    for name, kinds in _KINDS.items():
        if not isinstance(publish.get(name), kinds):
            raise TypeError(f"publish: {name} is of the type {type(publish.get(name)).__name__}")
    if (expires := publish["headers"].get("expires")) is not None:
        seconds_until(expires)


def waiting_tasks(app: Celery) -> WaitingTasks:
    """The delayed messages of an app. Raises ``BadInput`` for an app on which tarry is not installed."""
    found = _waiting.get(app)
    if found is None:
        raise BadInput(f"app: {app!r} is without tarry; call tarry.celery.install(app) where it is made.")
    return found


def seconds_until(moment: datetime | str) -> float:
    """How long until a moment by this machine's clock, which made it; 0 for a past one. A naive one is in UTC, as for Celery."""
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return max((moment - datetime.now(timezone.utc)) / timedelta(seconds=1), 0.0)


def _job_id(task_id: str) -> str:
    """The task's id, or a digest of it where it may not be one of a job."""
    text = str(task_id)
    return text if _JOB_ID.fullmatch(text) else uuid.uuid5(uuid.NAMESPACE_OID, text).hex


def _request_of(message: Any) -> Any:
    """The task's request, of either protocol: what the result backend and the signal are given."""
    try:
        payload = message.payload
        if isinstance(payload, dict):
            return Context(payload)
        args, kwargs, embed = payload
        return Context(message.headers, args=args, kwargs=kwargs, **embed)
    except (SerializationError, ContentDisallowed, TypeError, ValueError):  # this process does not read it
        return Context(message.headers)
