"""``run=``: an ``async def`` runs in the event loop, a plain function in a thread or in a child process."""

from __future__ import annotations

import pydoc
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.worker.process_functions import CORES
from tarry.worker.registry import CONCURRENCY, THREADS
from walked import cases


async def awaited(job: Any) -> None: ...


def plain(job: Any) -> None: ...


DECORATED: dict[str, Callable[[tarry.Worker, Any], Any]] = {
    "handler": lambda worker, run: worker.on("n", run=run),
    "task": lambda worker, run: worker.task(run=run),
}
FOR_PLAIN = "is for plain functions; awaited is an async def and runs in the event loop"
PLACES = "'loop'; it is 'thread' or 'process'"


@cases("kind", list(DECORATED))
@cases(
    ("function", "run", "told"),
    [
        (plain, None, ""),
        (plain, "thread", ""),
        (plain, "process", ""),
        (awaited, None, ""),
        (awaited, "thread", f"'thread' {FOR_PLAIN}. Leave run= out"),
        (awaited, "process", f"'process' {FOR_PLAIN}. Leave run= out"),
        (awaited, "loop", f"{PLACES}. Without it an async def runs in the event loop"),
        (plain, "loop", f"{PLACES}. Without it"),
    ],
)
def test_an_async_function_runs_in_the_loop_and_a_plain_one_where_run_says(
    kind: str, function: Any, run: Any, told: str
) -> None:
    worker, decorate = tarry.Worker("shop"), DECORATED[kind]
    if told:
        with pytest.raises(tarry.BadInput, match=f"^run: {told}"):
            decorate(worker, run)(function)
        assert not worker.registered.routes()
        return
    decorate(worker, run)(function)
    [route] = worker.registered.routes()
    [target] = route.targets
    assert (target.is_async, target.process is not None) == (function is awaited, run == "process")
    assert route.slots == (CORES if run == "process" else CONCURRENCY if function is awaited else THREADS)


@pytest.mark.parametrize("decorator", [tarry.Worker.on, tarry.Worker.task, tarry.Registry.on, tarry.Registry.task])
def test_the_help_says_that_run_may_be_left_out(decorator: Any) -> None:
    assert "run: Run | None = None" in pydoc.render_doc(decorator, renderer=pydoc.plaintext).replace("'", "")
