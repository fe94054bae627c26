"""Questions to a server that does not answer yet: tried again, logged alike by both clients, and left behind when cancelled."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import tarry
from faults.proxy import Proxy
from loops import LOOPS, run
from tarry.clients import replies
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.patience import Patience
from until import until

PING = (b"PING",)


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
def test_a_question_to_all_servers_is_tried_again_and_says_so(
    own_server: Callable[..., ServerProcess], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.INFO, "tarry")
    proxy = Proxy(None, own_server(port=True).address)
    proxy.refusing = True
    url = f"redis://{proxy.address}"

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if "Trying again for 600 s" in record.getMessage()]

    async def awaited() -> list[Any]:
        async with tarry.AsyncClient(url, patience="10m") as client:
            asking = asyncio.ensure_future(client.engine.runner.ask_all(lambda server: server.exchange([PING])))
            await asyncio.to_thread(until, told, "it is logged")
            proxy.refusing = False
            return list((await asking).values())

    async def in_thread() -> list[Any]:
        with tarry.Client(url, patience="10m") as client:
            asking = asyncio.ensure_future(
                asyncio.to_thread(client.engine.runner.ask_all, lambda server: server.exchange([PING]))
            )
            await asyncio.to_thread(until, told, "it is logged")
            proxy.refusing = False
            return list((await asking).values())

    try:
        assert asyncio.run(awaited() if kind == "awaited" else in_thread()) == [[b"PONG"]]
    finally:
        proxy.close()


@pytest.mark.parametrize("kind", ["blocking", "awaited"])
def test_a_server_that_answers_again_is_logged_by_a_call_that_waited(
    own_server: Callable[..., ServerProcess],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """If it waited for a second; here for any time."""
    monkeypatch.setattr("tarry.clients.replies.AWAY_S", 0.0)
    caplog.set_level(logging.INFO, "tarry")
    proxy = Proxy(None, own_server(port=True).address)
    proxy.refusing = True
    url = f"redis://{proxy.address}"

    def told(words: str) -> list[str]:
        return [record.getMessage() for record in caplog.records if words in record.getMessage()]

    async def story() -> None:
        async with tarry.AsyncClient(url, patience="10m") as client:
            with tarry.Client(url, patience="10m") as blocking:
                topic = blocking.topic("orders")
                awaited = client.topic("orders").stats() if kind == "awaited" else asyncio.to_thread(topic.stats)
                call = asyncio.ensure_future(awaited)
                await asyncio.to_thread(until, lambda: told("Trying again for 600 s"), "it is logged")
                proxy.refusing = False
                await call
                await client.topic("orders").stats()

    try:
        asyncio.run(story())
    finally:
        proxy.close()
    [line] = told("answers again")
    assert line.startswith(f"The server at {url} answers again; a call waited ")


def test_of_all_calls_that_wait_at_the_same_time_one_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(replies, "time", SimpleNamespace(monotonic=lambda: now))
    calls = [Patience().start(lambda: now) for _ in range(3)]
    now = 0.9
    replies.log_return(calls[0], "redis://one")
    assert caplog.messages == [], "that was short"
    now = 3.0
    for call in calls:
        replies.log_return(call, "redis://one")
    replies.log_return(calls[0], "redis://two")
    now = 3.5
    again = Patience().start(lambda: now)
    now = 9.0
    replies.log_return(again, "redis://one")
    assert caplog.messages == [
        f"The server at redis://{name} answers again; a call waited {waited} s for it."
        for name, waited in (("one", 3.0), ("two", 3.0), ("one", 5.5))
    ]


@LOOPS
def test_a_connection_that_fails_after_its_caller_was_cancelled_is_no_error_of_asyncio(loop: str) -> None:
    """``run`` fails when asyncio reports an exception that nobody has looked at."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]

        async def story() -> None:
            async with tarry.AsyncClient(f"redis://127.0.0.1:{port}", patience="10m") as client:
                asking = asyncio.ensure_future(client.engine.runner.ask_all(lambda server: server.exchange([PING])))
                line, _ = await asyncio.to_thread(door.accept)
                asking.cancel()
                await asyncio.wait({asking})
                line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it ends with a reset
                line.close()

        run(loop, story())


@LOOPS
def test_servers_that_are_not_found_after_their_caller_was_cancelled_are_no_error_of_asyncio(loop: str) -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as door:
            url = f"redis+cluster://127.0.0.1:{door.getsockname()[1]}"
        async with tarry.AsyncClient(url, patience="50ms") as client:
            asking = asyncio.ensure_future(client.topic("a").stats())
            await asyncio.sleep(0)
            assert client.engine.runner._opening is not None, "it looks for the nodes"
            asking.cancel()
            await asyncio.wait({asking})

    run(loop, story())
