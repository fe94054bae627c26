"""A server that does not answer at all, and an event loop that was blocked: waits end in time, and no answer is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tarry
from tarry.connections import address
from tarry.connections.embedded.server_process import ServerProcess

WAIT_S, PATIENCE_S = 0.5, 1.0
SOON_S = WAIT_S + PATIENCE_S + 30.0
"""With what a busy machine adds. One answer more than there may be would take a minute."""
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def long_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "ANSWER_TIMEOUT_S", 60.0)


@pytest.fixture
def frozen(own_server: Callable[..., ServerProcess]) -> Iterator[tuple[str, Callable[[], None]]]:
    running = own_server()
    yield running.url, running.freeze
    running.resume()


WAITS: dict[str, Callable[[Any], Any]] = {
    "a pop": lambda client: client.topic("orders").pop(wait=WAIT_S),
    "a pop over several topics": lambda client: client.pop("orders", "letters", "bills", wait=WAIT_S),
    "a poll of a shared queue": lambda client: client.blocking_queue("told").poll(wait=WAIT_S),
    "a lock": lambda client: client.lock("told", wait=WAIT_S).acquire(),
}

CASES = [*((what, True) for what in WAITS), ("a pop over several topics", False), ("a lock", False)]


def warm(client: Any) -> list[Any]:
    """What a client has done before the server stands still."""
    due_soon = {"delay": "2s"}  # so that it waits in a seat, which it would hand back
    return [
        client.topic("orders").add("tea", **due_soon), client.topic("letters").add("tea", **due_soon),
        client.topic("bills").stats(), client.blocking_queue("told").size(), client.lock("warm").state(),
    ]  # fmt: skip


@pytest.mark.parametrize(("what", "met"), CASES)
def test_a_blocking_wait_on_a_silent_server_ends_after_wait_and_patience(
    frozen: tuple[str, Callable[[], None]], what: str, met: bool
) -> None:
    url, freeze = frozen
    with tarry.Client(url, patience=PATIENCE_S) as client:
        if met:
            warm(client)
        freeze()
        began = time.monotonic()
        with pytest.raises(tarry.Unavailable, match="did not answer"):
            WAITS[what](client)
        assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize(("what", "met"), CASES)
def test_an_async_wait_on_a_silent_server_ends_after_wait_and_patience(
    frozen: tuple[str, Callable[[], None]], what: str, met: bool
) -> None:
    url, freeze = frozen

    async def story() -> None:
        async with tarry.AsyncClient(url, patience=PATIENCE_S) as client:
            if met:
                await asyncio.gather(*warm(client))
            freeze()
            began = time.monotonic()
            with pytest.raises(tarry.Unavailable, match="did not answer"):
                await WAITS[what](client)
            assert time.monotonic() - began < SOON_S

    asyncio.run(story())


def test_a_running_wait_ends_when_the_server_freezes(frozen: tuple[str, Callable[[], None]]) -> None:
    url, freeze = frozen

    async def story() -> None:
        async with tarry.AsyncClient(url, patience=PATIENCE_S) as client:
            topic = client.topic("orders")
            await topic.add("tea", delay="1h")
            waits = asyncio.create_task(topic.pop(wait=1))
            blocking = tarry.Client(url, patience=PATIENCE_S)
            also = asyncio.create_task(asyncio.to_thread(blocking.pop, "orders", wait=1))
            await asyncio.sleep(0.5)
            freeze()
            began = time.monotonic()
            answers = await asyncio.gather(waits, also, return_exceptions=True)
            assert [type(answer) for answer in answers] == [tarry.Unavailable] * 2
            assert time.monotonic() - began < SOON_S
            await asyncio.to_thread(blocking.close)

    asyncio.run(story())


def test_an_answer_that_arrives_while_the_loop_is_blocked_is_not_lost(own_server: Callable[..., ServerProcess]) -> None:
    """A handler that blocks its loop for longer than an answer may take: the server had answered in time."""
    url = own_server().url

    async def story(turns: int) -> None:
        async with tarry.AsyncClient(url + "?socket_timeout=0.5") as client:
            topic = client.topic("orders")
            job = await topic.add("tea", id=str(turns))
            popped = asyncio.create_task(topic.pop())
            for _ in range(turns):
                await asyncio.sleep(0)
            time.sleep(0.7)  # noqa: ASYNC251  # it is what this is about
            found = await popped
            assert found is not None, f"lost after {turns} turns"
            assert found.id == job.id
            await topic.finish(found)

    for turns in (2, 3, 6, 7):
        asyncio.run(story(turns))


def test_a_confirmation_has_its_full_time_despite_short_patience(own_server: Callable[..., ServerProcess]) -> None:
    """It is said within two seconds that no replica has it: not that nobody answered."""
    with tarry.Client(own_server().url, patience="1s") as client:
        client.topic("orders").add("rice", id="rice")
        with pytest.raises(tarry.Unconfirmed, match="Added, but 0 of 1 replicas"):
            client.topic("orders").add("tea", durability="replicated")
        assert client.topic("orders").stats().ready == 2
