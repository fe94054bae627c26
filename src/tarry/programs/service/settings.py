"""The settings of a service."""

from __future__ import annotations

from dataclasses import dataclass

from tarry.programs.serving.listener import is_loopback

PORT = 7070
HOST = "127.0.0.1"
MAX_REQUEST = 8 << 20


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
    max_request_body: int = MAX_REQUEST
    """The maximum size of a request's body, in bytes: one of many jobs is larger than each of them."""
    max_job_body: int = 1 << 20
    """The maximum size of a job's body, in bytes."""
    map_caches: tuple[str, ...] = ()
    """Maps shared with Java that the metrics include."""
    locks: tuple[str, ...] = ()
    """Locks of the first namespace that the metrics include."""
    shared_locks: tuple[str, ...] = ()
    """Locks shared with Java that the metrics include."""
    queues: tuple[str, ...] = ()
    """Queues shared with Java that this service moves, and that the metrics include."""
    redisson: str | None = None
    """The version of Redisson in the Java applications that share queues and maps."""
    root_path: str = ""
    """The path below which a proxy serves this, such as ``/tarry``; empty: it has the host for itself."""
    allowed_hosts: tuple[str, ...] = ()
    """The names, in lower case, under which it answers without tokens, besides ``localhost`` and addresses."""
    allowed_origins: tuple[str, ...] = ()
    """The origins whose pages may call the API, such as ``https://app.example``."""
    drain_s: float = 1.0
    """How long new requests are answered 503 before the port is closed."""

    @property
    def on_loopback(self) -> bool:
        return is_loopback(self.host)
