"""The application of the ``tarry worker`` processes of a run; each child writes a diary of its own.

What a handler says is the beginning of an end: that it returned means that the worker will finish, some time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from typing import Any

import tarry
from chaos.actors import handed_row
from chaos.diary import BURY, HANDED, RAISED, RETURNED, Diary, clock

TOLD = json.loads(os.environ["CHAOS_WORKER"])
_diary: list[Diary] = []
dice = random.Random(f"{TOLD['seed']}/{os.getpid()}")
worker = tarry.Worker(TOLD["url"], namespace="chaos", ttr=TOLD.get("ttr", 3.0), grace="2s")


def diary() -> Diary:
    if not _diary:
        _diary.append(Diary(TOLD["folder"]))
    return _diary[0]


def handler(at: int, name: str) -> None:
    @worker.on(name, concurrency=30, retry=tarry.BackOff("100ms", 2, "1s"))
    async def run(job: tarry.AsyncJob[Any]) -> None:
        asked = clock()
        diary().saw(HANDED, at, asked, handed_row(job))
        cells = (int(job.id, 16), job.receipt)
        draw = dice.random()
        if draw < 0.01:
            diary().saw(RAISED, at, asked, cells)
            raise ValueError("chaos")
        if draw < 0.013:
            diary().saw(RAISED, at, asked, cells)
            raise tarry.Snooze("200ms")
        if draw < 0.015:
            diary().intend(BURY, at, cells)
            raise tarry.Bury("chaos")
        if draw < 0.3:
            await asyncio.sleep(dice.random() * 0.02)
        diary().saw(RETURNED, at, asked, cells)


for number, topic in enumerate(TOLD["topics"]):
    handler(number, topic)
