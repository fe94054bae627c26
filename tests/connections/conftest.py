"""Both kinds of client, and a server of a test's own, for the tests of what they connect to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import servers
from faults.conftest import kind, make_client
from tarry.connections.embedded.server_process import ServerProcess

__all__ = ["kind", "make_client"]


@pytest.fixture
def running() -> Iterator[ServerProcess]:
    """A Valkey of this test alone."""
    with servers.server(servers.valkey_binary()) as server:
        yield server
