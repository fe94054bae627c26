"""A worker process for the burst: ``python -m bench.drain URL TOPIC COUNT DUE``; prints what it took as JSON.

Each job is handled in a task of its own; what is done is finished in the same turn in which the next are popped.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import tarry

BATCH = 1000


async def handle(job: tarry.AsyncJob[object]) -> None:
    assert job.body


async def drain(url: str, name: str, count: int, due: float) -> dict[str, float]:
    async with tarry.AsyncClient(url) as client:
        topic = client.topic(name)
        done, cpu = 0, 0.0
        handled: list[tarry.AsyncJob[object]] = []
        while done < count:
            cpu = cpu or time.process_time()
            finishing = asyncio.ensure_future(topic.finish_many(handled)) if handled else None
            jobs = await topic.pop_many(BATCH, wait=0 if handled else 10, ttr=15)
            if finishing:
                await finishing
                done += len(handled)
            await asyncio.gather(*(asyncio.create_task(handle(job)) for job in jobs))
            handled = jobs
        return {"jobs": done, "wall_s": time.time() - due, "cpu_s": time.process_time() - cpu}


if __name__ == "__main__":
    url, name, count, due = sys.argv[1:]
    print(json.dumps(asyncio.run(drain(url, name, int(count), float(due)))))
