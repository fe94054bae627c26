"""The first process of a run compiles what all of them import; the others wait for it, or each would compile it for itself.

In a fresh clone that takes four times as long as the rest of a collection. The system opens the lock of a process that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

_lock = Path(__file__).open("rb")  # noqa: SIM115  # until all is collected


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        try:
            fcntl.flock(_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(_lock, fcntl.LOCK_SH)


def pytest_collection_finish() -> None:
    _lock.close()
