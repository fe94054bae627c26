"""``INSTALLED_APPS = [..., "tarry.django"]``"""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class TarryConfig(AppConfig):
    """Makes the worker when Django starts, so that wrong settings raise then, and imports ``jobs.py`` of each app."""

    name = "tarry.django"
    label = "tarry"
    verbose_name = "tarry"

    def ready(self) -> None:
        """Called by Django when all models are loaded."""
        import tarry.django

        tarry.django.worker  # noqa: B018  # made now
        autodiscover_modules("jobs")
