"""A relay in the test's process, and a look into its broker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

import tarry
from tarry.celery.relay import Relay
from tarry.connections.embedded.server_process import ServerProcess

TAKES_NO_TIME = 0.001
"""Due so soon that nothing has to be waited for; it waits in the topic all the same."""


@contextmanager
def relaying(app: Celery, clients: list[BaseException] | None = None) -> Iterator[Relay]:
    """A relay, as a worker has one. Instead of its first clients it gets these errors."""
    relay, faults = Relay(app), list(clients or ())
    make = relay.waiting.async_client

    def async_client() -> tarry.AsyncClient:
        if faults:
            raise faults.pop()
        return make()

    relay.waiting.async_client = async_client  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: asyncio.run(relay.run()))
    thread.start()
    try:
        yield relay
    finally:
        relay.stop()
        thread.join()


def broker(redis: ServerProcess) -> str:
    return f"redis+socket://{redis.address}"


def published(redis: ServerProcess, queue: str) -> list[dict[str, Any]]:
    """The messages of a queue, as they lie in the broker, oldest first."""
    found: Any = redis.ask("LRANGE", queue, "0", "-1")
    return [json.loads(message) for message in reversed(found)]
