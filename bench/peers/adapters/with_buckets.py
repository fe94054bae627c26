"""An article's polled zsets: a hash of jobs, buckets that a timer each looks into, a list of what is ready, a time to run.

Its timers, ``add``, ``pop`` and ``finish`` one command after the other, as printed. It does not print how long a timer or a consumer
waits when there is nothing: 0.1 s here.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from typing import Any

import redis
import side

POOL, READY, BUCKETS = "job.pool", "process.queueorders", 4
TTR_MS = 60_000
PAUSE_S = 0.1


class Buckets(side.Adder):
    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(url)
        self._turn = itertools.count()

    def add(self, body: str, due: float) -> None:
        number = int(body[:8])
        job = {"id": number, "topic": "orders", "ttrTime": TTR_MS, "message": body, "retryCount": 0, "status": "DELAY"}
        self._redis.hset(POOL, str(number), json.dumps(job))
        put_into_bucket(self._redis, next(self._turn) % BUCKETS, number, int(due * 1000))


def put_into_bucket(client: Any, bucket: int, number: int, due_ms: int) -> None:
    client.zadd(f"bucket{bucket}", {json.dumps({"jodId": number, "delayDate": due_ms, "topic": "orders"}): due_ms})


def look_into_bucket(url: str, bucket: int) -> None:
    """The timer of a bucket."""
    client: Any = redis.Redis.from_url(url)
    name = f"bucket{bucket}"
    while True:
        first = client.zrange(name, 0, 0, withscores=True)
        if not first or first[0][1] > time.time() * 1000:
            time.sleep(PAUSE_S)
            continue
        element = first[0][0]
        if client.hget(POOL, str(json.loads(element)["jodId"])) is not None:
            client.lpush(READY, element)
        client.zrem(name, element)


def pop(client: Any, turn: itertools.count[int]) -> dict[str, Any] | None:
    element = client.lpop(READY)
    if element is None:
        return None
    text = client.hget(POOL, str(json.loads(element)["jodId"]))
    if text is None:
        return None
    job: dict[str, Any] = json.loads(text)
    job["status"] = "RESERVED"
    client.hset(POOL, str(job["id"]), json.dumps(job))
    put_into_bucket(client, next(turn) % BUCKETS, job["id"], int(time.time() * 1000) + job["ttrTime"])
    return job


def work(url: str, _slots: int) -> None:
    for bucket in range(BUCKETS):
        threading.Thread(target=look_into_bucket, args=(url, bucket), daemon=True).start()
    client: Any = redis.Redis.from_url(url)
    turn = itertools.count()
    while True:
        job = pop(client, turn)
        if job is None:
            time.sleep(PAUSE_S)
            continue
        side.ran(job["message"])
        client.hdel(POOL, str(job["id"]))


if __name__ == "__main__":
    side.main(Buckets, work)
