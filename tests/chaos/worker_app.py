"""The application of the ``tarry worker`` processes of a run; each child writes a history of its own.

What a handler says is the beginning of an end: that it returned means that the worker will finish, some time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

import tarry
from chaos.clients import handed_row
from chaos.history import BURY, HANDED, RAISED, RETURNED, History, clock

TOLD = json.loads(os.environ["CHAOS_WORKER"])
_history: list[History] = []
dice = random.Random(f"{TOLD['seed']}/{os.getpid()}")
worker = tarry.Worker(url=TOLD["url"], namespace="chaos", ttr=TOLD.get("ttr", 3.0), grace="2s")


def history() -> History:
    if not _history:
        _history.append(History(TOLD["folder"]))
    return _history[0]


def handler(at: int, name: str) -> None:
    @worker.on(name, concurrency=30, retry=tarry.BackOff("100ms", 2, "1s"))
    async def run(job: tarry.AsyncJob[Any]) -> None:
        asked = clock()
        history().saw(HANDED, at, asked, handed_row(job))
        cells = (int(job.id, 16), job.receipt)
        draw = dice.random()
        if draw < 0.01:
            history().saw(RAISED, at, asked, cells)
            raise ValueError("chaos")
        if draw < 0.013:
            history().saw(RAISED, at, asked, cells)
            raise tarry.Snooze("200ms")
        if draw < 0.015:
            history().intend(BURY, at, cells)
            raise tarry.Bury("chaos")
        if draw < 0.3:
            await asyncio.sleep(dice.random() * 0.02)
        history().saw(RETURNED, at, asked, cells)


for number, topic in enumerate(TOLD["topics"]):
    handler(number, topic)
