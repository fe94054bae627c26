"""How the tests speak the dialects to a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from service.running_service import RunningService
from tarry.clients.testing import START_US

START_MS, START_S = START_US // 1000, START_US // 1_000_000
Speaks = Callable[..., httpx.Response]


def client_of(dialect_service: RunningService, dialect: str) -> Any:
    return dialect_service.app.clients[getattr(dialect_service.app.settings.dialects, dialect)]
