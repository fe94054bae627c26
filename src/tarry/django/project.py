"""A Django project's worker: made from the settings; it closes old database connections around each job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tarry.errors import BadInput, MissingExtra

try:
    from asgiref.sync import sync_to_async
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.db import close_old_connections
except ModuleNotFoundError as fault:
    raise MissingExtra("tarry.django needs Django: pip install django.") from fault

from tarry import Worker
from tarry.types import BaseJob

Job = BaseJob[Any]
SETTINGS = ("NAME", "URL", "NAMESPACE", "CONCURRENCY", "TTR", "GRACE", "WARN_BLOCKED_AFTER")
_close_old_connections = sync_to_async(close_old_connections)


class ProjectWorker(Worker):
    """A worker whose name is in the settings."""

    _naming = 'TARRY = {"NAME": "shop"}'


def make_worker() -> Worker:
    """The worker of ``settings.TARRY``. Raises ``ImproperlyConfigured``."""
    given = getattr(settings, "TARRY", {})
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"TARRY: {given!r} is not a dictionary; its keys are {', '.join(SETTINGS)}.")
    unknown = [name for name in given if name not in SETTINGS]
    if unknown:
        raise ImproperlyConfigured(f"TARRY: {unknown[0]!r} is unknown; there are {', '.join(SETTINGS)}.")
    options: dict[str, Any] = {name.lower(): value for name, value in given.items()}
    try:
        worker = ProjectWorker(**options)
        if options.get("url"):
            _ = worker.client  # does not connect yet, but checks the URL
    except BadInput as fault:
        raise ImproperlyConfigured(f"TARRY: {fault}") from fault
    worker.around(_with_connections)
    worker.around(_with_connections_async)
    return worker


def _with_connections(job: Job | list[Job], handle: Callable[[Any], Any]) -> Any:
    """Closes connections that the database has closed, or that are older than CONN_MAX_AGE, before and after the job, or those of a
    batch."""
    close_old_connections()
    try:
        return handle(job)
    finally:
        close_old_connections()


async def _with_connections_async(job: Job | list[Job], handle: Callable[[Any], Awaitable[Any]]) -> Any:
    """The same in asgiref's thread, where Django's async methods have their connections."""
    await _close_old_connections()
    try:
        return await handle(job)
    finally:
        await _close_old_connections()
