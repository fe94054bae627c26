"""A progress bar for commands that take long: on a terminal, on stderr, after half a second; removed at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tarry.internal import one_line

if TYPE_CHECKING:
    from rich.progress import Progress


T = TypeVar("T")
AFTER_S = 0.5
Advance = Callable[[int], None]
"""Called with how many more are done."""


@contextmanager
def progress(label: str, total: int | Callable[[], int]) -> Generator[Advance]:
    """``with progress("orders", 5000) as advance: … advance(500)``. A function that counts is called only on a terminal."""
    if not sys.stderr.isatty():
        yield lambda n: None
        return
    bar = _Bar(label, total() if callable(total) else total)
    try:
        yield bar.advance
    finally:
        bar.finish()


class _Bar:
    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._began = time.monotonic()
        self._done = 0
        self._shown: Progress | None = None

    def advance(self, n: int) -> None:
        self._done += n
        if self._shown is None and time.monotonic() - self._began >= AFTER_S:
            self._show()
        if self._shown is not None:
            total = max(self._total, self._done)  # jobs may be added meanwhile
            self._shown.update(self._shown.task_ids[0], completed=self._done, total=total)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._shown = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr),
            transient=True,
            redirect_stdout=False,  # stdout is not touched
        )
        self._shown.add_task(one_line(self._what), total=self._total)
        self._shown.start()

    def finish(self) -> None:
        if self._shown is not None:
            self._shown.stop()
