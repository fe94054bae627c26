"""One worker process, as ``tarry worker`` runs it.

    exit code   0  stopped, and all that ran came to its end
                1  ended by an error
                2  wrong words, 3 no server that can be used
                4  stopped, but running jobs had to be given back

A child of a parent (parent.py) has a socket to it: it says now and then that it lives, and stops when the parent is gone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from tarry import __version__
from tarry.programs.worker.signals import GIVEN_BACK
from tarry.programs.worker.worker import Worker
from tarry.values.durations import SECOND, as_text, duration_us

CLEAN, FAILED, WRONG, NO_SERVER = range(4)
HOLDER, SOCKET, URL = "TARRY_WORKER_HOLDER", "TARRY_WORKER_SOCKET", "TARRY_WORKER_URL"
"""What a child is told by its parent, in its environment."""
BEGINS, WORKED = b".", b"+"
"""What a child says now and then: that it lives, and whether the server has ever answered it."""
T = TypeVar("T")


def serve(worker: Worker, processes: int, command: Sequence[str]) -> int:
    """Runs a worker until it is told to stop, here or in several processes, each started by ``command``.

    Answers the exit code.
    """
    is_child = SOCKET in os.environ
    if not is_child:
        write_line(banner(worker, processes))
    if processes > 1 and not is_child:
        from tarry.programs.worker.parent import Parent

        return run_in_loop(Parent(worker, command, processes).run())
    cut_off = run_in_loop(_serve(worker))
    return GIVEN_BACK if cut_off else CLEAN


async def _serve(worker: Worker) -> int:
    try:
        return await _run(worker)
    finally:
        await worker.close()  # this process is the worker's: nobody else would close the client of the application


async def _run(worker: Worker) -> int:
    number = os.environ.get(SOCKET)
    if number is None:
        return await worker.run()
    worker.holder, worker.is_child = os.environ.get(HOLDER, "").encode(), True
    loop = asyncio.get_running_loop()
    with socket.socket(fileno=int(number)) as parent:
        parent.setblocking(False)
        worker.beat = _heartbeats(parent)
        loop.add_reader(parent, _stop_when_orphaned, worker, parent)
        try:
            return await worker.run()
        finally:
            worker.beat = lambda worked: None
            loop.remove_reader(parent)


def _heartbeats(parent: socket.socket) -> Callable[[bool], None]:
    def beat(worked: bool) -> None:
        try:
            parent.send(WORKED if worked else BEGINS)
        except OSError:
            pass  # it has not read the last ones yet, or is gone: then the reader knows

    return beat


def _stop_when_orphaned(worker: Worker, parent: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(parent)
    worker.stop()


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """On uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def banner(worker: Worker, processes: int) -> str:
    """What a worker says when it starts."""
    routes = worker.routes()
    takers = worker.queue_routes()
    width = max([len(route.topic) for route in routes] + [len(taker.queue) for taker in takers], default=0)
    said = [
        f"tarry {__version__}, worker {os.getpid()}" + (f", {processes} processes" if processes > 1 else ""),
        f"  server   {worker.blocking.engine.origin.address.redacted}, namespace {worker.blocking.namespace}",
    ]
    for route in routes:
        names = ", ".join(f"{target.name}{'' if target.is_async else ' (thread)'}" for target in route.targets)
        share = f", weight {route.weight:g}" if worker.slots else ""
        said.append(f"  topic    {route.topic:<{width}}  {route.slots} at a time{share}  {names}")
    for taker in takers:
        kind = "" if taker.callee.is_async else " (thread)"
        said.append(f"  queue    {taker.queue:<{width}}  {taker.slots} at a time  {taker.callee.name}{kind}")
    if worker.slots:
        said.append(f"  in all   {worker.slots} at a time")
    ttr = as_text(duration_us(worker.ttr))
    said.append(
        f"  ttr {ttr}, grace {as_text(round(worker.grace_s * SECOND))}; Ctrl-C or SIGTERM stops it, twice at once"
    )
    return "\n".join(said)


def write_line(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
