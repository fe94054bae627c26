"""Clients that wait in many slots of a Cluster: by a blocked connection, or by a tracking connection."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from redis.crc import key_slot

import tarry
from server_groups import BigCluster, until
from tarry.clients.awaited import wait_connections as awaiting
from tarry.clients.blocking import wait_connections as blocking
from tarry.values.keys import topic_keys
from until import LONGEST_S

NAMES = [f"slot-{n}" for n in range(24)]
KINDS = ["sync", "async"]


def connections(cluster: BigCluster, flag: str) -> list[list[str]]:
    """For each node that lives the ids of clients with a flag: b blocked, t told of changes."""
    found: list[list[str]] = []
    for node in cluster.nodes:
        if node.alive:
            listed = node.ask("CLIENT", "LIST")
            assert isinstance(listed, bytes)
            rows = [dict(word.split("=", 1) for word in row.split()) for row in listed.decode().splitlines()]
            found.append([row["id"] for row in rows if flag in row["flags"]])
    return found


def blocked(cluster: BigCluster) -> int:
    return sum(map(len, connections(cluster, "b")))


def tokens(topic: str) -> set[bytes]:
    keys = topic_keys("default", topic)
    return {keys.wake, keys.relay}


class Waiting:
    """A client that waits for one job of many topics, in a thread."""

    def __init__(self, kind: str, url: str, pool: ThreadPoolExecutor) -> None:
        self.kind, self.url = kind, url
        self._pool = pool
        self.client: Any = None
        self.loop: Any = None
        self.begun = threading.Event()

    def pop(self, *names: str) -> Future[tuple[str, Any]]:
        return self._pool.submit(self._blocking if self.kind == "sync" else self._awaiting, *names)

    def _blocking(self, *names: str) -> tuple[str, Any]:
        with tarry.Client(self.url, patience="60s") as self.client:
            self.begun.set()
            job = self.client.pop(*names, wait=LONGEST_S)
            assert job is not None
            self.client.topic(job.topic).finish(job)
            return job.topic, job.body

    def _awaiting(self, *names: str) -> tuple[str, Any]:
        async def story() -> tuple[str, Any]:
            self.loop = asyncio.get_running_loop()
            async with tarry.AsyncClient(self.url, patience="60s") as self.client:
                self.begun.set()
                job = await self.client.pop(*names, wait=LONGEST_S)
                assert job is not None
                await self.client.topic(job.topic).finish(job)
                return job.topic, job.body

        return asyncio.run(story())

    def lines(self) -> dict[int, Any]:
        """The lines on which it waits, by slot."""
        return {
            slot: waiter._connection
            for slot, waiter in self.client.engine._waiters.items()
            if waiter._connection is not None and waiter._connection.keys
        }

    def tracked_slots(self) -> set[int]:
        kinds = (blocking.TrackedWait, awaiting.TrackedWait)
        return {slot for slot, line in self.lines().items() if isinstance(line, kinds)}

    def until_all_wait(self, many: int) -> None:
        assert self.begun.wait(LONGEST_S)
        until("everybody waits", lambda: len(self.lines()) == many and all(map(settled, self.lines().values())))


def settled(line: Any) -> bool:
    """Whether the node has said that it listens."""
    if not isinstance(line, (blocking.TrackedWait, awaiting.TrackedWait)):
        return True
    orders = line._tracking._loop.state
    return not orders.awaits_reply and orders._tracked.issuperset(line.keys)


@contextmanager
def waiting(
    kind: str, cluster: BigCluster, *names: str, many: int | None = None, url: str = ""
) -> Iterator[tuple[Waiting, Any]]:
    with ThreadPoolExecutor(1) as pool:
        one = Waiting(kind, url or cluster.url, pool)
        popped = one.pop(*names)
        one.until_all_wait(many or len(names))
        yield one, popped


def slot_of(topic: str) -> int:
    return key_slot(topic_keys("default", topic).due)


def tracked_topic(one: Waiting, is_good: Callable[[str], bool] = lambda name: True) -> str:
    return next(name for name in NAMES if slot_of(name) in one.tracked_slots() and is_good(name))


def serve(cluster: BigCluster, topic: str, popped: Any) -> None:
    with tarry.Client(cluster.url, patience="60s") as other:
        other.topic(topic).add("tea")
    assert popped.result(LONGEST_S) == (topic, "tea")
