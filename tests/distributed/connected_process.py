"""One of each kind of connection, until standard input ends: run by test_failover_clients.py."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading

import tarry
from tarry.connections import connection_limit

WAIT = 60


def report(what: object) -> None:
    print(what, flush=True)


def blocking(url: str) -> None:
    with tarry.Client(url) as waits, tarry.Client(url) as hears, tarry.Client(url) as idles:
        idles.topics()

        def pop(client: tarry.Client, topic: str) -> None:
            job = client.pop(topic, wait=WAIT)
            assert job is not None
            with job:
                report(f"{topic} {job.body}")

        threads = [
            threading.Thread(target=pop, args=(waits, "blocked")),
            threading.Thread(target=pop, args=(hears, "heard")),
        ]
        threads.append(threading.Thread(target=lambda: report(f"taken {waits.blocking_queue('elements').take()}")))
        for thread in threads:
            thread.start()
        with waits.map_cache("things").listen(lambda event: report(f"told {event.key}"), "created"):
            report("ready")
            sys.stdin.read()
        for thread in threads:
            thread.join()


async def awaiting(url: str) -> None:
    async with tarry.AsyncClient(url) as waits, tarry.AsyncClient(url) as hears, tarry.AsyncClient(url) as idles:
        await idles.topics()

        async def pop(client: tarry.AsyncClient, topic: str) -> None:
            job = await client.pop(topic, wait=WAIT)
            assert job is not None
            async with job:
                report(f"{topic} {job.body}")

        async def take() -> None:
            report(f"taken {await waits.blocking_queue('elements').take()}")

        tasks = [asyncio.create_task(one) for one in (pop(waits, "blocked"), pop(hears, "heard"), take())]
        async with await waits.map_cache("things").listen(lambda event: report(f"told {event.key}"), "created"):
            report("ready")
            await asyncio.to_thread(sys.stdin.read)
        await asyncio.gather(*tasks)


logging.disable()
connection_limit.UNLIMITED.maximum = 1  # the second wait is tracked
if sys.argv[1] == "sync":
    blocking(sys.argv[2])
else:
    asyncio.run(awaiting(sys.argv[2]))
