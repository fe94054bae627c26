"""``tarry.celery.install``: puts this package's parts into a Celery app."""

from __future__ import annotations

from typing import Any

import celery as _celery

from tarry.celery.control import Control
from tarry.celery.delayed_messages import MAX_MESSAGE, WaitingTasks
from tarry.celery.relay import RelayStep
from tarry.celery.sender import AMQP, leave_quorum_queues_alone, show_eta
from tarry.errors import BadInput

_REPLACED = {"amqp_cls": ("celery.app.amqp:AMQP", AMQP), "control_cls": ("celery.app.control:Control", Control)}


def install(
    app: _celery.Celery,
    url: str | None = None,
    *,
    namespace: str = "default",
    topic: str = "celery",
    relay: bool = True,
    max_message: int = MAX_MESSAGE,
) -> None:
    """Lets everything that ``app`` publishes with an ``eta`` or a ``countdown`` wait in a topic until it is due.

    Call it where the app is made, so that producers and workers both do. ``url`` and ``namespace`` are those of
    ``tarry.Client``. Applications with different brokers need a ``topic`` or a ``namespace`` each. ``relay=False``: this
    app's workers do not publish what is due; run ``tarry celery-relay`` instead. ``max_message``: bytes that a waiting message
    may have. Calling it again changes the settings. Raises ``BadInput`` for an app with an ``amqp_cls`` or ``control_cls`` of
    its own that is not derived from those here.
    """
    for attribute, (usual, ours) in _REPLACED.items():
        found: Any = getattr(app, attribute)
        if found == usual:
            setattr(app, attribute, ours)
        elif not (isinstance(found, type) and issubclass(found, ours)):
            raise BadInput(f"app: its {attribute} is {found!r}; derive it from tarry.celery.{ours.__name__}.")
        app.__dict__.pop(attribute.removesuffix("_cls"), None)  # made before, without us
    WaitingTasks(app, url, namespace, topic, max_message)
    leave_quorum_queues_alone()
    show_eta()
    steps: Any = app.steps
    if relay:
        steps["worker"].add(RelayStep)
    else:
        steps["worker"].discard(RelayStep)
