"""Huey: its consumer with four worker processes, as its documentation's example; the scheduler looks every second."""

from __future__ import annotations

import os
import sys
import time

import side
from huey import RedisHuey

WORKERS = 4
huey = RedisHuey("orders", url=os.environ[side.URL], results=False)


@huey.task()
def run(body: str) -> None:
    side.ran(body)


class Huey(side.Adder):
    def __init__(self, url: str) -> None: ...

    def add(self, body: str, due: float) -> None:
        run.schedule(args=(body,), delay=max(0.0, due - time.time()))


def work(_url: str, slots: int) -> None:
    words = ["-m", "huey.bin.huey_consumer", "with_huey.huey", "-k", "process", "-w", str(slots or WORKERS), "-q"]
    os.execv(sys.executable, [sys.executable, *words])


if __name__ == "__main__":
    import with_huey  # its worker knows the task by this module's name

    side.main(with_huey.Huey, with_huey.work)
