"""An application for ``tarry worker worker_app:worker``. Job bodies say what to do; the file DIARY tells what was done."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path

import tarry
from tarry.worker import liveness

liveness.START_S = float(os.environ.get("START_S", liveness.START_S))
worker = tarry.Worker(
    ttr=os.environ.get("TTR", "10m"),
    grace=os.environ.get("GRACE", "10s"),
    release_on_disconnect=bool(os.environ.get("RELEASE", "yes")),
)


def note(*words: object) -> None:
    with Path(os.environ["DIARY"]).open("a") as file:  # one write: O_APPEND keeps the lines of many processes whole
        file.write(" ".join(map(str, words)) + "\n")


@worker.on("orders", concurrency=4)
async def close(job: tarry.AsyncJob[str]) -> None:
    note("taken", job.id, job.attempt, os.getpid())
    if job.body == "stuck":
        await asyncio.Event().wait()
    if job.body == "slow":
        await asyncio.sleep(1)
    if job.body == "poison" and job.attempt < 3:
        os.abort()
    if job.body == "block":
        time.sleep(36_000)  # noqa: ASYNC251  # as careless people do
    if job.body.startswith("hold the interpreter until "):
        pipe = job.body.removeprefix("hold the interpreter until ")
        ctypes.PyDLL(None).open(pipe.encode(), os.O_RDONLY)  # unlike CDLL, PyDLL keeps the GIL; open waits for a writer
    note("closed", job.id)


@worker.on("plain", concurrency=2)
def plain(job: tarry.Job[str]) -> None:
    note("taken", job.id, job.attempt, os.getpid())
    if job.body == "stuck":
        time.sleep(36_000)
    note("closed", job.id)


@worker.on("many", batch=10)
async def many(jobs: list[tarry.AsyncJob[str]]) -> None:
    for job in jobs:
        note("taken", job.id, job.attempt, os.getpid())
    if any(job.body == "stuck" and job.attempt == 1 for job in jobs):
        await asyncio.Event().wait()
    for job in jobs:
        note("closed", job.id)


def made() -> tarry.Worker:
    return worker


nothing = 7
