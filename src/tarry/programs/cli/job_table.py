"""The tables of ``tarry list`` and ``tarry dead`` on a terminal. A pipe gets one plain line each, and ``--json`` all there is.

ID      STATE    WHEN                  ATTEMPTS  TASK   BODY
close-7 delayed  in 30 m, 14:32:10     0         close  {"order":7}
close-8 dead     5 m ago, 13:57:01     20        close  {"order":8}   ConnectionError: refused (attempts exhausted)

GROUP         JOBS  LAST               TASK    ERROR                            AT
3f9a1c0284b1   812  5 m ago, 13:57:01  charge  ConnectionError: … from … for …  billing.py, charge
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tarry.errors import BodyError
from tarry.internal import one_line, task_call
from tarry.programs.cli.output import last_error_line, span_text, state_moment

if TYPE_CHECKING:
    from tarry import JobInfo
    from tarry.types import DeadGroup

COLOURS = {"delayed": "yellow", "ready": "green", "reserved": "cyan", "dead": "red", "finished": "blue"}
GAP, ROOM_FOR_BOTH, ROOM_FOR_BODY = 2, 40, 12
"""Characters between two columns; and the number that a row must have left for error and body, or the body."""
MOST_SHOWN = 200
"""Characters of a body or an error; the terminal cuts the rest."""


def print_jobs(jobs: Sequence[JobInfo[Any]], now: datetime) -> None:
    """Prints jobs as a table with a header, as wide as the terminal."""
    named = [task_and_body(job) for job in jobs]
    titles = ["ID", "STATE", "WHEN", "ATTEMPTS", *(["TASK"] if any(task for task, _ in named) else [])]
    cells = [_cells(job, task, now)[: len(titles)] for job, (task, _) in zip(jobs, named, strict=True)]
    errors = [Text(in_one_line(error_line(job)), "red" if job.state == "dead" else "") for job in jobs]
    bodies = [Text(in_one_line(body), "dim") for _, body in named]
    wide = {"BODY": (bodies, 1)}
    if any(job.reason or job.note for job in jobs):
        wide = {"ERROR": (errors, 2), **wide}
    _print_table(titles, cells, wide)


def print_groups(groups: Sequence[DeadGroup], now: datetime) -> None:
    """Prints groups of dead jobs in the same way."""
    titles = ["GROUP", "JOBS", "LAST", *(["TASK"] if any(group.task for group in groups) else [])]
    cells = [
        [
            Text(in_one_line(group.id)),
            Text(f"{group.count:,}", justify="right"),
            Text(moment_text(group.last, now)),
            Text(in_one_line(group.task)),
        ][: len(titles)]
        for group in groups
    ]
    wide = {"ERROR": ([Text(in_one_line(group.error), "red") for group in groups], 3)}
    if any(group.place for group in groups):
        wide["AT"] = ([Text(in_one_line(group.place), "dim") for group in groups], 1)
    _print_table(titles, cells, wide)


def _print_table(titles: Sequence[str], cells: Sequence[list[Text]], wide: dict[str, tuple[list[Text], int]]) -> None:
    """Columns that are shown whole, then wide ones, each with its share of the rest. In a narrow terminal those get a line of their own."""
    console = Console()
    columns = zip(*[[Text(title) for title in titles], *cells], strict=True)
    widths = [max(cell.cell_len for cell in column) for column in columns]
    rows = list(zip(cells, zip(*[column for column, _ in wide.values()], strict=True), strict=True))
    if console.width - sum(widths) - GAP * len(widths) < (ROOM_FOR_BOTH if len(wide) > 1 else ROOM_FOR_BODY):
        _print_line(console, [Text(title, "bold") for title in titles], widths)
        for row, rest in rows:
            _print_line(console, row, widths)
            _print_line(console, [Text(), *filter(None, rest)], ())
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0), expand=True)
    for title, width in zip(titles, widths, strict=True):
        table.add_column(title, no_wrap=True, min_width=width)
    for title, (_, share) in wide.items():
        table.add_column(title, no_wrap=True, overflow="ellipsis", ratio=share)
    for row, rest in rows:
        table.add_row(*row, *rest)
    console.print(table)


def _cells(job: JobInfo[Any], task: str, now: datetime) -> list[Text]:
    return [
        Text(in_one_line(job.id)),
        Text(job.state, COLOURS[job.state]),
        Text(when_text(job, now)),
        Text(str(job.attempts)),
        Text(in_one_line(task)),
    ]


def _print_line(console: Console, cells: Sequence[Text], widths: Sequence[int]) -> None:
    """One line, cut at the end of the terminal."""
    line = Text()
    for at, cell in enumerate(cells):
        width = widths[at] if at < len(widths) else 0
        line.append_text(cell).append(" " * (max(width - cell.cell_len, 0) + GAP))
    line.rstrip()
    console.print(line, no_wrap=True, overflow="ellipsis")


def task_and_body(job: JobInfo[Any]) -> tuple[str, str]:
    """The task's name, or nothing, and the start of the body: of a task its arguments."""
    call = task_call(job)
    try:
        body = job.raw if call is None else bytes(call.args)
    except BodyError:  # its record is damaged, or of a newer version
        body = b""
    return "" if call is None else call.task, body[: MOST_SHOWN * 4].decode("utf-8", "replace")


def error_line(job: JobInfo[Any]) -> str:
    """The error itself, and behind it why the job is dead, and the note: ``ConnectionError: refused (attempts exhausted)``."""
    error, reason = last_error_line(job), job.reason or ""
    failure = f"{error} ({reason})" if error and reason else error or reason
    return "; ".join(filter(None, (failure, job.note)))


def when_text(job: JobInfo[Any], now: datetime) -> str:
    """``in 30 m, 14:32:10``: from the server's present moment, and in local time; the date if it is another day."""
    at = state_moment(job)
    return "" if at is None else moment_text(at, now)


def moment_text(at: datetime, now: datetime) -> str:
    """``in 30 m, 14:32:10`` or ``5 m ago, 13:57:01``."""
    distance = rounded(at - now)
    away = f"in {distance}" if at > now else f"{distance} ago"
    local, today = at.astimezone(), now.astimezone().date()
    return f"{away}, {local:%H:%M:%S}" if local.date() == today else f"{away}, {local:%Y-%m-%d %H:%M}"


def rounded(span: timedelta) -> str:
    """A distance in whole seconds: ``30 m``, ``1 h 5 m``, ``0 s``."""
    return re.sub(r"(\d)([a-z])", r"\1 \2", span_text(timedelta(seconds=round(abs(span) / timedelta(seconds=1)))))


def in_one_line(text: str) -> str:
    """The start of a producer's text, in one line."""
    return one_line(text[:MOST_SHOWN])
