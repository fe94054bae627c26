"""``tarry demo``: runs the story, with its output while it runs and at its end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tarry import AsyncClient
from tarry.programs.demo.demo_workers import DemoWorker
from tarry.programs.demo.story import Order, Story, namespace, read_orders
from tarry.programs.demo.summary import Summary

WIDTH = 60
STEP_S = 2.0
NOTABLE_MS = 100.0
PIPE_WIDTH = 200
BARS = " ▁▂▃▄▅▆▇█"


def demo(url: str | None, count: int | None, seconds: float, *, quiet: bool) -> Summary:
    """Runs the demo. ``quiet``: progress goes to stderr, and only if that is a terminal."""
    console = open_console(stderr=quiet)
    chosen = read_orders(count, seconds)
    if not quiet:
        console.print(f"{len(chosen)} unpaid orders: each is closed when it is due, unless it is paid before.")
    try:
        if not console.is_terminal:
            return asyncio.run(play_for(url, chosen, seconds, show_nothing if quiet else PlainOutput(console).show))
        with Live(console=console, auto_refresh=False, transient=quiet) as live:
            return asyncio.run(play_for(url, chosen, seconds, lambda now: live.update(frame(now), refresh=True)))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # SIGTERM


async def play_for(url: str | None, chosen: list[Order], seconds: float, show: Callable[[Story], None]) -> Summary:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # the workers are stopped, too
    async with AsyncClient(url, namespace=namespace()) as client:
        return await Story(client, chosen, seconds).run(url, show)


def open_console(*, stderr: bool = False) -> Console:
    """The terminal; or a pipe or a file, where no line is broken."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=PIPE_WIDTH)


def frame(story: Story) -> RenderableType:
    """One frame of the live output."""
    waiting = len(story.orders) - story.closed - story.paid
    counts = Text.assemble(
        ("waiting ", "dim"), (f"{waiting:<6}", "bold"),
        ("closed ", "dim"), (f"{story.closed:<6}", "bold green"),
        ("paid in time ", "dim"), (f"{story.paid:<6}", "bold cyan"),
    )  # fmt: skip
    return Group(Text(), _time_line(story), _axis(story), Text(), counts, *map(_worker_line, story.workers), Text())


def _time_line(story: Story) -> Text:
    """How many orders are due at each time; those still to come are bright."""
    counts = [0] * WIDTH
    for order in story.orders:
        counts[_column(order.due_s, story)] += 1
    top = max(counts)
    now = _column(story.now_s, story)
    line = Text("  due  ", "dim")
    for column, count in enumerate(counts):
        bar = BARS[-(-count * (len(BARS) - 1) // top)]
        line.append(bar, "dim" if column < now else "yellow")
    return line


def _axis(story: Story) -> Text:
    now = _column(story.now_s, story)
    return Text.assemble("       ", ("─" * now, "dim"), ("●", "bold red"), "─" * (WIDTH - now - 1), "▶ time")


def _column(second: float, story: Story) -> int:
    return min(int(second / story.seconds * WIDTH), WIDTH - 1)


def _worker_line(worker: DemoWorker) -> Text:
    line = Text(f"worker {worker.number}  pid {worker.process.pid:<8}")
    if worker.killed:
        line.append(f"✗ kill -9 with {worker.held} orders reserved", "red")
    elif not worker.work_log.is_ready:
        line.append("starting", "dim")
    else:
        line.append(f"✓ {worker.work_log.closed} closed", "green")
    return line


def show_nothing(story: Story) -> None:
    """Shows nothing."""


class PlainOutput:
    """Output without a terminal: a line every two seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = STEP_S

    def show(self, story: Story) -> None:
        if story.now_s >= self._next_s:
            self._next_s += STEP_S
            waiting = len(story.orders) - story.closed - story.paid
            killed = f"  worker 1 ✗ killed, it held {story.workers[0].held}" if story.workers[0].killed else ""
            self._console.print(
                f"{story.now_s:5.1f} s  waiting {waiting}  closed {story.closed}  paid in time {story.paid}{killed}"
            )


def print_summary(found: Summary) -> None:
    """Prints the summary as a table."""
    console = open_console()
    with console.capture() as text:
        console.print(summary_table(found))
    print("\n".join(line.rstrip() for line in text.get().splitlines()))


def summary_table(found: Summary) -> RenderableType:
    table = Table(box=None, show_header=False, padding=(0, 2))
    rows: list[tuple[str, str, bool]] = [
        ("closed", str(found.closed), True),
        ("paid in time", str(found.paid_in_time), True),
        ("paid too late", str(found.paid_too_late), True),
        ("lost", str(found.lost), not found.lost),
        ("early", str(found.early), not found.early),
        ("closed after being paid", str(found.closed_after_paid), not found.closed_after_paid),
        ("redelivered", f"{found.redelivered} (worker 1 was killed while it held {found.killed_holding})", True),
        ("lateness p50 / p99 / max", " / ".join(map(_ms, _lateness(found))), True),
    ]
    for name, value, good in rows:
        table.add_row(name, Text(value, "bold" if good else "bold red"))
    for fault in found.check:
        table.add_row("check", Text(fault, "bold red"))
    if found.lateness_max_ms > NOTABLE_MS:
        table.add_row(
            "",
            Text("the latest were due just after worker 1 was killed: the other worker notices within a second", "dim"),
        )
    verdict = Text(
        f"✓ {found.orders} orders, none lost, none early, {found.took_s} s" if found.ok else "✗ see above",
        "green" if found.ok else "red",
    )
    return Group(table, verdict)


def _lateness(found: Summary) -> tuple[float, float, float]:
    return found.lateness_p50_ms, found.lateness_p99_ms, found.lateness_max_ms


def _ms(value: float) -> str:
    return f"{value:.1f} ms"
