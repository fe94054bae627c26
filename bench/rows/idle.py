"""10,000 jobs are due tomorrow, 5 consumers with a client each wait: how many calls do they send to the server?

Counted by the server (INFO commandstats). It counts commands inside of scripts too; so those that any script of tarry
uses are left out, and the others (EVALSHA, EVAL, BLPOP, CLIENT, …) were sent by a client. The first second, in which the
consumers start, does not count.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import tarry
from bench.harness import BODY, DAY_S, Bench
from bench.results import Reading, Result, Target

CONSUMERS = 5
OURS = {"info", "flushall", "ping"}
_CALL = re.compile(r"redis\.p?call\('([\w-]+)'")


def inside_scripts() -> set[str]:
    """The commands that tarry's scripts use."""
    texts = [file.read_text("utf-8") for file in (Path(tarry.__file__).parent / "lua").rglob("*.lua")]
    return {name.lower() for text in texts for name in _CALL.findall(text)}


async def waiting_calls(bench: Bench, seconds: float) -> dict[str, int]:
    clients = [tarry.AsyncClient(bench.url) for _ in range(CONSUMERS)]
    tasks = [asyncio.create_task(client.topic("orders").pop(wait=None)) for client in clients]
    await asyncio.sleep(1)
    before = await asyncio.to_thread(bench.calls)
    await asyncio.sleep(seconds)
    after = await asyncio.to_thread(bench.calls)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.close()
    left_out = inside_scripts() | OURS
    calls = {name: after[name][0] - before.get(name, (0, 0.0))[0] for name in after if name not in left_out}
    return {name: n for name, n in calls.items() if n}


def idle(bench: Bench) -> list[Result]:
    seconds = bench.size(20, 10, 1)
    with tarry.Client(bench.url) as client:
        client.topic("orders").add_many([BODY] * bench.size(10_000, 10_000, 100), delay=DAY_S)
    calls = asyncio.run(waiting_calls(bench, seconds))
    return [
        Result(
            "idle",
            f"calls while {CONSUMERS} consumers wait for tomorrow's jobs",
            "calls/s",
            Reading((sum(calls.values()) / seconds,)),
            Target("≤", 1),
            details={name: n / seconds for name, n in calls.items()},
        )
    ]
