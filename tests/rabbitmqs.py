"""RabbitMQ for tests: the same that the comparison with Celery runs on; where its package is missing, the tests skip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import servers
from bench.rabbitmq import RabbitMQ, missing

__all__ = ["RabbitMQ", "server"]


@contextmanager
def server() -> Iterator[RabbitMQ]:
    if lacking := missing():
        pytest.skip(f"needs {lacking}")
    with servers.short_folder() as folder:
        running = RabbitMQ(folder, servers.free_ports(3))
        try:
            running.start()
            yield running
        finally:
            running.stop()
