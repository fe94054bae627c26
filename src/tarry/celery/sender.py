"""The producer's side: what Celery would publish with an ``eta`` is added to the topic.

Celery's own sender does its work as ever, with its signals and its ``task-sent`` event. It is given a producer
whose ``publish`` adds a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import celery.app.base
from celery import signals
from celery.app.amqp import AMQP as CeleryAMQP  # noqa: N811  # its name is Celery's
from kombu.compression import compress
from kombu.entity import Queue
from kombu.serialization import dumps

from tarry.celery.delayed_messages import ETA, NOT_STORED, seconds_until, waiting_tasks

Sender = Callable[..., Any]


class AMQP(CeleryAMQP):
    """Celery's ``app.amqp``, whose sender lets messages with an ``eta`` wait."""

    def _create_task_sender(self) -> Sender:
        send: Sender = super()._create_task_sender()

        def send_task_message(
            producer: Any, name: str, message: Any, *, headers: dict[str, Any] | None = None, **options: Any
        ) -> Any:
            if headers and ETA in headers:  # of the run that is retried
                headers = {key: value for key, value in headers.items() if key != ETA}
            if _task_fields(message.headers, message.body).get("eta"):
                producer = WaitingProducer(self.app, name, message.body, producer)
            return send(producer, name, message, headers=headers, **options)

        return send_task_message


class WaitingProducer:
    """A producer that adds the message to the topic; everything else goes to the real one."""

    def __init__(self, app: Any, task: str, body: Any, producer: Any) -> None:
        self._app, self._task, self._body, self._producer = app, task, body, producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def publish(self, body: Any, **options: Any) -> Any:
        """Adds the task's message; the ``task-sent`` event is published."""
        if body is not self._body:
            return self._producer.publish(body, **options)
        headers: dict[str, Any] = dict(options["headers"])
        if isinstance(body, dict):
            body = dict(body)
        fields = _task_fields(headers, body)
        headers[ETA], fields["eta"] = fields["eta"], None
        content_type, encoding, data = dumps(body, serializer=options["serializer"])
        if options.get("compression"):
            data, headers["compression"] = compress(data, options["compression"])
        publish = {name: value for name, value in options.items() if value is not None and name not in NOT_STORED}
        publish |= {"body": data, "headers": headers, "content_type": content_type, "content_encoding": encoding}
        for name in publish.keys() & {"exchange", "reply_to"}:
            publish[name] = getattr(publish[name], "name", publish[name])
        waiting_tasks(self._app).add(
            fields["id"],
            retries=fields.get("retries") or 0,
            message={
                "task": self._task,
                "delay": seconds_until(headers[ETA]),
                "publish": publish,
                "declare": [entity.name for entity in options.get("declare") or () if isinstance(entity, Queue)],
            },
        )
        return None


def _task_fields(headers: dict[str, Any], body: Any) -> dict[str, Any]:
    """Where a message has the task's id and eta: in its headers, or, by Celery's protocol 1, in its body."""
    return body if isinstance(body, dict) and "eta" in body else headers


def leave_quorum_queues_alone() -> None:
    """Celery (5.5) sends a task with an ``eta`` through 28 queues of RabbitMQ if any queue is a quorum queue, and says so
    before the sender is reached. Apps with tarry have no need of it; other apps of this process keep it."""
    module: Any = celery.app.base
    detect = getattr(module, "detect_quorum_queues", None)
    if detect is None or hasattr(detect, "without_tarry"):
        return

    def detect_quorum_queues(app: Any, driver_type: str) -> tuple[bool, str]:
        if isinstance(app.amqp, AMQP):
            return False, ""
        found: tuple[bool, str] = detect(app, driver_type)
        return found

    detect_quorum_queues.without_tarry = detect  # type: ignore[attr-defined]  # a mark: once is enough
    module.detect_quorum_queues = detect_quorum_queues


def show_eta() -> None:
    """``task.request.eta`` is what it would be without tarry."""
    signals.task_prerun.connect(_show_eta, dispatch_uid="tarry.celery", weak=False)


def _show_eta(*, task: Any, **_: Any) -> None:
    eta = task.request.get(ETA)
    if eta is not None:
        task.request.eta = eta
