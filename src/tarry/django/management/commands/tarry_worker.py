"""``manage.py tarry_worker``: runs the handlers and tasks of the project."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from tarry.django import worker
from tarry.errors import BadInput, TarryError
from tarry.internal import configure_logging, override, serve_with_reload, serve_worker

BAD_ARGUMENTS, NO_SERVER = 2, 3
"""Exit codes of ``tarry worker``."""


class Command(BaseCommand):
    """The same worker as ``tarry worker``, with the same exit codes."""

    help = "Runs the project's handlers and tasks until SIGTERM. Exits with 4 when running jobs had to be released."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The options of ``tarry worker``."""
        parser.add_argument("--processes", type=int, default=1, help="How many processes; one that dies is replaced.")
        parser.add_argument("--topics", help="Only these topics, separated by commas.")
        parser.add_argument("--concurrency", type=int, help="Slots that all topics share, in each process.")
        parser.add_argument("--max-jobs-per-child", type=int, help="Replace a child process after this many jobs.")
        parser.add_argument(
            "--reload", action="store_true", help="For development: start again when a Python file changes."
        )
        parser.add_argument("--log", choices=("text", "json"), help="Logs in this format, instead of LOGGING.")

    def handle(self, *_: Any, **options: Any) -> None:
        """Runs the worker until SIGTERM."""
        topics: str | None = options["topics"]
        if options["log"] or not logging.getLogger("tarry.worker").hasHandlers():
            configure_logging(options["log"] or "text", os.environ.get("TARRY_LOG") or "info")
        try:
            if options["processes"] < 1:
                raise BadInput("processes: it is a whole number, at least 1.")
            if options["reload"]:
                sys.exit(serve_with_reload([*_command(options), "--processes", str(options["processes"])]))
            chosen = None if topics is None else [name.strip() for name in topics.split(",")]
            override(
                worker,
                topics=chosen,
                concurrency=options["concurrency"],
                max_jobs_per_child=options["max_jobs_per_child"],
            )
            code = serve_worker(worker, options["processes"], _command(options))
        except TarryError as fault:
            wrong = BAD_ARGUMENTS if isinstance(fault, BadInput) else NO_SERVER
            raise CommandError(str(fault), returncode=wrong) from fault
        if code:
            sys.exit(code)


def _command(options: dict[str, Any]) -> list[str]:
    """The command line of a child process, with this process's path to the project."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [sys.path[0], os.environ.get("PYTHONPATH")]))
    arguments = [sys.executable, "-m", "django", "tarry_worker"]
    for name in ("topics", "concurrency", "max_jobs_per_child", "log"):
        if options[name] is not None:
            arguments += [f"--{name.replace('_', '-')}", str(options[name])]
    return arguments
