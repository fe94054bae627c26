"""Which dialects a service speaks."""

from __future__ import annotations

from dataclasses import dataclass

from tarry.programs.dialects import delay_controller, delay_queue, delayed_message
from tarry.programs.service.mounts import Mount


@dataclass(frozen=True, slots=True)
class Dialects:
    """Where the dialects of other systems store their jobs; ``None`` switches a dialect off."""

    delay_controller: str | None = "delay"
    """The namespace of ``DelayController``, Youzan's delay queue in Spring Boot."""
    delay_queue: str | None = "delay-queue"
    """The namespace of the Go implementation of Youzan's design."""
    delayed_message: str | None = "DelayMessage"
    """The delayed queue of ``DelayedTaskController``, Spring Boot on Redisson."""
    message_codec: str = "river"
    message_format: str | None = None
    """The Redisson format of that queue; ``None``: ``TARRY_REDISSON``, or the one that is stored for the queue."""

    def mounts(self, first_namespace: str) -> tuple[Mount, ...]:
        """The mounts of a service. Tokens of its first namespace permit ``/delayed/message``. Raises ``BadInput``."""
        found = list[Mount]()
        if (namespace := self.delay_controller) is not None:
            found.append(Mount((delay_controller.routes_of(namespace),), (namespace,)))
        if (namespace := self.delay_queue) is not None:
            found.append(Mount((delay_queue.routes_of(namespace),), (namespace,)))
        if (queue := self.delayed_message) is not None:
            table = delayed_message.routes_of(first_namespace, queue, self.message_codec, self.message_format)
            found.append(Mount((table,), queues=(queue,)))
        return tuple(found)
