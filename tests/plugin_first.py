"""The first process of a run compiles what all of them import; the others wait for it, or each would compile it for itself.

In a fresh clone that takes four times as long as the rest of a collection. The system opens the lock of a process that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import pytest

_lock = pytest.StashKey[IO[bytes]]()


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        early_config.stash[_lock] = lock = Path(__file__).open("rb")  # noqa: SIM115  # until all is collected
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)


def pytest_collection_finish(session: pytest.Session) -> None:
    if _lock in session.config.stash:
        session.config.stash[_lock].close()
