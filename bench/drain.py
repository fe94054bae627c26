"""The worker process of the burst: ``python -m bench.drain URL TOPIC COUNT DUE SLOTS``; prints what it took as JSON.

It is ``tarry.Worker`` as users run it; the handler reads the body, and the last one stops the worker.
With 0 SLOTS it has the default.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import tarry


async def drain(url: str, topic: str, count: int, due: float, slots: int) -> dict[str, float]:
    client = tarry.AsyncClient(url)
    worker = tarry.Worker(client=client)
    handled = 0

    @worker.on(topic, concurrency=slots or None)
    async def handle(job: tarry.AsyncJob[object]) -> None:
        nonlocal handled
        assert job.body
        handled += 1
        if handled == count:
            worker.stop()

    cpu = time.process_time()
    await worker.run()  # returns when the last finish is answered
    return {"jobs": handled, "wall_s": time.time() - due, "cpu_s": time.process_time() - cpu}


if __name__ == "__main__":
    url, topic, count, due, slots = sys.argv[1:]
    print(json.dumps(asyncio.run(drain(url, topic, int(count), float(due), int(slots)))))
