"""ZooKeeper for tests: the same that the benchmark measures with; where its package is missing, the tests skip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import servers
from bench.zookeeper import ZooKeeper, missing

__all__ = ["ZooKeeper", "missing", "server"]


@contextmanager
def server() -> Iterator[ZooKeeper]:
    if lacking := missing():
        pytest.skip(f"needs {lacking}")
    with servers.short_folder() as folder:
        running = ZooKeeper(folder, servers.free_ports(1)[0])
        try:
            running.start()
            yield running
        finally:
            running.stop()
