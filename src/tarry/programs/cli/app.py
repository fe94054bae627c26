"""All commands, by module; ``--help`` lists them in this order."""

from __future__ import annotations

from tarry.programs.cli import jobs, by_id, dead, topics, doctor, top, workers, worker  # isort: skip  # the order of the help
from tarry.programs.cli import schedules, migration, queues, maps, locks, guarded, serve, tokens  # isort: skip
from tarry.programs.cli.commands import app

__all__ = [
    "app",
    "by_id",
    "dead",
    "doctor",
    "guarded",
    "jobs",
    "locks",
    "maps",
    "migration",
    "queues",
    "schedules",
    "serve",
    "tokens",
    "top",
    "topics",
    "worker",
    "workers",
]
