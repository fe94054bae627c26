"""How the tests speak the dialects to a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from service.running_service import RunningService
from tarry.clients.testing import START_US
from tarry.programs.dialects.mounts import Dialects

START_MS, START_S = START_US // 1000, START_US // 1_000_000
Speaks = Callable[..., httpx.Response]


def dialects_of(namespace: str) -> Dialects:
    """They keep their jobs in namespaces of this test."""
    return Dialects(f"{namespace}-a", f"{namespace}-b", f"Delay{namespace}")


def client_of(dialect_service: RunningService, dialect: str) -> Any:
    spoken = dialects_of(dialect_service.app.settings.namespaces[0])
    return dialect_service.app.clients[getattr(spoken, dialect)]
