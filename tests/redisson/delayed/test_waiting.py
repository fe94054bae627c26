"""Waiting for real, on real connections: interrupted, cancelled, cut off, left alone. Nothing is lost, nobody is stuck."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import tarry
from faults.cancellation import MOMENTS, cancelled_at
from tarry.clients.redisson.blocking import list_pops
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import pack
from until import LONGEST_S


@pytest.fixture
def client(valkey_url: str) -> Iterator[tarry.Client]:
    with tarry.Client(valkey_url) as made:
        yield made


@pytest.fixture
def queue(client: tarry.Client, name: str) -> Any:
    return client.blocking_queue(name, codec="string")


def offered_by_java(server: Any, name: str, payload: bytes, *, publish: bool) -> None:
    """An element that is due now, written by somebody else."""
    keys, element = keys_of(name), pack(payload, payload.ljust(8)[:8])
    seconds, micros = server.time()
    due = seconds * 1000 + micros // 1000
    server.zadd(keys.timeouts, {element: due})
    server.rpush(keys.order, element)
    if publish:
        server.publish(keys.channel, str(due))


@pytest.mark.parametrize("publish", [True, False], ids=["told", "not told"])
def test_a_waiting_consumer_moves_what_java_offers(queue: Any, server: Any, name: str, publish: bool) -> None:
    queue.put("warm")
    assert queue.take() == "warm"
    assert queue.poll(wait="50ms") is None  # the mover is there now
    offered_by_java(server, name, b"tea", publish=publish)
    assert queue.poll(wait=LONGEST_S) == "tea"


def test_a_dead_mover_is_replaced(queue: Any, server: Any, name: str) -> None:
    seconds, _ = server.time()
    server.zadd(keys_of(name).movers, {"dead": seconds * 1_000_000 + 1_400_000})
    offered_by_java(server, name, b"tea", publish=False)
    assert queue.poll_many(1, wait=LONGEST_S) == ["tea"]


def test_one_handle_per_message_delivers_to_a_waiting_consumer(client: tarry.Client, queue: Any, name: str) -> None:
    got: list[str] = []
    consumer = threading.Thread(target=lambda: got.extend(queue.take() for _ in range(3)))
    consumer.start()
    for number in range(3):
        with client.delayed_queue(name, codec="string") as handle:
            handle.offer(str(number), f"{10 * number + 1}ms")
    consumer.join(LONGEST_S)
    assert got == ["0", "1", "2"]


def test_an_element_received_by_an_interrupted_take_returns_to_the_head(
    queue: Any, server: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = list_pops.PopConnection

    class Interrupted(line):
        def begin(self, keys: tuple[bytes, ...], seconds: float) -> None:
            server_side = self._connection.can_read

            def strike(timeout: float) -> bool:
                server.rpush(name, "first", "second")
                self._connection.can_read = server_side
                raise KeyboardInterrupt

            self._connection.can_read = strike
            super().begin(keys, seconds)

    monkeypatch.setattr(list_pops, "PopConnection", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.take()
    assert server.lrange(name, 0, -1) == [b"first", b"second"]


def test_a_cancelled_take_loses_nothing(valkey_url: str, server: Any, name: str) -> None:
    async def story() -> None:
        async with tarry.AsyncClient(valkey_url) as client:
            queue = client.blocking_queue(name, codec="string")
            for _ in range(20):
                taking = asyncio.ensure_future(queue.take())
                while not any(row["cmd"] == "blpop" for row in server.client_list()):  # noqa: ASYNC110  # only the server knows
                    await asyncio.sleep(0)
                server.rpush(name, "first", "second")
                taking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await taking
                assert server.lrange(name, 0, -1) == [b"first", b"second"]
                assert await queue.poll_many(2) == ["first", "second"]

    asyncio.run(story())


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("kind", ["delayed", "blocking"])
@pytest.mark.parametrize("limit", [None, 2])
def test_a_cancelled_poll_puts_elements_back_in_order(
    client: tarry.Client, valkey_url: str, server: Any, name: str, kind: str, moment: str, limit: int | None
) -> None:
    async def story() -> None:
        for k in range(1, 100):
            if kind == "delayed":
                waiting.offer_many(["a", "b", "c"], "1h")
            else:
                server.rpush(name, "a", "b", "c")
            async with tarry.AsyncClient(valkey_url) as polling:
                made: Any = polling.delayed_queue if kind == "delayed" else polling.blocking_queue
                queue = made(name, codec="string")
                cut = await cancelled_at(queue.poll() if limit is None else queue.poll_many(limit), k, moment)
            left = list(waiting) if kind == "delayed" else [raw.decode() for raw in server.lrange(name, 0, -1)]
            assert left == (["a", "b", "c"] if cut.cancelled else ["a", "b", "c"][limit or 1 :])
            waiting.clear()
            server.delete(name)
            if not cut.reached:
                return
        raise AssertionError("it never ended")

    waiting = client.delayed_queue(name, codec="string")
    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "pubsub"])
def test_a_cut_connection_is_reopened(queue: Any, server: Any, name: str, kind: str) -> None:
    assert queue.poll(wait="50ms") is None
    got: list[str] = []
    consumer = threading.Thread(target=lambda: got.append(queue.take()))
    consumer.start()
    server.client_kill_filter(_type=kind, skipme=True)
    offered_by_java(server, name, b"tea", publish=False)
    consumer.join(LONGEST_S)
    assert got == ["tea"]


@pytest.mark.slow
def test_a_failing_handler_does_not_end_the_subscription(client: tarry.Client, queue: Any, name: str) -> None:
    got: list[str] = []
    end = threading.Event()

    def handle(value: str) -> Any:
        if value == "bad":
            raise ValueError("no such order")
        if value == "lazy":
            return (got.append(line) for line in "ab")
        got.append(value)
        if value == "end":
            end.set()
        return None

    with queue.subscribe(handle):
        for value in ("a", "bad", "lazy", "b", "end"):
            queue.put(value)
        assert end.wait(LONGEST_S)
    assert got == ["a", "b", "end"]
    element, lazy = queue.poison()
    assert (element.raw, element.reason) == (b"bad", "handler: ValueError: no such order")
    assert lazy.reason.startswith("handler: TypeError: the handler returned a generator, whose work is not done")


def test_a_failing_async_handler_does_not_end_the_subscription(valkey_url: str, name: str) -> None:
    async def story() -> None:
        got: list[str] = []
        end = asyncio.Event()

        async def handle(value: str) -> None:
            if value == "bad":
                raise ValueError("no such order")
            got.append(value)
            if value == "end":
                end.set()

        async with tarry.AsyncClient(valkey_url) as client:
            queue = client.blocking_queue(name, codec="string")
            async with queue.subscribe(handle):
                await client.delayed_queue(name, codec="string").offer_many(["a", "bad", "b", "end"], "5ms")
                await asyncio.wait_for(end.wait(), LONGEST_S)
            assert got == ["a", "b", "end"]
            (element,) = await queue.poison()
            assert element.raw == b"bad"

    asyncio.run(story())


def test_one_client_moves_several_queues(client: tarry.Client, server: Any, name: str) -> None:
    names = [f"{name}-{i}" for i in range(5)]
    queues = [client.blocking_queue(each, codec="string") for each in names]
    for queue in queues:
        assert queue.poll(wait="1ms") is None
    for each in names:
        offered_by_java(server, each, each.encode(), publish=True)
    assert [queue.poll(wait=LONGEST_S) for queue in queues] == names


def test_poll_from_any_without_a_wait_checks_each_queue(client: tarry.Client, queue: Any, name: str) -> None:
    other = client.blocking_queue(f"other-{name}", codec="string")
    assert queue.poll_from_any(other.name) is None
    other.put("theirs")
    assert queue.poll_from_any(other.name) == "theirs"
    other.put("later")
    assert queue.poll_from_any(other.name, wait=LONGEST_S) == "later"


def test_closing_gives_up_the_mover_seat(valkey_url: str, server: Any, name: str) -> None:
    with tarry.Client(valkey_url) as client:
        assert client.blocking_queue(name, codec="string").poll(wait="20ms") is None
    assert not server.exists(keys_of(name).movers)
