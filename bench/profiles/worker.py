"""``python -m bench.profiles.worker URL``: a worker with an async handler and 100 jobs at a time, as ``tarry worker`` runs it, until it
is terminated."""

from __future__ import annotations

import signal
import sys
from typing import Any

import tarry
from tarry.worker.signals import run_in_loop


def main(url: str) -> None:
    worker = tarry.Worker(url=url)

    @worker.on("orders", concurrency=100)
    async def handle(job: tarry.AsyncJob[Any]) -> None:
        assert job.body

    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    run_in_loop(worker.run())


if __name__ == "__main__":
    main(*sys.argv[1:])
