"""The two worker processes of the demo, and what runs in them; one of them is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tarry import AsyncClient, AsyncJob, Worker
from tarry.errors import Unavailable
from tarry.programs.demo.work_log import LogLine, LogReader, WorkLog
from tarry.types import Duration

TOPIC = "orders"
WORK_S = 0.02
"""How long it takes to close an order: goods go back on the shelf, a mail is sent."""
SLOTS = 20
TTR_S = 2
"""When the jobs of the killed worker come back."""
KILL_WHEN_HOLDING = 3
"""The worker is killed when it holds this many orders; later one is enough."""
_POLL_S = 0.01
_START_S = 30.0


class DemoWorker:
    """One worker process and its work log. The demo keeps its stdin open: when the demo ends, the worker stops."""

    def __init__(self, number: int, folder: Path, url: str | None, namespace: str) -> None:
        self.number = number
        self.work_log = LogReader(folder / f"worker-{number}.jsonl")
        self.killed = False
        self.held = 0
        """How many orders it held when it was killed."""
        self._stderr = folder / f"worker-{number}.stderr"
        url_variable = {} if url is None else {"TARRY_URL": url}  # not an argument: it may contain a password
        arguments = [
            "demo-worker",
            str(folder / f"worker-{number}.jsonl"),
            "--namespace",
            namespace,
            "--ttr",
            f"{TTR_S}s",
        ]
        with self._stderr.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tarry", *arguments],  # no module of the current folder
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, **url_variable},
            )

    async def ready(self) -> None:
        """Waits until it works. Raises ``Unavailable`` with its last line of output when it does not start."""
        for _ in range(int(_START_S / _POLL_S)):
            if self.work_log.read_new().is_ready:
                return
            if self.process.poll() is not None:
                break
            await asyncio.sleep(_POLL_S)
        raise Unavailable(f"Worker {self.number} of the demo did not start: {self._last_line()}")

    def _last_line(self) -> str:
        return self._stderr.read_text(errors="replace").strip().rpartition("\n")[2] or "it wrote nothing."

    async def kill_while_busy(self, patience_s: float) -> None:
        """``kill -9`` while it certainly holds an order: stops the process first, and reads its work log."""
        pid = self.process.pid
        polls = max(int(patience_s / _POLL_S), 1)
        for left in range(polls, 0, -1):
            enough = KILL_WHEN_HOLDING if left > polls / 2 else 1
            if self.work_log.read_new().holds >= enough:
                os.kill(pid, signal.SIGSTOP)
                await asyncio.to_thread(os.waitpid, pid, os.WUNTRACED)
                if self.work_log.read_new().holds >= enough:
                    break
                os.kill(pid, signal.SIGCONT)  # it closed the order just before it was stopped
            await asyncio.sleep(_POLL_S)
        self.held = self.work_log.holds
        self.process.kill()
        self.process.wait()
        self.killed = True

    async def stop(self) -> None:
        """Sends SIGTERM, and waits until it has exited."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                await asyncio.to_thread(self.process.wait, _START_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.work_log.read_new()


async def close_orders(url: str | None, namespace: str, log: Path, ttr: Duration) -> None:
    """Runs until SIGTERM, or until the demo's end of stdin is closed."""
    work_log = WorkLog(log)
    worker = Worker(client=AsyncClient(url, namespace=namespace), ttr=ttr)

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
