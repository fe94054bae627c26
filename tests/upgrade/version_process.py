"""A producer, a worker or a waiting consumer of one version, as a process: ``version_process.py ROLE URL NAMESPACE NAME DIARY``.

A producer notes what was acknowledged: ``added ID``. Who works notes ``begun ID ATTEMPT NAME`` and ``done ID ATTEMPT NAME``. All
stop at SIGTERM, as their version does it. Only what both versions have is used here.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import tarry
from tarry import Worker

TTR, TAKES_S, GAP_S = "4s", 0.06, 0.03
Note = Callable[[str], None]


class Stop(BaseException):
    """SIGTERM, for a program without another way to end."""


def stop(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stop


def produce(client: tarry.Client, name: str, note: Note) -> None:
    topic, n = client.topic("orders"), 0
    while True:
        delay = 0.0 if n % 3 else 0.3
        added = topic.add({"n": n}, id=f"{name}-{n}", delay=delay)
        note(f"added {added.id}")
        n += 1
        time.sleep(GAP_S)


def wait(client: tarry.Client, name: str, note: Note) -> None:
    topic = client.topic("orders")
    while True:
        job = topic.pop(wait=30, ttr=TTR)
        if job is not None:
            with job:
                note(f"begun {job.id} {job.attempt} {name}")
                time.sleep(TAKES_S)
                note(f"done {job.id} {job.attempt} {name}")  # before it is finished: a kill may come between the two


async def work(url: str, namespace: str, name: str, note: Note) -> None:
    client: Any = tarry.AsyncClient(url, namespace=namespace)
    options: Any = {"client" if "client" in inspect.signature(Worker).parameters else "server": client}
    worker = Worker(**options, ttr=TTR, grace="5s")

    @worker.on("orders", concurrency=4)
    async def close(job: tarry.AsyncJob[Any]) -> None:
        note(f"begun {job.id} {job.attempt} {name}")
        await asyncio.sleep(TAKES_S)
        note(f"done {job.id} {job.attempt} {name}")

    await worker.run()


def main(role: str, url: str, namespace: str, name: str, journal: str) -> None:
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(line: str) -> None:
        os.write(file, f"{line}\n".encode())

    note(f"ready {name} {tarry.__file__}")
    if role == "worker":
        asyncio.run(work(url, namespace, name, note))
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        with tarry.Client(url, namespace=namespace) as client:
            (produce if role == "producer" else wait)(client, name, note)
    except Stop:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
