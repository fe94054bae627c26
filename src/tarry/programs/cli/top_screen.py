"""The screen of ``tarry top`` in a terminal: what it shows of the topics in the window that it has, and its keys.

3 of 8 topics, worst first   2 workers, 20 of 100 busy                       ? help
(blocks of topics, the chosen one marked)
(the busiest workers)
not shown: 5 topics, 1 worker; press / to filter, or make the window larger
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tarry.programs.cli import timeline
from tarry.programs.cli.output import count_text
from tarry.programs.cli.worker_commands import as_text

if TYPE_CHECKING:
    from tarry.programs.cli.timeline import TopicView
    from tarry.types import WorkerInfo

SORTS: dict[str, Callable[[TopicView], tuple[object, ...]]] = {
    "worst first": timeline.worst_key,
    "most jobs first": lambda seen: (-(seen.stats.delayed + seen.stats.ready + seen.stats.reserved),),
    "most dead first": lambda seen: (-seen.stats.dead,),
    "by name": lambda seen: (),
}
HELP = (
    ("s", "sort: worst first, most jobs first, most dead first, by name"),
    ("/", "filter topics by a part of their name; Enter keeps it, Esc removes it"),
    ("up, down, k, j", "choose a topic"),
    ("Enter", "show only the chosen topic; Esc shows all again"),
    ("?", "this help; any key closes it"),
    ("q, Ctrl-C", "quit"),
)
ARROWS = {"\x1b[A": "k", "\x1b[B": "j", "\x1bOA": "k", "\x1bOB": "j"}
UNFINISHED, ESCAPE_S = ("\x1b", "\x1b[", "\x1bO"), 0.05
"""The start of an escape sequence, whose rest may arrive a little later; Esc alone has none."""
ESCAPE, ENTER, ERASE = "\x1b", "\r\n", "\x7f\b"
WORKERS_SHARE = 6
"""The part of the window's lines that workers get at least."""


