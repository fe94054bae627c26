"""A service, as those know it that serve beside it: by another protocol, or with pages for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from tarry.programs.serving.authorization import Authorizer, TokenSettings
    from tarry.programs.serving.connection_limits import FileShares
    from tarry.programs.serving.namespace_clients import NamespaceClients


class HostSettings(TokenSettings, Protocol):
    """The settings of a service, as far as those beside it depend on them."""

    @property
    def host(self) -> str:
        """The address that it listens on."""
        ...


class RequestSettings(HostSettings, Protocol):
    """The settings of a service, as far as its requests depend on them."""

    @property
    def max_request_body(self) -> int: ...
    @property
    def max_job_body(self) -> int: ...


class HostMetrics(Protocol):
    """Where those beside a service count."""

    registry: CollectorRegistry


class ServiceHost(Protocol):
    """A service: clients, tokens and metrics, shared with those that serve beside it."""

    parts: dict[type, Any]
    """Objects whose ``stop`` is called when the service drains."""
    on_close: list[Callable[[], Awaitable[None]]]
    """Functions that are awaited before the clients are closed."""
    files: FileShares
    """The files that the connections of all ports may have."""

    @property
    def settings(self) -> HostSettings: ...
    @property
    def clients(self) -> NamespaceClients: ...
    @property
    def authorizer(self) -> Authorizer: ...
    @property
    def metrics(self) -> HostMetrics: ...
