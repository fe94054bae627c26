"""All verbs, by the modules that hold them; ``--help`` lists them in this order."""

from __future__ import annotations

from tarry.programs.cli import jobs, minding, topics, health, shows, workers, working  # isort: skip  # the order of the help
from tarry.programs.cli import schedules, moving, queues, maps, locks, guarded, serving, tokens  # isort: skip
from tarry.programs.cli.register import app

__all__ = [
    "app",
    "guarded",
    "health",
    "jobs",
    "locks",
    "maps",
    "minding",
    "moving",
    "queues",
    "schedules",
    "serving",
    "shows",
    "tokens",
    "topics",
    "workers",
    "working",
]
