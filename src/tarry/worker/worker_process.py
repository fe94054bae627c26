"""One worker process, as ``tarry worker`` runs it.

    exit code   0  stopped, and all running jobs were completed
                1  ended by an error
                2  bad arguments
                3  no server that can be used; or unfit: its work in the background fails again and again
                4  stopped, but running jobs had to be released

A child has a socket to its parent (parent.py): it sends heartbeats over it, and stops when the parent is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial

from tarry import __version__
from tarry.values.durations import SECOND, as_text, duration_us
from tarry.values.printable import one_line
from tarry.worker.log_lines import MOST_TOPICS, SHOWN
from tarry.worker.parent_messages import ALIVE, ANSWERED, HOLDER, SOCKET, STOPPED, TOLD_TO_STOP
from tarry.worker.signals import RELEASED, run_in_loop
from tarry.worker.targets import Target
from tarry.worker.worker import Worker


def serve_worker(worker: Worker, processes: int, command: Sequence[str], *, json: bool = False) -> int:
    """Runs a worker until it is stopped, in this process or in several, each started by ``command``. With ``json`` the banner is
    a line of the log.

    Returns the exit code.
    """
    is_child = SOCKET in os.environ
    if not is_child:
        log_start(worker, processes) if json else write_line(banner(worker, processes))
    if (processes > 1 or worker.inner.max_jobs_per_child is not None) and not is_child:
        from tarry.worker.parent import Parent

        return run_in_loop(Parent(worker, command, processes).run())
    cut_off = run_in_loop(_serve(worker))
    return RELEASED if cut_off else STOPPED


async def _serve(worker: Worker) -> int:
    try:
        return await _run(worker)
    finally:
        await worker.close()  # nobody else in this process would close the application's client


async def _run(worker: Worker) -> int:
    number = os.environ.get(SOCKET)
    if number is None:
        return await worker.run()
    worker.inner.holder, worker.inner.is_child = os.environ.get(HOLDER, "").encode(), True
    loop = asyncio.get_running_loop()
    with socket.socket(fileno=int(number)) as parent:
        parent.setblocking(False)
        worker.inner.on_alive = _heartbeats(parent)
        worker.inner.on_told_to_stop = partial(_send, parent, TOLD_TO_STOP)
        loop.add_reader(parent, _stop_when_orphaned, worker, parent)
        try:
            return await worker.run()
        finally:
            worker.inner.on_alive, worker.inner.on_told_to_stop = lambda worked: None, lambda: None
            loop.remove_reader(parent)


def _heartbeats(parent: socket.socket) -> Callable[[bool], None]:
    def beat(worked: bool) -> None:
        _send(parent, ANSWERED if worked else ALIVE)

    return beat


def _send(parent: socket.socket, heartbeat: bytes) -> None:
    try:
        parent.send(heartbeat)
    except OSError:
        pass  # the buffer is full, or the parent is gone: the reader notices that


def _stop_when_orphaned(worker: Worker, parent: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(parent)
    worker.stop()


def banner(worker: Worker, processes: int) -> str:
    """The lines that a worker prints when it starts."""
    all_routes = worker.registered.routes()
    routes = all_routes if len(all_routes) <= MOST_TOPICS else all_routes[:SHOWN]
    queue_routes = worker.registered.queue_routes()
    width = max(
        [len(route.topic) for route in routes] + [len(queue_route.queue) for queue_route in queue_routes], default=0
    )
    lines = [
        f"tarry {__version__}, worker {os.getpid()}" + (f", {processes} processes" if processes > 1 else ""),
        f"  server   {worker.client.engine.config.address.redacted}, namespace {worker.client.namespace}",
    ]
    for route in routes:
        names = ", ".join(f"{target.name}{_kind_of(target)}" for target in route.targets)
        share = f", weight {route.weight:g}" if worker.inner.slots else ""
        kind, together = ("topics ", " together") if route.is_pattern else ("topic  ", "")
        lines.append(f"  {kind}  {route.topic:<{width}}  {route.slots} at a time{together}{share}  {names}")
    if len(all_routes) > len(routes):
        lines.append(f"           … and {len(all_routes) - len(routes)} more topics")
    for queue_route in queue_routes:
        kind = "" if queue_route.handler.is_async else " (thread)"
        lines.append(
            f"  queue    {queue_route.queue:<{width}}  {queue_route.slots} at a time  {queue_route.handler.name}{kind}"
        )
    if worker.inner.slots:
        lines.append(f"  in all   {worker.inner.slots} at a time")
    ttr = as_text(duration_us(worker.inner.ttr))
    lines.append(
        f"  ttr {ttr}, grace {as_text(round(worker.inner.grace_s * SECOND))}; Ctrl-C or SIGTERM stops it, a second one at once"
    )
    return "\n".join(lines)


def log_start(worker: Worker, processes: int) -> None:
    """Logs what the banner shows."""
    fields = {
        "version": __version__,
        "pid": os.getpid(),
        "processes": processes,
        "server": worker.client.engine.config.address.redacted,
        "namespace": worker.client.namespace,
        "topics": [route.topic for route in worker.registered.routes()],
        "queues": [route.queue for route in worker.registered.queue_routes()],
    }
    logging.getLogger("tarry").info("the worker starts", extra={"tarry": fields})


def _kind_of(target: Target) -> str:
    where = "" if target.is_async else " (thread)" if target.process is None else " (process)"
    return where if target.batching is None else f" of up to {target.batching.most} jobs{where}"


def write_line(text: str) -> None:
    print("\n".join(map(one_line, text.split("\n"))), file=sys.stderr, flush=True)
