"""The messages between a worker process and its parent: variables when it starts, heartbeats, and the exit code."""

from __future__ import annotations

STOPPED, FAILED, BAD_ARGUMENTS, NO_SERVER = range(4)
"""The exit codes; one more is ``RELEASED`` (signals.py)."""
HOLDER, SOCKET = "TARRY_WORKER_HOLDER", "TARRY_WORKER_SOCKET"
"""Environment variables that a parent sets for its children."""
ALIVE, ANSWERED, TOLD_TO_STOP = b".", b"+", b"s"
"""The heartbeats: the child lives; it lives, and the server has answered it at least once; it stops, for somebody asked it to."""
