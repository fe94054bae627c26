"""``tarry celery-relay``: publishes an app's waiting tasks when they are due, outside its workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tarry.errors import BadInput, MissingExtra
from tarry.programs.cli.commands import verb
from tarry.programs.cli.session import CommandSession


@verb(with_patience=False)  # it waits for its servers as long as it takes
def celery_relay(
    session: CommandSession,
    app: Annotated[str, typer.Argument(metavar="APP", help="The Celery app, as `celery -A` takes it.")],
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning, error.")] = "info",
) -> None:
    """Publishes Celery's waiting tasks when they are due, until SIGTERM. Needs tarry[celery]."""
    import logging

    from tarry.internal import log_formatter, run_in_loop

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_formatter("text"))
    logging.basicConfig(level=log_level.upper(), handlers=[handler])
    relay = _load_relay(session, app)
    session.print_note(f"tarry celery-relay {os.getpid()}: {relay.waiting.describe()}")
    run_in_loop(_run(relay))
    session.print_note(f"tarry celery-relay {os.getpid()}: stopped, {relay.published} published")


def _load_relay(session: CommandSession, app: str) -> Any:
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
    if session.url:
        waiting.settings["url"] = session.url
    if session.namespace_option:
        waiting.settings["namespace"] = session.namespace_option
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
