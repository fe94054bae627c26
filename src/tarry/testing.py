"""The types of the fixtures of tarry's pytest plugin: ``tarry_client``, ``tarry_clock`` and their async versions."""

from tarry.clients.testing import TestAsyncClient, TestClient
from tarry.programs.testing.clocks import TestAsyncClock, TestClock

__all__ = ["TestAsyncClient", "TestAsyncClock", "TestClient", "TestClock"]
