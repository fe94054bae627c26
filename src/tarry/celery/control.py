"""``app.control``: a task that waits is revoked and rescheduled where it waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery.app.control import Control as CeleryControl
from celery.utils.functional import maybe_list

from tarry.celery.delayed_messages import WaitingTasks, seconds_until, waiting_tasks
from tarry.errors import BadInput


class Control(CeleryControl):
    """Celery's ``app.control``. ``AsyncResult.revoke()`` and ``celery control revoke`` come here, too."""

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
        """Before the workers are told: a task that still waits is deleted, and is revoked then and there.

        The workers are told all the same, for a relay may have published it a moment ago.
        """
        try:
            if command in ("revoke", "terminate") and destination is None:
                task_ids = {**(arguments or {}), **options}.get("task_id")
                self._waiting.revoke([str(one) for one in maybe_list(task_ids) or ()])
        finally:
            answer = super().broadcast(command, arguments, destination, *args, **options)
        return answer

    def reschedule(self, task_id: str, *, countdown: float | None = None, eta: datetime | None = None) -> bool:
        """Another time for a task that waits. Answers whether it did; a task that was published or revoked stays as it is."""
        if (countdown is None) == (eta is None):
            raise BadInput("countdown, eta: give one of the two.")
        return self._waiting.reschedule(
            task_id, seconds_until(eta) if eta is not None else max(float(countdown or 0), 0.0)
        )
