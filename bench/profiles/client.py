"""``python -m bench.profiles.client URL``: a client that runs what it is told on stdin, ``add 200``, and then prints the
processor time that it has used, ``done 1.2 0.3``: its own and the kernel's."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from typing import Any

import redis

import tarry
from bench.harness import BODY, DAY_S

MANY = 100
EMPTY = "return 1"
REASON = "TimeoutError: the bank did not answer"


class Operations:
    """One operation a method; each is called as often as the parent says."""

    def __init__(self, client: tarry.Client, url: str) -> None:
        self._topic = client.topic("orders")
        self._jobs: list[Any] = []
        self._batches: list[Any] = []
        self._redis = redis.Redis.from_url(url)
        self._empty = self._redis.script_load(EMPTY)
        keys = list(self._topic.verbs.context.keys)
        self._words = (len(keys), *keys, *[b"100000"] * 6)

    def empty_script(self) -> None:
        """The yardstick: redis-py calls a script that does nothing, with as many keys and arguments as an add."""
        self._redis.evalsha(self._empty, *self._words)

    def add_for_tomorrow(self) -> None:
        self._topic.add(BODY, delay=DAY_S)

    def add(self) -> None:
        self._topic.add(BODY)

    def pop(self) -> None:
        self._jobs.append(self._topic.pop())

    def touch(self) -> None:
        self._topic.touch(self._jobs[-1])

    def release(self) -> None:
        """A failed attempt, with a delay until the next one."""
        self._topic.release(self._jobs.pop(), delay=DAY_S, reason=REASON)

    def finish(self) -> None:
        self._topic.finish(self._jobs.pop())

    def add_many(self) -> None:
        self._topic.add_many([BODY] * MANY)

    def pop_many(self) -> None:
        self._batches.append(self._topic.pop_many(MANY))

    def touch_many(self) -> None:
        self._topic.touch_many(self._batches[-1])

    def release_many(self) -> None:
        self._topic.release_many(self._batches.pop(), delay=DAY_S, reason=REASON)

    def finish_many(self) -> None:
        self._topic.finish_many(self._batches.pop())


def main(url: str) -> None:
    with tarry.Client(url) as client:
        client.topics()  # it connects
        operations = Operations(client, url)
        print("started", flush=True)
        for line in sys.stdin:
            name, number = line.split()
            operation: Callable[[], None] = getattr(operations, name)
            for _ in range(int(number)):
                operation()
            used = resource.getrusage(resource.RUSAGE_SELF)
            print("done", used.ru_utime, used.ru_stime, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