@dataclass
class TopScreen:
    """The state that keys change."""

    sort: int = 0
    filter: str = ""
    typing: bool = False
    chosen: str | None = None
    alone: bool = False
    help: bool = False
    over: bool = False
    shown: tuple[str, ...] = ()
    """The topics in the order in which they were drawn last."""

    def press(self, key: str) -> None:
        """A key, or the escape sequence of one."""
        key = ARROWS.get(key, key)
        if self.help:
            self.help = False
        elif self.typing:
            self._type(key)
        elif key == "q":
            self.over = True
        elif key in ("?", "h"):
            self.help = True
        elif key == "s":
            self.sort = (self.sort + 1) % len(SORTS)
        elif key == "/":
            self.typing, self.filter, self.alone = True, "", False
        elif key in ("j", "k"):
            self._move(1 if key == "j" else -1)
        elif key in ENTER:
            self.alone = self.chosen is not None
        elif key == ESCAPE:
            self.alone, self.filter = False, ""

    def _type(self, key: str) -> None:
        if key in ENTER:
            self.typing = False
        elif key == ESCAPE:
            self.typing, self.filter = False, ""
        elif key in ERASE:
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter += key

    def _move(self, by: int) -> None:
        if self.shown:
            at = self.shown.index(self.chosen) + by if self.chosen in self.shown else 0
            self.chosen = self.shown[min(max(at, 0), len(self.shown) - 1)]

    def select(self, views: dict[str, TopicView]) -> list[str]:
        """The topics to show, in order; the chosen one stays in view."""
        key = list(SORTS.values())[self.sort]
        names = [name for name in views if self.filter.lower() in name.lower()]
        if self.alone and self.chosen in views:
            names = [self.chosen]
        return sorted(names, key=lambda name: (*key(views[name]), name))

    def draw(
        self,
        views: dict[str, TopicView],
        before: dict[str, TopicView],
        workers: Sequence[WorkerInfo],
        console: Console,
    ) -> RenderableType:
        """One frame, not larger than the window."""
        if self.help:
            grid = Table.grid(padding=(0, 2, 0, 1))
            grid.add_column(no_wrap=True)
            for keys, what in HELP:
                grid.add_row(Text(keys), Text(what))
            return grid
        names, width, height = self.select(views), console.width, console.height
        self.shown = tuple(names)
        busiest = sorted(workers, key=lambda info: -info.busy)
        reserved = min(len(busiest), max(height // WORKERS_SHARE, 1))
        room = height - 2 - reserved  # two: the first line, and what is cut
        first = self._first(names, views, before, workers, console, room)
        blocks: list[RenderableType] = []
        shown = 0
        for name in names[first:]:
            block = timeline.block(name, views[name], before.get(name), workers, marked=name == self.chosen)
            lines = len(console.render_lines(block, pad=False))
            if lines > room and shown:
                break
            blocks.append(block)
            room, shown = room - lines, shown + 1
        fitting = busiest[: reserved + max(room, 0)]
        blocks += [
            Text(as_text(info), "" if info.busy else "dim", overflow="ellipsis", no_wrap=True) for info in fitting
        ]
        cut = [
            count_text(n, what)
            for n, what in ((len(names) - shown, "topic"), (len(busiest) - len(fitting), "worker"))
            if n > 0
        ]
        if cut:
            missing = f"not shown: {', '.join(cut)}"
            hint = f"{missing}; press j and k to move, / to filter, or make the window larger"
            hint = hint if len(hint) <= width else f"{missing}; j, k, / or a larger window"
            blocks.append(Text(hint if len(hint) <= width else missing, "reverse", overflow="ellipsis", no_wrap=True))
        return Group(self._head(len(names), len(views), workers, width), *blocks)

    def _first(
        self,
        names: Sequence[str],
        views: dict[str, TopicView],
        before: dict[str, TopicView],
        workers: Sequence[WorkerInfo],
        console: Console,
        room: int,
    ) -> int:
        """The first topic to draw: the chosen one must be in the window."""
        if self.chosen not in names:
            return 0
        at = first = names.index(self.chosen)
        for number in range(at, -1, -1):
            name = names[number]
            room -= len(console.render_lines(timeline.block(name, views[name], before.get(name), workers), pad=False))
            if room < 0:
                break
            first = number
        return first

    def _head(self, shown: int, known: int, workers: Sequence[WorkerInfo], width: int) -> Text:
        topics = count_text(known, "topic") if shown == known else f"{shown} of {count_text(known, 'topic')}"
        parts = [f"{topics}, {list(SORTS)[self.sort]}"]
        if self.typing or self.filter:
            parts.append(f"filter: {self.filter}{'_' if self.typing else ''}")
        help = "? help   q quit"
        if workers:
            busy, slots = sum(info.busy for info in workers), sum(info.slots for info in workers)
            parts.append(f"{count_text(len(workers), 'worker')}, {busy} of {slots} busy")
            if sum(map(len, parts)) + 3 * len(parts) + len(help) > width:
                parts.pop()  # the keys are more important: the topics show their workers
        line = Text("   ".join(parts), "bold", overflow="ellipsis", no_wrap=True)
        if line.cell_len + len(help) + 3 > width:
            help = "? help"
        if line.cell_len + len(help) + 3 <= width:
            line.append(" " * (width - line.cell_len - len(help)) + help, "not bold dim")
        return line


@contextmanager
def keyboard() -> Generator[Callable[[float], str]]:
    """Gives a function that waits for a key for a number of seconds, and returns it, or nothing. Without a terminal there is none."""
    if not sys.stdin.isatty():

        def wait(seconds: float) -> str:
            time.sleep(max(seconds, 0))
            return ""

        yield wait
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    tty.setcbreak(number)

    def read(seconds: float) -> str:
        if not select.select([number], [], [], max(seconds, 0))[0]:
            return ""
        typed = os.read(number, 32).decode(errors="replace")
        while typed.endswith(UNFINISHED) and select.select([number], [], [], ESCAPE_S)[0]:
            typed += os.read(number, 32).decode(errors="replace")
        return typed

    try:
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def keys_of(typed: str) -> list[str]:
    """The keys of what was read at once: an escape sequence is one."""
    return re.findall(r"\x1b[\[O][A-Z]|.", typed, re.DOTALL)
