"""The dialects that a service can speak, by their names for ``--dialect``, and which of them it speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tarry.programs.serving.mounts import Mount


class Dialect(NamedTuple):
    """A dialect: its routes, and the place where it stores."""

    place: str
    """Where it stores unless it is told otherwise."""
    kind: str
    """``namespace`` or ``queue``: the kind of place."""
    paths: tuple[str, ...]


DIALECTS = {
    "delay-controller": Dialect("delay", "namespace", ("/delay/add", "/delay/pop", "/delay/finish", "/delay/delete")),
    "delay-queue": Dialect("delay-queue", "namespace", ("/push", "/pop", "/finish", "/delete", "/get")),
    "delayed-message": Dialect("DelayMessage", "queue", ("/delayed/message",)),
}


@dataclass(frozen=True, slots=True)
class Dialects:
    """Where the dialects of other systems store their jobs; one without a place is off."""

    delay_controller: str | None = None
    """The namespace of ``DelayController``, Youzan's delay queue in Spring Boot."""
    delay_queue: str | None = None
    """The namespace of the Go implementation of Youzan's design."""
    delayed_message: str | None = None
    """The delayed queue of ``DelayedTaskController``, Spring Boot on Redisson; the clients' ``redisson`` tells its codec and format."""

    def mounts(self, first_namespace: str) -> tuple[Mount, ...]:
        """The mounts of a service. Tokens of its first namespace permit ``/delayed/message``. Raises ``BadInput``."""
        found = list[Mount]()  # what is off is not imported
        if (namespace := self.delay_controller) is not None:
            from tarry.programs.dialects import delay_controller

            found.append(Mount((delay_controller.routes_of(namespace),), (namespace,)))
        if (namespace := self.delay_queue) is not None:
            from tarry.programs.dialects import delay_queue

            found.append(Mount((delay_queue.routes_of(namespace),), (namespace,)))
        if (queue := self.delayed_message) is not None:
            from tarry.programs.dialects import delayed_message

            found.append(Mount((delayed_message.routes_of(first_namespace, queue),), queues=(queue,)))
        return tuple(found)


ALL_DIALECTS = Dialects(*(one.place for one in DIALECTS.values()))
"""All of them, each where it stores unless it is told otherwise."""
