"""A Django project's worker: made from its settings, with its database connections looked after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections

from tarry.errors import BadInput
from tarry.programs.worker.worker import Worker
from tarry.verbs.jobs.models import HandedOut

Job = HandedOut[Any]
NAMES = ("URL", "NAMESPACE", "CONCURRENCY", "TTR", "GRACE", "BLOCKED")
_fresh = sync_to_async(close_old_connections)


def made_worker() -> Worker:
    """Raises ``ImproperlyConfigured``."""
    given = getattr(settings, "TARRY", {})
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"TARRY: {given!r} is no dictionary; give {', '.join(NAMES)} or nothing.")
    unknown = [name for name in given if name not in NAMES]
    if unknown:
        raise ImproperlyConfigured(f"TARRY: {unknown[0]!r} is unknown; there are {', '.join(NAMES)}.")
    options: dict[str, Any] = {name.lower(): value for name, value in given.items()}
    try:
        worker = Worker(url := options.pop("url", None), **options)
        if url:
            _ = worker.blocking  # connects to nothing yet, but reads the URL
    except BadInput as fault:
        raise ImproperlyConfigured(f"TARRY: {fault}") from fault
    worker.around(_like_a_request)
    worker.around(_like_an_async_request)
    return worker


def _like_a_request(job: Job, handle: Callable[[Job], Any]) -> Any:
    """A connection that the database has closed meanwhile, or that is older than CONN_MAX_AGE, is not used any more."""
    close_old_connections()
    try:
        return handle(job)
    finally:
        close_old_connections()


async def _like_an_async_request(job: Job, handle: Callable[[Job], Awaitable[Any]]) -> Any:
    """The same where Django's async verbs have their connections: in asgiref's thread."""
    await _fresh()
    try:
        return await handle(job)
    finally:
        await _fresh()
