"""``run=``: an ``async def`` runs in the event loop, a plain function in a thread or in a child process."""

from __future__ import annotations

import pydoc
from collections.abc import Callable
from typing import Any

import pytest

import tarry
from tarry.worker.process_functions import CORES
from tarry.worker.registry import CONCURRENCY, THREADS


async def awaited(job: Any) -> None: ...


def plain(job: Any) -> None: ...


@pytest.mark.parametrize(
    "decorate", [lambda worker, run: worker.on("n", run=run), lambda worker, run: worker.task(run=run)]
)
@pytest.mark.parametrize(
    ("function", "run", "told"),
    [
        (plain, None, ""),
        (plain, "thread", ""),
        (plain, "process", ""),
        (awaited, None, ""),
        (
            awaited,
            "thread",
            "'thread' is for plain functions; awaited is an async def and runs in the event loop. Leave",
        ),
        (
            awaited,
            "process",
            "'process' is for plain functions; awaited is an async def and runs in the event loop. Le",
        ),
        (
            awaited,
            "loop",
            "'loop'; it is 'thread' or 'process'. Without it an async def runs in the event loop, and a p",
        ),
        (plain, "loop", "'loop'; it is 'thread' or 'process'."),
    ],
)
def test_an_async_function_runs_in_the_loop_and_a_plain_one_where_run_says(
    decorate: Callable[[tarry.Worker, Any], Any], function: Any, run: Any, told: str
) -> None:
    worker = tarry.Worker("shop")
    if told:
        with pytest.raises(tarry.BadInput, match=f"^run: {told}"):
            decorate(worker, run)(function)
        assert not worker.routes()
        return
    decorate(worker, run)(function)
    [route] = worker.routes()
    [target] = route.targets
    assert (target.is_async, target.process is not None) == (function is awaited, run == "process")
    assert route.slots == (CORES if run == "process" else CONCURRENCY if function is awaited else THREADS)


@pytest.mark.parametrize("decorator", [tarry.Worker.on, tarry.Worker.task, tarry.Registry.on, tarry.Registry.task])
def test_the_help_says_that_run_may_be_left_out(decorator: Any) -> None:
    assert "run: Run | None = None" in pydoc.render_doc(decorator, renderer=pydoc.plaintext).replace("'", "")
