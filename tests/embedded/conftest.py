"""Fixtures of the embedded server's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import servers
from embedded import users
from warm import WarmTarry

StartUser = Callable[..., users.User]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of this test's own with a short path; whatever serves it at the end is ended."""
    with servers.short_folder() as made:
        yield made
        users.clean_up(made)


@pytest.fixture(autouse=True)
def runtime_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Sockets go into a folder of this test's own, not to those of the user who runs the tests."""
    with servers.short_folder() as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(made))
        yield made


@pytest.fixture
def start_user(tarry_command: WarmTarry) -> StartUser:
    """``start_user(folder, linger_s=0.3, then="fork")``, in a ``with``."""
    return partial(users.User, tarry_command)
