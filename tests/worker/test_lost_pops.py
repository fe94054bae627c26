"""The jobs of a pop whose answer was lost are released by its own worker: they do not wait for their TTR of hours."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import tarry
from faults.proxy import LOST, Proxy
from tarry.connections.embedded.server_process import ServerProcess
from tarry.verbs.jobs.pop import POP
from until import until


def test_a_worker_gets_the_jobs_of_a_lost_pop_at_once(own_server: Any, tmp_path: Path) -> None:
    running: ServerProcess = own_server()
    proxy = Proxy(tmp_path, running.address)
    done: list[tuple[str, int]] = []
    worker = tarry.Worker(url=proxy.url(), ttr="10h")

    @worker.on("orders")
    async def close(job: tarry.AsyncJob[str]) -> None:
        done.append((job.id, job.attempt))
        if len(done) == 3:
            worker.stop()

    async def run(client: tarry.Client) -> None:
        task = asyncio.ensure_future(worker.run())
        client.topic("orders").add("first", id="1")
        await asyncio.to_thread(until, lambda: done, "the first one is done")
        proxy.arm(LOST, at=POP.sha)
        client.topic("orders").add("lost", id="2")
        await asyncio.to_thread(until, lambda: proxy.struck, "an answer was lost")
        client.topic("orders").add("next", id="3")
        await task

    try:
        with tarry.Client(running.url) as client:
            asyncio.run(run(client))
            assert sorted(done) == [("1", 1), ("2", 1), ("3", 1)]
            assert client.topic("orders").stats().timed_out == 0
    finally:
        proxy.close()
