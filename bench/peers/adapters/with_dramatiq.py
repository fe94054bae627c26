"""Dramatiq: its command as by default, a process a core with 8 threads each; Redis is the broker."""

from __future__ import annotations

import os
import sys
import time

import dramatiq
import side
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ[side.URL]))


@dramatiq.actor(queue_name="orders", time_limit=side.HOLD_S * 1000)
def run(body: str) -> None:
    side.ran(body)


class Dramatiq(side.Adder):
    def __init__(self, url: str) -> None: ...

    def add(self, body: str, due: float) -> None:
        run.send_with_options(args=(body,), delay=max(0, round((due - time.time()) * 1000)))


def work(_url: str, slots: int) -> None:
    words = [sys.executable, "-m", "dramatiq", "with_dramatiq"]
    os.execv(sys.executable, [*words, "--processes", str(slots), "--threads", str(slots)] if slots else words)


if __name__ == "__main__":
    side.main(Dramatiq, work)
