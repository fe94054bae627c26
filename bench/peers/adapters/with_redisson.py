"""Redisson's RDelayedQueue, as the articles print its scripts and its QueueTransferTask; ``take`` removes the element."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import redis
import side

from bench.redisson import BATCH, KEYS, OFFER, TRANSFER

CHANNEL = "redisson_delay_queue_channel:{orders}"
AT_ONCE_MS = 10
"""QueueTransferTask does not start a timer for less."""


class Redisson(side.Adder):
    def __init__(self, url: str) -> None:
        self._offer = redis.Redis.from_url(url).register_script(OFFER)

    def add(self, body: str, due: float) -> None:
        keys = (KEYS.ready, KEYS.timeouts, KEYS.order, CHANNEL)
        self._offer(keys, (int(due * 1000), random.getrandbits(63), body))


class QueueTransferTask:
    """Moves due elements to the list, when its timer ends or the channel tells of an earlier one."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url, socket_timeout=None)
        self._transfer = self._redis.register_script(TRANSFER)
        self._timer: threading.Timer | None = None
        self._lock = threading.RLock()

    def start(self) -> None:
        listener: Any = self._redis.pubsub()
        listener.subscribe(CHANNEL)
        for message in listener.listen():
            if message["type"] == "subscribe":
                self.push()
            else:
                self.schedule(float(message["data"]))

    def schedule(self, start_ms: float) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            delay_ms = start_ms - time.time() * 1000
            if delay_ms > AT_ONCE_MS:
                self._timer = threading.Timer(delay_ms / 1000, self.push)
                self._timer.daemon = True
                self._timer.start()
                return
        self.push()

    def push(self) -> None:
        while True:  # in Redisson each transfer starts the next one; here it is a loop
            next_ms: Any = self._transfer((KEYS.ready, KEYS.timeouts, KEYS.order), (int(time.time() * 1000), BATCH))
            if next_ms is None:
                return None
            if float(next_ms) - time.time() * 1000 > AT_ONCE_MS:
                return self.schedule(float(next_ms))


def work(url: str, _slots: int) -> None:
    threading.Thread(target=QueueTransferTask(url).start, daemon=True).start()
    client: Any = redis.Redis.from_url(url, decode_responses=True, socket_timeout=None)
    while True:
        _, body = client.blpop([KEYS.ready])
        side.ran(body)


if __name__ == "__main__":
    side.main(Redisson, work)
