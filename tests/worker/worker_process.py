"""A worker process for the tests: ``python worker_process.py URL NAMESPACE DIARY TTR GRACE MODE``.

What it does goes into the journal, a line each: ``ready``, ``taken ID ATTEMPT``, ``step NAME``, ``closed ID``, ``left``.
Mode ``quick`` closes at once; ``slow`` takes a tenth of a second; ``stuck`` never ends. ``steps`` keeps steps, and each of the first two
attempts is killed: behind a step, and in the middle of one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from tarry import AsyncClient, AsyncJob
from tarry.worker import Worker

HOURS = 36_000.0
TAKES_S = {"quick": 0.0, "slow": 0.1, "stuck": HOURS, "steps": 0.0}


def main(url: str, namespace: str, journal: str, ttr: str, grace: str, mode: str) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(line: str) -> None:
        os.write(file, f"{line}\n".encode())

    async def work() -> None:
        worker = Worker(client=AsyncClient(url, namespace=namespace), ttr=ttr, grace=grace)

        @worker.on("orders", concurrency=8)
        async def close(job: AsyncJob[Any]) -> None:
            note(f"taken {job.id} {job.attempt}")
            await asyncio.sleep(TAKES_S[mode])
            if mode == "steps":
                await keep_steps(job)
            note(f"closed {job.id}")

        async def keep_steps(job: AsyncJob[Any]) -> None:
            def work(name: str) -> str:
                note(f"step {name}")
                if (job.attempt, name) == (2, "mail"):
                    os.kill(os.getpid(), signal.SIGKILL)
                return f"{name} of attempt {job.attempt}"

            charged = await job.step("charge", lambda: work("charge"))
            if job.attempt == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            mailed = await job.step("mail", lambda: work("mail"))
            note(f"{charged}, {mailed}")

        note("ready")
        await worker.run()
        note("left")

    asyncio.run(work())


if __name__ == "__main__":
    main(*sys.argv[1:])
