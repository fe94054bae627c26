"""The pytest plugin; pytest finds it where tarry is installed. Nothing of tarry is imported before a test uses a fixture.

tarry_url             a private embedded server for the session; it ends with the session, however that ends
tarry_client          a client of it, in a namespace of the test's own, with imaginary time
tarry_clock           tarry_clock.attach(app.worker); tarry_clock.advance("30m")
tarry_async_client    the same two for async tests, with any async plugin
tarry_async_clock     await tarry_async_clock.advance("30m")
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tarry.testing import TestAsyncClient, TestAsyncClock, TestClient, TestClock

_numbers = count(1)


@pytest.fixture(scope="session")
def tarry_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a private server for this session; a client that you make for it uses real time."""
    from tarry.testing import start_server

    with start_server(tmp_path_factory.mktemp("tarry")) as url:
        yield url


@pytest.fixture
def tarry_clock(tarry_url: str) -> Iterator[TestClock]:
    """A test clock. Advancing it runs the due jobs of the workers that are attached."""
    from tarry.testing import TestClock

    clock = TestClock(tarry_url, f"test-{next(_numbers)}")
    yield clock
    clock.close()


@pytest.fixture
def tarry_async_clock(tarry_clock: TestClock) -> TestAsyncClock:
    """The same clock as ``tarry_clock``, awaited."""
    from tarry.testing import TestAsyncClock

    return TestAsyncClock(tarry_clock)


@pytest.fixture
def tarry_client(tarry_clock: TestClock) -> TestClient:
    """A client in a namespace of this test's own, with imaginary time: a pop that waits advances the clock."""
    return tarry_clock.client


@pytest.fixture
def tarry_async_client(tarry_url: str, tarry_clock: TestClock) -> TestAsyncClient:
    """The same, awaited. It is closed when the test's event loop ends."""
    from tarry.testing import TestAsyncClient

    return TestAsyncClient(tarry_url, tarry_clock, namespace=tarry_clock.client.namespace)
