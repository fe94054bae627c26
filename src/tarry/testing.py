"""Tests without pytest, and the types of the fixtures of tarry's pytest plugin: ``tarry_client``, ``tarry_clock`` and their async versions."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarry.clients.testing import TestAsyncClient, TestClient
from tarry.worker.clocks import TestAsyncClock, TestClock

__all__ = ["TestAsyncClient", "TestAsyncClock", "TestClient", "TestClock", "start_server"]


@contextmanager
def start_server(folder: Path) -> Generator[str]:
    """A private embedded server with its files in a folder; yields its URL. The server permits imaginary time. It ends with the block, or with the
    process that started it, and keeps no data after that."""
    from tarry.connections.embedded.shared_server import TEST_OPTIONS, join_server

    with join_server(folder, linger_s=0, options=TEST_OPTIONS) as share:
        yield share.url
