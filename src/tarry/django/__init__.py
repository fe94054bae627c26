"""tarry in a Django project: settings, a worker by ``manage.py``, jobs in the admin.

    INSTALLED_APPS = [..., "tarry.django"]
    TARRY = {"NAME": "shop", "URL": "redis://jobs.example:6379/0"}

    # jobs.py of any app: imported when Django starts
    from tarry.django import worker

    @worker.task
    def close(order_id: int) -> None: ...

    # a view
    transaction.on_commit(lambda: close.options(delay="30m").add(order.pk))

$ python manage.py tarry_worker --processes 2

``TARRY`` has the arguments of ``tarry.Worker``: ``NAME``, without which there are no tasks, ``URL`` and ``NAMESPACE`` (default:
the environment's ``TARRY_URL`` and ``TARRY_NAMESPACE``), ``CONCURRENCY``, ``TTR``, ``GRACE``, ``WARN_BLOCKED_AFTER``. A handler gets
database connections as a request does: old ones are closed before and after it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tarry import AsyncClient, Client, Worker

    worker: Worker
    """The project's worker, made from ``settings.TARRY``."""

__all__ = ["async_client", "client", "worker"]


def client() -> Client:
    """The project's blocking client, for topics without tasks."""
    return _worker().client


def async_client() -> AsyncClient:
    """The project's awaited client, for async views."""
    return _worker().async_client


if not TYPE_CHECKING:  # a type checker refuses unknown names

    def __getattr__(name: str) -> object:
        if name == "worker":
            return _worker()
        raise AttributeError(f"module 'tarry.django' has no attribute {name!r}")


@cache
def _worker() -> Worker:
    from tarry.django.project import make_worker

    return make_worker()
