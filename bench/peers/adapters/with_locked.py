"""An article's zset under a lock of Redis: ``push`` and ``poll`` as it prints them. What ``poll`` took is gone from the server."""

from __future__ import annotations

import json
import time
from typing import Any

import redis
import side

QUEUE, LOCK = "d_q_p:orders", "d_q_l:orders"
LOCK_S = 2000
WAIT_S = 0.05
TIMEOUT_S = 1.0
COUNT = 100


class Locked(side.Adder):
    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)
        self.add_many = self._push

    def add(self, body: str, due: float) -> None:
        self._push([body], due)

    def _push(self, bodies: list[str], due: float) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for body in bodies:
                pipe.zadd(QUEUE, {json.dumps(body): int(due * 1000)})
            pipe.execute()


def poll(client: Any) -> list[str]:
    waited = 0.0
    while not client.set(LOCK, "1", nx=True, ex=LOCK_S):
        time.sleep(WAIT_S)
        waited += WAIT_S
        if waited >= TIMEOUT_S:
            return []
    try:
        found = client.zrangebyscore(QUEUE, 0, int(time.time() * 1000), start=0, num=COUNT, withscores=True)
        if found:
            client.zrem(QUEUE, *(element for element, _ in found))
        return [json.loads(element) for element, _ in found]
    finally:
        client.delete(LOCK)


def work(url: str, _slots: int) -> None:
    client: Any = redis.Redis.from_url(url)
    while True:
        bodies = poll(client)
        for body in bodies:
            side.ran(body)
        if not bodies:
            time.sleep(WAIT_S)  # the article says nothing about it; without a pause it would fill a core


if __name__ == "__main__":
    side.main(Locked, work)
