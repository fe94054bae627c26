"""Shell completion: names of topics from the server, and the values of an option.

The shell waits for it. So a server that does not answer within ``TIMEOUT_S`` gives no completions, and no embedded server is
started.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tarry import Client

TIMEOUT_S = 1.0


def complete_words(*known: str) -> Callable[[], list[str]]:
    """Completes an option with fixed values."""
    return lambda: list(known)


def complete_topics(context: typer.Context) -> list[str]:
    """The known topics, without those on the command line already."""
    from tarry import Client  # imported before the timeout starts, which is for the server

    found: list[str] = []
    asking = threading.Thread(target=_read_topics, args=(Client, context, found), daemon=True)
    asking.start()
    asking.join(TIMEOUT_S)
    given = context.params.get("topics") or ()
    return [name for name in found if name not in given and name.isprintable() and " " not in name]


def _read_topics(kind: type[Client], context: typer.Context, found: list[str]) -> None:
    from tarry.errors import TarryError
    from tarry.internal import address_of

    logging.disable(logging.CRITICAL)  # log lines would disturb the command line
    try:
        namespace = _option_value(context, "namespace") or os.environ.get("TARRY_NAMESPACE") or "default"
        url = address_of(kind(_option_value(context, "url") or None, namespace=namespace)).running_url
        if url is not None:
            with kind(url, namespace=namespace, patience=0) as client:
                found += client.topics()
    except TarryError:
        pass


def _option_value(context: typer.Context, option: str) -> str:
    """The value of a global option, given before or after the command."""
    here: typer.Context | None = context
    while here is not None:
        if here.params.get(option):
            return str(here.params[option])
        here = here.parent  # type: ignore[assignment]  # typer's are typer's all the way up
    return ""
