"""Locks: acquired and released by one client, and handed over while fifty wait; beside redis-py's Lock and kazoo's.

    released ──▶ acquired by the next        a hand-over: from the call of release to the return of the next acquire

Fifty threads of ten clients acquire the same lock again and again, and hold it for a millisecond. ZooKeeper is started for
its lines, where its package is installed.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis

import tarry
from bench.harness import Bench
from bench.results import Reading, Result, Target, Turn, rates
from bench.zookeeper import ZooKeeper, free_port, missing

CLIENTS, EACH = 10, 5
HELD_S = 0.001


def locks(bench: Bench) -> list[Result]:
    found = _on_redis(bench)
    if not missing():
        found += _on_zookeeper(bench)
    return found


def _on_redis(bench: Bench) -> list[Result]:
    with ExitStack() as stack:
        ours = [stack.enter_context(tarry.Client(bench.url)) for _ in range(CLIENTS)]
        theirs = [redis.Redis(unix_socket_path=bench.socket) for _ in range(CLIENTS)]
        results = [
            _alone(bench, "Redis", "redis-py's Lock", ours[0].lock("alone"), theirs[0].lock("alone too")),
            _handed_over(
                bench,
                "Redis",
                "redis-py's Lock",
                [client.lock("wanted") for client in ours for _ in range(EACH)],
                [client.lock("wanted too", thread_local=True) for client in theirs for _ in range(EACH)],
            ),
        ]
        before = bench.calls()
        for _ in range(100):
            with ours[0].lock("counted"):
                pass
        after = bench.calls()
        sent = sum(after[name][0] - before.get(name, (0, 0.0))[0] for name in ("evalsha", "eval") if name in after)
        results.append(Result("locks", "commands to acquire and release a lock", "commands", Reading((sent / 100,))))
        for client in theirs:
            client.close()
    return results


def _on_zookeeper(bench: Bench) -> list[Result]:
    from kazoo.client import KazooClient

    from tarry import zookeeper

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tarry-", dir="/tmp")))
        server = ZooKeeper(folder, free_port())
        stack.callback(server.stop)
        server.start()
        ours = [stack.enter_context(zookeeper.Client(server.hosts)) for _ in range(CLIENTS)]
        theirs = [KazooClient(server.hosts) for _ in range(CLIENTS)]
        for client in theirs:
            client.start()
            stack.callback(client.close)
            stack.callback(client.stop)
        return [
            _alone(bench, "ZooKeeper", "kazoo's Lock", ours[0].lock("alone"), theirs[0].Lock("/alone")),
            _handed_over(
                bench,
                "ZooKeeper",
                "kazoo's Lock",
                [client.lock("wanted") for client in ours for _ in range(EACH)],
                [client.Lock("/wanted") for client in theirs for _ in range(EACH)],
            ),
        ]


def _alone(bench: Bench, where: str, yardstick: str, ours: Any, theirs: Any) -> Result:
    count = bench.size(500, 200, 20)

    def side(lock: Any) -> Callable[[], Turn]:
        def turn() -> Turn:
            with bench.turn(count) as taken:
                for _ in range(count):
                    with lock:
                        pass
            return taken()

        return turn

    mine, other = bench.turns(side(ours), side(theirs), times=bench.size(4, 3, 1))
    measure = f"lock on {where}, acquired and released ({yardstick})"
    return Result("locks", measure, "pairs/s", rates(mine), Target("≥", 1, "ratio"), rates(other))


def _handed_over(bench: Bench, where: str, yardstick: str, ours: list[Any], theirs: list[Any]) -> Result:
    count = bench.size(600, 300, 60)
    mine, other = [], []
    for number in range(bench.repeat + 1):
        for wanted, record in ((ours, mine), (theirs, other)):
            late = _late(wanted, count)
            if number:
                record.append(sorted(late)[int(len(late) * 0.99)] * 1000)
    measure = f"lock on {where}, hand-over while {len(ours)} wait, p99 ({yardstick})"
    return Result("locks", measure, "ms", Reading(tuple(mine)), Target("≤", 1, "ratio"), Reading(tuple(other)))


def _late(wanted: list[Any], count: int) -> list[float]:
    """Seconds of each hand-over."""
    late: list[float] = []
    released = 0.0
    left = threading.Semaphore(count)

    def want(lock: Any) -> None:
        nonlocal released
        while left.acquire(blocking=False):
            with lock:
                if released:
                    late.append(time.perf_counter() - released)
                time.sleep(HELD_S)
                released = time.perf_counter()

    threads = [threading.Thread(target=want, args=(lock,)) for lock in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return late
