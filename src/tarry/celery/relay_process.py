"""The relay as a process of its own: it publishes an app's waiting tasks when they are due, outside its workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tarry.errors import BadInput, MissingExtra


def run_relay(
    app: str, *, url: str | None, namespace: str | None, log_level: str, print_note: Callable[[str], object]
) -> None:
    """Publishes until SIGTERM. ``app`` is as ``celery -A`` takes it; ``url`` and ``namespace`` count before the app's own."""
    import logging

    from tarry.internal import log_formatter, run_in_loop

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_formatter("text"))
    logging.basicConfig(level=log_level.upper(), handlers=[handler])
    relay = _load_relay(app, url, namespace)
    print_note(f"tarry celery-relay {os.getpid()}: {relay.waiting.describe()}")
    run_in_loop(_run(relay))
    print_note(f"tarry celery-relay {os.getpid()}: stopped, {relay.published} published")


def _load_relay(app: str, url: str | None, namespace: str | None) -> Any:
    try:
        from celery.app.utils import find_app

        from tarry.celery.delayed_messages import waiting_tasks
        from tarry.celery.relay import Relay
    except ImportError as fault:
        raise MissingExtra("tarry celery-relay needs Celery: pip install 'tarry[celery]'.") from fault
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = find_app(app)
    except (ImportError, AttributeError) as fault:
        raise BadInput(f"app: {app!r} cannot be imported: {fault}") from fault
    waiting = waiting_tasks(found)
    if url:
        waiting.settings["url"] = url
    if namespace:
        waiting.settings["namespace"] = namespace
    try:
        found.connection_for_write().transport  # noqa: B018  # this imports the broker's library
    except (ImportError, KeyError) as fault:
        raise BadInput(f"app: its broker cannot be used: {fault.args[0]}") from fault
    return Relay(found)


async def _run(relay: Any) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, relay.stop)
    await relay.run()
