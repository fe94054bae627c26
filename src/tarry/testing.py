"""The types of what tarry's pytest plugin gives to tests: ``tarry_client``, ``tarry_clock`` and their async twins."""

from tarry.clients.testing import TestAsyncClient, TestClient
from tarry.programs.testing.clocks import TestAsyncClock, TestClock

__all__ = ["TestAsyncClient", "TestAsyncClock", "TestClient", "TestClock"]
