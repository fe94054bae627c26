"""Functions that run in child processes: ``run="process"``. A child finds them by importing their modules.

In a child (run_child.py) the decorators enter each function here, by its place and what it is registered for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tarry.errors import BadInput

if TYPE_CHECKING:
    from tarry.worker.task_host import TaskHost

Run = Literal["thread", "process"]
"""Where a plain function runs. ``None`` beside it: an ``async def`` in the event loop, a plain function in a thread."""
CORES = os.cpu_count() or 2
"""How many jobs of a topic run at a time in child processes."""


@dataclass(frozen=True, slots=True)
class ProcessFunction:
    """The name of a function for child processes: where it is, and which topic and task it is registered for."""

    module: str
    qualname: str
    topic: str
    task: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """A function as a child calls it, with the type of its topic's bodies and its registry."""

    call: Callable[[Any], Any]
    type: Any
    registry: TaskHost


entries: dict[ProcessFunction, Entry] | None = None
"""``None`` in a process that is not a child."""


def check_run(run: Run | None, name: str, is_async: bool) -> None:
    """Checks where a function shall run: an ``async def`` runs in the event loop, and nowhere else. Raises ``BadInput``."""
    if run is not None and run not in ("thread", "process"):
        raise BadInput(
            f"run: {run!r}; it is 'thread' or 'process'. "
            "Without it an async def runs in the event loop, and a plain function in a thread."
        )
    if run is not None and is_async:
        raise BadInput(
            f"run: {run!r} is for plain functions; {name} is an async def and runs in the event loop. "
            "Leave run= out, or write a plain function."
        )


def name_function(
    function: Any, name: str, topic: str, task: str, registry: TaskHost, call: Any, kind: Any = None
) -> ProcessFunction:
    """Names a function that is registered with ``run="process"``. Raises ``BadInput`` for one that a child cannot import."""
    qualname = str(getattr(function, "__qualname__", name))
    if "<locals>" in qualname or "<lambda>" in qualname:
        raise BadInput(f"run: a child process imports {name} by name; define it at the top level of a module.")
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    named = ProcessFunction("__main__" if module == "__mp_main__" else module, qualname, topic, task)
    if entries is not None:
        entries[named] = Entry(call, kind, registry)
    return named


def main_module() -> dict[str, Any]:
    """How a child imports this process's main script, as ``multiprocessing.spawn.prepare`` takes it; with its arguments."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return {"init_main_from_name": str(spec.name), "sys_argv": sys.argv}
    path = getattr(main, "__file__", None)
    return {} if path is None else {"init_main_from_path": str(Path(path).absolute()), "sys_argv": sys.argv}
