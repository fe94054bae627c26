"""Connections that are reset while idle: uvloop's error for a closed transport means a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tarry
from faults.proxy import Proxy
from loops import LOOPS, run
from tarry.connections.background import failures
from tarry.connections.embedded.server_process import ServerProcess
from tarry.connections.faults import ConnectionLost, fault_of, lost_by

ROUNDS = 30


@pytest.fixture
def proxy(own_server: Callable[..., ServerProcess]) -> Iterator[Proxy]:
    proxy = Proxy(None, own_server(port=True).address)
    yield proxy
    proxy.close()


@pytest.mark.slow
@LOOPS
def test_calls_are_repeated_after_a_connection_reset(proxy: Proxy, loop: str) -> None:
    async def story() -> None:
        async with tarry.AsyncClient(f"redis://{proxy.address}") as client:
            topic = client.topic("a")
            for number in range(ROUNDS):
                added = asyncio.gather(*[topic.add(number, id=f"{number}-{n}") for n in range(3)])
                for _ in range(number % 7):
                    await asyncio.sleep(0)  # at another moment of the exchange each time
                proxy.reset_all()
                await added
            assert (await topic.stats()).ready == 3 * ROUNDS

    run(loop, story())


@pytest.mark.slow
@LOOPS
def test_consumers_of_topics_and_queues_survive_connection_resets(proxy: Proxy, loop: str) -> None:
    async def consume(heard: list[Any], take: Callable[[], Any]) -> None:
        while len(heard) < ROUNDS:
            heard += [found] if (found := await take()) is not None else []

    async def story() -> None:
        url = f"redis://{proxy.address}"
        host, port = proxy.target
        async with tarry.AsyncClient(url) as client, tarry.AsyncClient(f"redis://{host}:{port}") as direct:
            topic, queue = client.topic("b"), client.blocking_queue("q", codec="json")
            jobs: list[Any] = []
            values: list[Any] = []

            async def pop() -> Any:
                job = await topic.pop(wait=60)
                if job is not None:
                    await job.finish()
                return job

            consumers = [
                asyncio.ensure_future(consume(jobs, pop)),
                asyncio.ensure_future(consume(values, lambda: queue.poll(wait=60))),
            ]
            for number in range(ROUNDS):
                proxy.reset_all()
                await direct.topic("b").add(number, ttr="1h")
                await direct.blocking_queue("q", codec="json").offer(number)
                while min(len(jobs), len(values)) <= number - 3:  # what came in a broken line may wait
                    done, _ = await asyncio.wait(consumers, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
                    for ended in done:
                        ended.result()
            for one in consumers:
                one.cancel()
            await asyncio.wait(consumers)

    run(loop, story())


def test_what_uvloop_raises_on_a_closed_transport_means_a_lost_connection(running: ServerProcess) -> None:
    async def story() -> None:
        assert isinstance(running.address, str)
        _, writer = await asyncio.open_unix_connection(running.address)
        writer.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        with pytest.raises(RuntimeError) as raised:
            writer.write(b"PING\r\n")
        assert type(fault_of(raised.value)) is ConnectionLost
        assert type(lost_by(raised.value, "a test")) is ConnectionLost
        assert "a test" not in failures.counts

    run("uvloop", story())
