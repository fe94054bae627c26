"""``tarry worker``: runs the worker of an application."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tarry.errors import BadInput, TarryError
from tarry.programs.cli import exit_code
from tarry.programs.cli.commands import Redisson, verb
from tarry.programs.cli.completion import complete_words
from tarry.programs.cli.session import CommandSession

if TYPE_CHECKING:
    from tarry import Worker

URL = "TARRY_WORKER_URL"
"""The variable in which a parent tells its children the URL, which may have a password."""


@verb(with_patience=False)  # it waits for its server without a limit
def worker(
    session: CommandSession,
    app: Annotated[str, typer.Argument(metavar="MODULE:NAME", help="The worker, such as app:worker.")],
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="How many processes; one that dies is replaced.")
    ] = 1,
    topics: Annotated[
        str | None, typer.Option(metavar="TOPICS", help="Only these topics, separated by commas.", show_default=False)
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Slots that all topics share, in each process.", show_default=False),
    ] = None,
    max_jobs_per_child: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Replace a child process after this many jobs.", show_default=False),
    ] = None,
    redisson: Redisson = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: start again when a Python file changes.")
    ] = False,
    log: Annotated[
        str, typer.Option(metavar="FORMAT", help="text or json.", autocompletion=complete_words("text", "json"))
    ] = "text",
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="LEVEL",
            help="debug, info, warning, error. Default: TARRY_LOG, or info.",
            show_default=False,
            autocompletion=complete_words("debug", "info", "warning", "error"),
        ),
    ] = None,
) -> None:
    """Runs the handlers of an application until SIGTERM. Exits with 4 when running jobs had to be released."""
    from tarry.internal import configure_logging

    format = "json" if session.json else log
    if redisson is not None:
        os.environ["TARRY_REDISSON"] = redisson  # for the clients of the application, also in its children
    configure_logging(format, log_level or os.environ.get("TARRY_LOG") or "info")
    try:
        code = _run(
            session=session,
            app=app,
            processes=processes,
            topics=topics,
            concurrency=concurrency,
            max_jobs_per_child=max_jobs_per_child,
            reload=reload,
            log=format,
            log_level=log_level,
        )
    except TarryError as fault:
        if format != "json":
            raise
        cause = fault.__cause__
        logging.getLogger("tarry").log(logging.ERROR, str(fault), exc_info=cause, extra={"tarry": {"code": fault.code}})
        code = exit_code(fault)
    if code:
        raise typer.Exit(code)


def _run(
    session: CommandSession,
    app: str,
    processes: int,
    topics: str | None,
    concurrency: int | None,
    max_jobs_per_child: int | None,
    reload: bool,
    log: str,
    log_level: str | None,
) -> int:
    from tarry.internal import override, serve_worker

    arguments = _child_command(
        session=session,
        app=app,
        topics=topics,
        concurrency=concurrency,
        max_jobs_per_child=max_jobs_per_child,
        log=log,
        log_level=log_level,
    )
    command = [sys.executable, "-m", "tarry", *arguments]
    if reload:
        from tarry.internal import serve_with_reload

        return serve_with_reload([*command, "--processes", str(processes)])
    found = _load_worker(app, log)
    chosen = None if topics is None else [name.strip() for name in topics.split(",")]
    override(
        found,
        url=session.url or os.environ.get(URL),
        namespace=session.namespace_option,
        topics=chosen,
        concurrency=concurrency,
        max_jobs_per_child=max_jobs_per_child,
    )
    return serve_worker(found, processes, command, json=log == "json")


def _load_worker(app: str, log: str) -> Worker:
    """Loads the worker; a traceback of its module is printed without tarry's own frames."""
    from tarry.programs.cli import app_loader
    from tarry.programs.cli.process import write_message

    try:
        return app_loader.load(app)
    except BadInput as fault:
        if fault.__cause__ is not None and log != "json":
            for line in app_loader.traceback_of(fault.__cause__).split("\n"):
                write_message(line, False)
        raise


def _child_command(
    session: CommandSession,
    app: str,
    topics: str | None,
    concurrency: int | None,
    max_jobs_per_child: int | None,
    log: str,
    log_level: str | None,
) -> list[str]:
    """The command line of a child process. A URL is passed in the environment: it may contain a password."""

    if session.url:
        os.environ[URL] = session.url
    options = {
        "--namespace": session.namespace_option,
        "--topics": topics,
        "--concurrency": concurrency,
        "--max-jobs-per-child": max_jobs_per_child,
        "--log": log,
        "--log-level": log_level,
    }
    arguments = ["worker", app, *(["--json"] if session.json else [])]
    return arguments + [word for name, value in options.items() if value is not None for word in (name, str(value))]
