"""A service in this process that shows the dashboard."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from service.running_service import RunningService, serve
from tarry.clients.awaited.client import AsyncClient
from tarry.programs.dashboard.mount import DashboardMount
from tarry.programs.service.settings import ServiceSettings
from tarry.programs.serving.mounts import Mount


@contextmanager
def serve_dashboard(url: str, settings: ServiceSettings) -> Iterator[RunningService]:
    """A service with its dashboard, whose pages can be shown."""
    mounts = [Mount(open_pages=DashboardMount)]
    with serve(lambda name: AsyncClient(url, namespace=name), settings, mounts) as running:
        running.call(running.app.show_pages)
        yield running
