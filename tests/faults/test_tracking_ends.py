"""A consumer that waits by tracking ends: closed, interrupted or cancelled, or another process takes the token. No
consumer is left waiting."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import tarry
from faults.blocked_clients import async_story, waiting
from faults.test_interrupted import Interrupted
from faults.tracking import is_tracking, tracking_connections, until_tracking
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until

pytestmark = pytest.mark.usefixtures("woken")
HANG_S = 10


OTHER_PROCESS = """
import sys, tarry
from tarry.connections import connection_limit
connection_limit.UNLIMITED.maximum = 0
with tarry.Client(sys.argv[1]) as client:
    topic = client.topic(sys.argv[2])
    while (job := topic.pop(wait=600)) is not None:
        topic.finish(job)
        if job.body == "end":
            break
        print(job.body, job.attempt, flush=True)
"""


@pytest.mark.slow
def test_two_processes_that_track_one_token_take_it_once(
    running: ServerProcess, at: Any, woken: list[bytes | None], python_command: Path
) -> None:
    child = subprocess.Popen(
        [python_command, "-c", OTHER_PROCESS, running.url, at.name], stdout=subprocess.PIPE, text=True
    )
    taken: list[tuple[Any, int]] = []
    with tarry.Client(running.url) as client, child:
        topic = client.topic(at.name)

        def work() -> None:
            while (job := topic.pop(wait=LONGEST_S)) is not None and job.body != "end":
                topic.finish(job)
                taken.append((job.body, job.attempt))
            assert job is not None
            topic.finish(job)

        thread = threading.Thread(target=work)
        thread.start()
        until(lambda: len(tracking_connections(running)) == 2)
        for n in range(20):
            at.add(n)
            until(lambda n=n: at.stats().finished == n + 1)  # type: ignore[misc]
        at.add_many(["end", "end"])
        thread.join(HANG_S)
        out, _ = child.communicate(timeout=LONGEST_S)
    theirs = [tuple(map(int, row.split())) for row in out.splitlines()]
    assert sorted([*taken, *theirs]) == [(n, 1) for n in range(20)]
    assert at.stats().watching == 0


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Interrupts the main thread, which runs the tests."""

    def strike(number: int, frame: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, strike)
    yield lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("followers", [0, 3])
def test_followers_take_over_when_a_tracking_leader_is_interrupted(
    followers: int, interrupt: Callable[[], None], running: ServerProcess, at: Any
) -> None:
    pops: list[Any] = []
    with ThreadPoolExecutor(8) as pool, tarry.Client(running.url) as client:
        topic = client.topic(at.name)

        def conduct() -> None:
            until(lambda: waiting(client) == 1 and is_tracking(client))
            pops.extend(pool.submit(topic.pop, wait=None) for _ in range(followers))
            until(lambda: waiting(client) == 1 + followers)
            interrupt()

        conductor = pool.submit(conduct)
        with pytest.raises(Interrupted):
            topic.pop(wait=None)
        conductor.result(HANG_S)
        at.add_many(range(followers))
        assert sorted(pop.result(HANG_S).body for pop in pops) == list(range(followers))
        until(lambda: not tracking_connections(running))
        assert at.stats().watching == 0


def test_closing_the_client_ends_pops_on_a_tracking_connection(running: ServerProcess, at: Any, kind: str) -> None:
    if kind == "sync":
        client = tarry.Client(running.url)
        with ThreadPoolExecutor(8) as pool:
            pops = [pool.submit(client.topic(at.name).pop, wait=None) for _ in range(8)]
            until(lambda: waiting(client) == 8 and is_tracking(client))
            client.close()
            for pop in pops:
                with pytest.raises(tarry.Unavailable, match="closed"):
                    pop.result(HANG_S)
    else:

        async def story() -> None:
            client = tarry.AsyncClient(running.url)
            pops = [asyncio.ensure_future(client.topic(at.name).pop(wait=None)) for _ in range(8)]
            await until_tracking(client)
            await client.close()
            for answer in await asyncio.gather(*pops, return_exceptions=True):
                assert isinstance(answer, tarry.Unavailable)

        asyncio.run(story())
    until(lambda: not tracking_connections(running))
    assert at.stats().watching == 0


def test_a_cancelled_tracking_pop_gives_its_seat_back(running: ServerProcess, at: Any) -> None:
    at.add("tea", delay="5s")

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        for _ in range(20):
            pop = asyncio.ensure_future(topic.pop(wait=None))
            await asyncio.sleep(0.003)
            pop.cancel()
            await asyncio.wait({pop})
        await client.close()

    async_story(running.url, story)
    assert at.stats().watching == 0
    assert (at.stats().delayed, at.stats().reserved) == (1, 0)
