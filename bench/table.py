"""The results as a table on the screen, as JSON, and between two markers of a page."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from rich.console import Console
from rich.table import Table

from bench.harness import Effort
from bench.results import Reading, Result

HEADINGS = ("row", "measure", "tarry", "yardstick", "ratio", "goal", "met")
WIDE = 160
BEGIN, END = "<!-- bench: table -->", "<!-- bench: end -->"


def cells(result: Result) -> tuple[str, ...]:
    met = {True: "yes", False: "no", None: "–"}[result.met]
    return (
        result.row,
        result.measure,
        _shown(result.tarry, result.unit),
        _shown(result.yardstick, result.unit) if result.yardstick else "–",
        "–" if result.ratio is None else f"{result.ratio:.2f} ×",
        _reach(result),
        met,
    )


def details(result: Result) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in result.details.items())


def number(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _shown(reading: Reading, unit: str) -> str:
    spread = f" ± {reading.spread / 2:.0%}" if len(reading.values) > 1 else ""
    return f"{number(reading.median)} {unit}{spread}"


def _reach(result: Result) -> str:
    if result.reach is None:
        return "–"
    limit = f"{result.reach.limit:,g}"
    return f"{result.reach.sign} {limit} " + ("×" if result.reach.of == "ratio" else result.unit)


def show(results: Sequence[Result]) -> None:
    """Prints the table, and below it the details of each line."""
    grid = Table()
    for heading in HEADINGS:
        grid.add_column(heading)
    for result in results:
        grid.add_row(*cells(result), style="bold red" if result.met is False else None)
    console = Console()
    # do not fold the table in a pipe
    console = console if console.is_terminal else Console(width=WIDE)
    console.print(grid)
    for result in results:
        if result.details:
            console.print(f"{result.row}: {result.measure}: {details(result)}", highlight=False, markup=False)


def machine(effort: Effort, repeat: int) -> dict[str, Any]:
    """The machine and the settings of the run."""
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processors": os.cpu_count(),
        "redis-py": redis.__version__,
        "loop": "asyncio",
        "load before": round(os.getloadavg()[0], 1),
        "effort": effort,
        "repeat": repeat,
    }


def as_data(results: Sequence[Result], about: dict[str, Any]) -> dict[str, Any]:
    return {
        "about": about,
        "results": [
            {
                "row": result.row,
                "measure": result.measure,
                "unit": result.unit,
                "tarry": list(result.tarry.values),
                "yardstick": list(result.yardstick.values) if result.yardstick else None,
                "ratio": result.ratio,
                "reach": _reach(result),
                "met": result.met,
                "details": result.details,
            }
            for result in results
        ],
    }


def as_markdown(results: Sequence[Result], about: dict[str, Any]) -> str:
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    lines += ["| " + " | ".join(cells(result)) + " |" for result in results]
    lines += ["", "More readings. µs of client and server are processor time per job; *bare* is the yardstick:", ""]
    lines += [f"- {result.row}, {result.measure}: {details(result)}" for result in results if result.details]
    lines += ["", "Measured with " + ", ".join(f"{name} {value}" for name, value in about.items()) + "."]
    return "\n".join(lines)


def write(page: Path, first: str, last: str, table: str) -> None:
    """Replaces the text between two markers of a page."""
    text = page.read_text("utf-8")
    before, begin, rest = text.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        sys.exit(f"{page} has no place for the table: a line {first} and, after it, a line {last}.")
    page.write_text(f"{before}{first}\n{table}\n{last}{after}", "utf-8")
