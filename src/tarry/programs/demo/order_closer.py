"""A worker process of the demo: closes orders, and logs each step."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tarry.clients.awaited.client import AsyncClient
from tarry.clients.awaited.job import AsyncJob
from tarry.programs.demo.work_log import LogLine, WorkLog
from tarry.programs.worker import Worker
from tarry.values.durations import Duration

TOPIC = "orders"
WORK_S = 0.02
"""How long it takes to close an order: goods go back on the shelf, a mail is sent."""
SLOTS = 20


async def close_orders(url: str | None, namespace: str, log: Path, ttr: Duration) -> None:
    """Runs until SIGTERM, or until the demo's end of stdin is closed."""
    work_log = WorkLog(log)
    worker = Worker(AsyncClient(url, namespace=namespace), ttr=ttr)

    @worker.on(TOPIC, concurrency=SLOTS)
    async def close(job: AsyncJob[Any]) -> None:
        work_log.write_event("taken", job)
        await asyncio.sleep(WORK_S)
        work_log.write_event("closed", job)

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _stop_at_stdin_end, worker)
    work_log.write(LogLine("ready"))
    await worker.run()
    work_log.write(LogLine("left"))


def _stop_at_stdin_end(worker: Worker) -> None:
    """Stops the worker at the end of stdin."""
    if not os.read(sys.stdin.fileno(), 1):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        worker.stop()
