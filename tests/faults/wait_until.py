"""Waits for something on a server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tarry.connections.embedded import plain_client
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S


def until(true: Callable[[], Any]) -> None:
    for _ in plain_client.backoff_delays(LONGEST_S):
        with contextlib.suppress(OSError):
            if true():
                return
    pytest.fail("it did not come to pass")


def blocked(server: ServerProcess) -> bool:
    told = server.ask("INFO", "clients")
    assert isinstance(told, bytes)
    return "blocked_clients:0" not in told.decode()
