"""The settings of a service."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarry.programs.serving.listener import is_loopback

PORT = 7070
HOST = "127.0.0.1"
MAX_REQUEST = 8 << 20


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
    """The Redisson format of that queue; ``None``: ``TARRY_QUEUE_FORMAT``, or the one that is stored for the queue."""
    sqs: bool = False
    """Whether ``/sqs`` speaks the protocol of Amazon SQS, for the namespaces that are served."""

    def namespaces(self) -> tuple[str, ...]:
        return tuple(name for name in (self.delay_controller, self.delay_queue) if name is not None)


NO_DIALECTS = Dialects(None, None, None)


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """All settings; ``tarry serve --help`` explains each."""

    host: str = HOST
    port: int = PORT
    namespaces: tuple[str, ...] = ("default",)
    """The first is the default."""
    tokens: bool = False
    """Requests need a token."""
    tokens_later: bool = False
    """Requests need a token as soon as the first one is created."""
    max_request: int = MAX_REQUEST
    max_body: int = 1 << 20
    dialects: Dialects = field(default_factory=Dialects)
    map_caches: tuple[str, ...] = ()
    """Maps shared with Java that the metrics include."""
    locks: tuple[str, ...] = ()
    """Locks shared with Java that the metrics include."""
    queues: tuple[str, ...] = ()
    """Queues shared with Java that this service moves, and that the metrics include."""
    dashboard: bool = True
    """Whether the dashboard is served at ``/``."""
    drain_s: float = 1.0
    """How long new requests are answered 503 before the port is closed."""

    @property
    def all_namespaces(self) -> tuple[str, ...]:
        """All namespaces, including those of the dialects."""
        return tuple(dict.fromkeys((*self.namespaces, *self.dialects.namespaces())))

    @property
    def moved_queues(self) -> tuple[str, ...]:
        """All queues that it moves, including the dialect's."""
        spoken = self.dialects.delayed_message
        return tuple(dict.fromkeys((*self.queues, *([spoken] if spoken is not None else []))))

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)
