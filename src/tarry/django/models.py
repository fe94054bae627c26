"""The model that the admin site needs for a page and its permissions. It has no table, so there is nothing to migrate."""

from __future__ import annotations

from django.db import models


class AdminTopic(models.Model):
    """A topic in the admin site."""

    name = models.CharField(primary_key=True, max_length=200)

    class Meta:
        """Permissions that groups and users can be given."""

        app_label = "tarry"
        managed = False
        verbose_name = "topic"
        default_permissions = ()
        permissions = (
            ("view_jobs", "Can see topics and dead jobs"),
            ("kick_jobs", "Can make dead jobs ready again"),
            ("delete_jobs", "Can delete dead jobs"),
        )

    def __str__(self) -> str:
        return str(self.name)
