"""A topic is purged while consumers wait or are killed while they wait: no key is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

import tarry
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.keys import part_key, topic_keys
from until import until
from warm import WarmTarry

WAITS = "import sys, tarry; client = tarry.Client(sys.argv[1]); client.topic('orders').pop(wait='1h')"
KEYS = topic_keys("default", "orders")


@pytest.fixture
def running(own_server: Callable[..., ServerProcess]) -> ServerProcess:
    return own_server()


@pytest.fixture
def server(running: ServerProcess) -> Iterator[Any]:
    with redis.Redis.from_url(running.url) as raw:
        yield raw


def left(server: Any) -> set[bytes]:
    return set(server.keys("*orders*"))


@pytest.mark.slow
@pytest.mark.parametrize("delay", ["9s", "1h"])
def test_a_purge_removes_the_seats_of_killed_consumers(
    running: ServerProcess, server: Any, delay: str, tarry_command: WarmTarry, tmp_path: Path
) -> None:
    (waits := tmp_path / "waits.py").write_text(WAITS)
    with ExitStack() as stack, tarry.Client(running.url) as client:
        topic = client.topic("orders")
        waiting = [tarry_command.start_program(waits, running.url) for _ in range(3)]
        for one in waiting:
            stack.callback(one.kill)
        until(lambda: server.info("clients")["blocked_clients"] == 3)
        topic.add("tea", delay="9s")
        until(lambda: server.exists(KEYS.watch))
        for one in waiting:
            one.kill()
            one.wait()
        assert server.exists(KEYS.watch)
        topic.reschedule(topic.list().jobs[0].id, delay=delay)
        topic.purge()
        assert left(server) == {KEYS.meta}


@pytest.mark.parametrize("state", ["delayed", None])
def test_a_consumer_waiting_during_a_purge_gets_later_jobs(
    running: ServerProcess, server: Any, state: tarry.types.State | None
) -> None:
    with tarry.Client(running.url) as client, ThreadPoolExecutor(3) as pool:
        topic = client.topic("orders")
        topic.add("tea", delay="9s")
        waiting = [pool.submit(topic.pop, wait=60) for _ in range(3)]
        until(lambda: server.exists(KEYS.watch))
        topic.purge(state)
        assert not server.exists(KEYS.watch, KEYS.wake, KEYS.relay)
        for number in range(3):
            topic.add(number)
        assert sorted(job.body for job in (one.result() for one in waiting) if job and job.finish() is None) == [
            0,
            1,
            2,
        ]
        topic.purge()
        assert left(server) <= {KEYS.meta, part_key(KEYS, "minutes")}, "counters, and the minutes of the last day"
