"""Celery's ``countdown`` and ``eta`` wait in a tarry topic instead of in a worker's memory. Needs ``tarry[celery]``.

    app = Celery("shop", broker="redis://…")
    tarry.celery.install(app)                       # and nothing else changes

    close_order.apply_async([7], countdown=3600)

    apply_async ──▶ topic "celery" ──due──▶ relay ──▶ the task's queue ──▶ worker
                    one job a task          in every worker, or `tarry celery-relay`

The message is made and serialized when it is sent, and is published as it is when it is due. Only its ``eta`` is taken out
(a worker would put any ``eta``, even a past one, through its timer); ``task.request.eta`` still shows it.

The relay publishes a message, then finishes its job. A crash between the two repeats one message, and loses none.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tarry.errors import MissingExtra

if find_spec("celery") is None:
    raise MissingExtra("tarry.celery needs Celery: pip install 'tarry[celery]'.")

if TYPE_CHECKING:
    from tarry.celery.delayed_messages import WaitingTasks, waiting_tasks
    from tarry.celery.installation import Control, install
    from tarry.celery.relay import Relay
    from tarry.celery.sender import AMQP

__all__ = ["AMQP", "Control", "Relay", "WaitingTasks", "install", "waiting_tasks"]
_MODULE_OF = {
    "AMQP": "sender",
    "Control": "installation",
    "Relay": "relay",
    "WaitingTasks": "delayed_messages",
    "install": "installation",
    "waiting_tasks": "delayed_messages",
}

if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        """Imports a name when it is first used: ``tarry --help`` imports no Celery."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'tarry.celery' has no attribute {name!r}")
        value: object = getattr(import_module(f"tarry.celery.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
