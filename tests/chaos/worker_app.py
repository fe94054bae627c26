"""The application of the ``tarry worker`` processes of a run; each child writes a history of its own.

What a handler says is the beginning of an end: that it returned means that the worker will finish, some time. Jobs of the topic
``held`` take up to four seconds, and every other one finishes itself, so that its answer is known.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from typing import Any

import tarry
from chaos.clients import handed_row
from chaos.history import BURY, FINISH, HANDED, MAYBE, RAISED, REFUSED, RETURNED, History, clock

TOLD = json.loads(os.environ["CHAOS_WORKER"])
_history: list[History] = []
deaths: list[asyncio.TimerHandle] = []
dice = random.Random(f"{TOLD['seed']}/{os.getpid()}")
ttr = TOLD.get("worker_ttr", TOLD.get("ttr", 3.0))
worker = tarry.Worker(url=TOLD["url"], namespace="chaos", ttr=ttr, grace="2s")


def history() -> History:
    if not _history:
        _history.append(History(TOLD["folder"]))
    return _history[0]


def die_soon() -> None:
    """Some workers are killed by their first jobs."""
    seconds = TOLD.get("dies_s")
    if seconds == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    elif seconds is not None and not deaths:
        deaths.append(asyncio.get_running_loop().call_later(seconds, os.kill, os.getpid(), signal.SIGKILL))


async def hold(at: int, job: tarry.AsyncJob[Any], asked: int) -> None:
    await asyncio.sleep(dice.choice((0, 0.1, 0.5, 1, 2, 4)))
    cells = (int(job.id, 16), job.receipt)
    if dice.random() < 0.5:
        history().saw(RETURNED, at, asked, cells)
        return
    number = history().intend(FINISH, at, cells)
    try:
        await job.finish()
    except tarry.errors.StaleReceipt:
        history().ended(number, REFUSED)
    except Exception:
        history().ended(number, MAYBE)
        history().saw(RAISED, at, asked, cells)
        raise
    else:
        history().ended(number)


def handler(at: int, name: str) -> None:
    @worker.on(name, concurrency=TOLD.get("slots", 30), retry=tarry.BackOff("100ms", 2, "1s"))
    async def run(job: tarry.AsyncJob[Any]) -> None:
        asked = clock()
        history().saw(HANDED, at, asked, handed_row(job))
        die_soon()
        if name == "held":
            await hold(at, job, asked)
            return
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
    if topic in TOLD.get("only", TOLD["topics"]):
        handler(number, topic)
