"""What the tests of the embedded server share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import servers


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of this test's own with a short path."""
    with servers.short_folder() as made:
        yield made
