"""No server answers the first call: every verb retries, and then raises an error that says so."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack
from typing import Any

import pytest

import servers
import tarry
from tarry.core.patience import RetryDelay

URLS = ["redis://127.0.0.1:{}", "redis+cluster://127.0.0.1:{}", "redis+sentinel://127.0.0.1:{}/master"]


@pytest.fixture(params=URLS, ids=["server", "cluster", "sentinel"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.param).format(servers.free_ports(1)[0])


@pytest.mark.parametrize("wait", [0, 5])
def test_a_pop_without_a_server_raises_unavailable(url: str, wait: float) -> None:
    with tarry.Client(url, patience="50ms") as client, pytest.raises(tarry.Unavailable, match="did not answer"):
        client.pop("letters", wait=wait)


@pytest.mark.parametrize("wait", [0, 5])
def test_an_async_pop_without_a_server_raises_unavailable(url: str, wait: float) -> None:
    async def pop() -> Any:
        async with tarry.AsyncClient(url, patience="50ms") as client:
            return await client.pop("letters", wait=wait)

    with pytest.raises(tarry.Unavailable, match="did not answer"):
        asyncio.run(pop())


@pytest.mark.slow
def test_a_client_that_starts_before_the_server_is_served(caplog: pytest.LogCaptureFixture) -> None:
    """A Cluster of one process that starts while the client is already patient."""
    caplog.set_level(logging.ERROR)
    port = servers.free_ports(1)[0]

    async def story() -> str:
        async with tarry.AsyncClient(f"redis+cluster://127.0.0.1:{port}", patience="30s") as client:
            early = asyncio.create_task(client.topic("letters").add("tea", id="tea"))
            await asyncio.sleep(0)
            binary, options = servers.valkey_binary(), ("--cluster-enabled", "yes")
            with ExitStack() as stack:
                later = stack.enter_context  # in a thread: the loop goes on asking
                running = await asyncio.to_thread(later, servers.server(binary, port=port, options=options))
                running.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
                return (await early).id

    assert asyncio.run(story()) == "tea"


def test_the_pause_after_each_failure_is_twice_as_long() -> None:
    delay = RetryDelay(1.0, 5.0)
    assert [delay.next_delay() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    delay.reset()
    assert delay.next_delay() == 1.0
