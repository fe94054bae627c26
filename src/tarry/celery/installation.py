"""``tarry.celery.install`` puts this package's parts into a Celery app: among them an ``app.control`` that revokes and reschedules a
task that waits where it waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import celery as _celery
from celery.app.control import Control as CeleryControl
from celery.utils.functional import maybe_list
from kombu.entity import Queue

from tarry.celery.delayed_messages import MAX_MESSAGE, WaitingTasks, seconds_until, waiting_tasks
from tarry.celery.relay import RelayStep
from tarry.celery.sender import AMQP, leave_quorum_queues_alone, show_eta
from tarry.errors import BadInput


class Control(CeleryControl):
    """Celery's ``app.control``. ``AsyncResult.revoke()`` and ``celery control revoke`` use it, too."""

    @property
    def _waiting(self) -> WaitingTasks:
        app: Any = self.app
        return waiting_tasks(app)

    def broadcast(
        self,
        command: str,
        arguments: Mapping[str, Any] | None = None,
        destination: Any = None,
        *args: Any,
        **options: Any,
    ) -> Any:
        """Sends a command to the workers, as Celery does. If the command revokes a task that still waits, the task is deleted first."""
        try:
            if command in ("revoke", "terminate") and destination is None:
                task_ids = {**(arguments or {}), **options}.get("task_id")
                self._waiting.revoke([str(one) for one in maybe_list(task_ids) or ()])
        finally:
            answer = super().broadcast(command, arguments, destination, *args, **options)
        return answer

    def reschedule(self, task_id: str, *, countdown: float | None = None, eta: datetime | None = None) -> bool:
        """Sets another time for a waiting task. Returns whether the task still waited; one that was published or revoked stays as it is."""
        if (countdown is None) == (eta is None):
            raise BadInput("countdown, eta: give one of the two.")
        return self._waiting.reschedule(
            task_id, seconds_until(eta) if eta is not None else max(float(countdown or 0), 0.0)
        )


_REPLACED = {"amqp_cls": ("celery.app.amqp:AMQP", AMQP), "control_cls": ("celery.app.control:Control", Control)}


def install(
    app: _celery.Celery,
    url: str | None = None,
    *,
    namespace: str | None = None,
    topic: str = "celery",
    relay: bool = True,
    max_message: int = MAX_MESSAGE,
    queues: Sequence[str | Queue] = (),
) -> None:
    """Lets every message that ``app`` publishes with an ``eta`` or a ``countdown`` wait in a topic until it is due.

    Call it where the app is made, so that producers and workers both call it. A second call changes the settings.

    ``url``, ``namespace``  those of ``tarry.Client``
    ``topic``  the topic in which messages wait. Applications with different brokers need different topics or namespaces
    ``relay``  with ``False`` this app's workers do not publish due messages; run ``tarry celery-relay`` instead
    ``max_message``  the most bytes that a waiting message may have
    ``queues``  further queues that a relay may publish to, besides those that the app's settings, routes and tasks name

    Raises ``BadInput`` if the app has an ``amqp_cls`` or ``control_cls`` that is not derived from those of this module.
    """
    for attribute, (usual, ours) in _REPLACED.items():
        found: Any = getattr(app, attribute)
        if found == usual:
            setattr(app, attribute, ours)
        elif not (isinstance(found, type) and issubclass(found, ours)):
            raise BadInput(f"app: its {attribute} is {found!r}; derive it from tarry.celery.{ours.__name__}.")
        app.__dict__.pop(attribute.removesuffix("_cls"), None)  # made before, without us
    WaitingTasks(app, url, namespace, topic, max_message, queues)
    leave_quorum_queues_alone()
    show_eta()
    steps: Any = app.steps
    if relay:
        steps["worker"].add(RelayStep)
    else:
        steps["worker"].discard(RelayStep)
