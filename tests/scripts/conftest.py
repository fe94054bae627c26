"""A topic on the shared server, beside the raw server: these tests may write what no client would."""

from __future__ import annotations

from typing import Any

import pytest

from tarry.clients.testing import TestClient


@pytest.fixture
def topic(client: TestClient) -> Any:
    return client.topic("t")
