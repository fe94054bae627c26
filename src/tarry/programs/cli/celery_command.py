"""``tarry celery-relay``."""

from __future__ import annotations

from typing import Annotated

import typer

from tarry.celery.relay_process import run_relay  # raises MissingExtra without Celery, and does not import it yet
from tarry.programs.cli.commands import verb
from tarry.programs.cli.session import CommandSession


@verb(with_patience=False)  # it waits for its servers as long as it takes
def celery_relay(
    session: CommandSession,
    app: Annotated[str, typer.Argument(metavar="APP", help="The Celery app, as `celery -A` takes it.")],
    log_level: Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning, error.")] = "info",
) -> None:
    """Publishes Celery's waiting tasks when they are due, until SIGTERM. Needs tarry[celery]."""
    run_relay(
        app, url=session.url, namespace=session.namespace_option, log_level=log_level, print_note=session.print_note
    )
