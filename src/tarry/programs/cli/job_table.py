"""The table of ``tarry list`` on a terminal. A pipe gets one plain line a job, and ``--json`` all there is.

ID      STATE    WHEN                  ATTEMPTS  TASK   BODY
close-7 delayed  in 30 m, 14:32:10     0         close  {"order":7}
close-8 dead     5 m ago, 13:57:01     20        close  {"order":8}   ConnectionError: refused (attempts exhausted)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tarry.programs.cli.output import last_error_line
from tarry.values.durations import SECOND, as_text

if TYPE_CHECKING:
    from tarry.verbs.jobs.models import JobInfo

COLOURS = {"delayed": "yellow", "ready": "green", "reserved": "cyan", "dead": "red"}
MOST_SHOWN = 200
"""Characters of a body or an error; the terminal cuts the rest."""


class _TaskBody(msgspec.Struct):
    task: str
    args: msgspec.Raw = msgspec.Raw(b"{}")


_task_body = msgspec.json.Decoder(_TaskBody).decode


def print_jobs(jobs: Sequence[JobInfo[Any]], now: datetime) -> None:
    """Prints jobs as a table with a header, as wide as the terminal."""
    rows = [(job, *task_and_body(job)) for job in jobs]
    tasks, errors = any(task for _, task, _ in rows), any(job.reason for job in jobs)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), expand=True)
    table.add_column("ID", no_wrap=True, min_width=max([len(printable(job.id)) for job in jobs], default=0))
    table.add_column("STATE", no_wrap=True)
    table.add_column("WHEN", no_wrap=True)
    table.add_column("ATTEMPTS", no_wrap=True)
    if tasks:
        table.add_column("TASK", no_wrap=True)
    if errors:
        table.add_column("ERROR", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("BODY", no_wrap=True, overflow="ellipsis", ratio=1)
    for job, task, body in rows:
        cells = [
            Text(printable(job.id)),
            Text(job.state, COLOURS[job.state]),
            Text(when_text(job, now)),
            Text(str(job.attempts)),
        ]
        cells += [Text(printable(task))] if tasks else []
        cells += [Text(printable(error_line(job)), "red" if job.state == "dead" else "")] if errors else []
        table.add_row(*cells, Text(printable(body), "dim"))
    Console().print(table)


def task_and_body(job: JobInfo[Any]) -> tuple[str, str]:
    """The task's name, or nothing, and the start of the body: of a task its arguments."""
    try:
        found = _task_body(job.raw)
    except msgspec.MsgspecError:
        return "", job.raw[: MOST_SHOWN * 4].decode("utf-8", "replace")
    return found.task, bytes(found.args)[: MOST_SHOWN * 4].decode("utf-8", "replace")


def error_line(job: JobInfo[Any]) -> str:
    """The error itself, and behind it why the job is dead: ``ConnectionError: refused (attempts exhausted)``."""
    error, reason = last_error_line(job), job.reason or ""
    return f"{error} ({reason})" if error and reason else error or reason


def when_text(job: JobInfo[Any], now: datetime) -> str:
    """``in 30 m, 14:32:10``: from the server's present moment, and in local time; the date if it is another day."""
    at = job.due or job.reserved_until or job.died
    if at is None:
        return ""
    distance = rounded(at - now)
    away = f"in {distance}" if at > now else f"{distance} ago"
    local, today = at.astimezone(), now.astimezone().date()
    return f"{away}, {local:%H:%M:%S}" if local.date() == today else f"{away}, {local:%Y-%m-%d %H:%M}"


def rounded(span: timedelta) -> str:
    """A distance in whole seconds: ``30 m``, ``1 h 5 m``, ``0 s``."""
    return re.sub(r"(\d)([a-z])", r"\1 \2", as_text(round(abs(span) / timedelta(seconds=1)) * SECOND))


def printable(text: str) -> str:
    """Text of a producer, in one line, without anything that moves the cursor or changes a colour."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[:MOST_SHOWN])
