"""The thread of an embedded server's supervisor that waits for the last user."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from tarry.connections.embedded.supervisor import Supervisor


def test_a_wait_for_the_last_user_that_fails_wakes_the_supervisor_all_the_same() -> None:
    """Else the server would outlive its users for ever. The supervisor tries the lock itself, and starts the thread again."""
    news, notify = os.pipe()
    closed = os.dup(news)
    os.close(closed)
    supervisor: Any = SimpleNamespace(users=closed, _notify=notify)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Supervisor._wait_until_all_left(supervisor)
    os.close(notify)
    assert os.read(news, 2) == b"."
    os.close(news)
