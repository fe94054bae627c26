"""Mounts: routes and pages that other programs add to a service. The service names none of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tarry.programs.serving.host import ServiceHost
    from tarry.programs.serving.router import RouteTable


class Pages(Protocol):
    """Pages for browsers, on paths that no route has."""

    def start(self) -> None:
        """Called in the event loop that serves, after ``require_tokens``."""
        ...

    def stop(self) -> None:
        """Ends what runs; called when the service drains."""
        ...

    def require_tokens(self) -> None:
        """Requires tokens from now on."""
        ...

    def route(self, scope: Any) -> tuple[Any, Any] | None:
        """The application that answers a request, and its scope; ``None`` if no page has the path."""
        ...

    def route_unknown(self, scope: Any) -> tuple[Any, Any]:
        """The application that shows an error page for a path that does not exist, and its scope."""
        ...


@dataclass(frozen=True, slots=True)
class Mount:
    """Routes, or pages, that a program adds to a service."""

    tables: tuple[RouteTable, ...] = ()
    """Its routes; documents list them after those of the API."""
    namespaces: tuple[str, ...] = ()
    """The namespaces that its routes need, besides those of the settings."""
    queues: tuple[str, ...] = ()
    """The queues shared with Java that the service moves for it, and that the metrics include."""
    open_pages: Callable[[ServiceHost], Pages] | None = None
    """Makes its pages, if it has any. One mount of a service may have them."""
    advise: Callable[[str], str | None] | None = None
    """Says how to start the service so that it has a path, if the program knows a path that no route has."""
