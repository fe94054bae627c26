"""The same on other servers: delivery by a mover, very many at once, and the way into a topic; and a mover that is killed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.crc import key_slot

import tarry
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.duties import DutyList
from tarry.verbs.redisson.elements import pack
from until import LONGEST_S, until
from warm import WarmProcess, WarmTarry

MANY = 3000
KINDS = [
    "valkey_url",
    pytest.param("redis6_url", marks=pytest.mark.otherserver),
    pytest.param("redis7_url", marks=pytest.mark.otherserver),
    pytest.param("redis8_url", marks=pytest.mark.otherserver),
    pytest.param("cluster", marks=pytest.mark.otherserver),
]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "cluster":
        (host, port), *_ = request.getfixturevalue("cluster_nodes")
        return f"redis+cluster://{host}:{port}"
    found: str = request.getfixturevalue(request.param)
    return found


def test_offered_elements_are_delivered(url: str, name: str) -> None:
    names = [f"{name}-{number}" for number in range(3)]  # in a Cluster on several nodes, heard on one line
    with tarry.Client(url) as client:
        queues = [client.blocking_queue(each, codec="string") for each in names]
        client.keep_moving(*names)
        for each in names:
            client.delayed_queue(each, codec="string").offer_many([each, each], "20ms")
        for each, queue in zip(names, queues, strict=True):
            assert [queue.poll(wait=LONGEST_S), queue.take()] == [each, each]
        assert {queue.stats().waiting for queue in queues} == {0}


def test_offered_elements_are_delivered_to_an_async_client(url: str, name: str) -> None:
    async def story() -> None:
        async with tarry.AsyncClient(url) as client:
            names = [f"{name}-{number}" for number in range(3)]
            await client.keep_moving(*names)
            for each in names:
                await client.delayed_queue(each, codec="string").offer(each, "20ms")
            taken = [client.blocking_queue(each, codec="string").poll(wait=LONGEST_S) for each in names]
            assert await asyncio.gather(*taken) == names

    asyncio.run(story())


def test_an_async_mover_hears_of_an_earlier_element(
    valkey_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_message = DutyList.on_message

    async def story() -> None:
        subscribed, told = asyncio.Event(), asyncio.Event()

        def note(duties: DutyList, channel: bytes, message: bytes) -> None:
            (told if message else subscribed).set()
            on_message(duties, channel, message)

        monkeypatch.setattr(DutyList, "on_message", note)
        async with tarry.AsyncClient(valkey_url) as client, asyncio.timeout(LONGEST_S):
            await client.keep_moving(name)
            await subscribed.wait()
            await client.delayed_queue(name, codec="string").offer("tea", "1h")
            await told.wait()

    asyncio.run(story())


def test_many_elements_are_delivered_by_due_time_and_the_rest_moves_to_a_topic(url: str, name: str) -> None:
    with tarry.Client(url, namespace=name) as client:
        delayed = client.delayed_queue(name, codec="string")
        for share in range(10):  # the last offered is the first due
            values = [str(number) for number in range(MANY) if number % 10 == 9 - share]
            delayed.offer_many(values, f"{10 - share}ms")
        delayed.offer("later", "1h")
        until(lambda: delayed.stats().overdue == MANY)
        ready = client.blocking_queue(name, codec="string")
        taken: list[Any] = []
        while len(taken) < MANY:
            assert ready.drain_to(taken)
        assert sorted(taken, key=int) == [str(number) for number in range(MANY)]
        assert client.migrate_queue(delayed, "orders").moved == 1
        assert client.topic("orders").stats().delayed == 1


StartMover = Callable[[], WarmProcess]
MOVER = """
import sys, threading
import tarry
client = tarry.Client(sys.argv[1])
client.keep_moving(sys.argv[2])
threading.Event().wait()
"""


@pytest.fixture
def start_mover(valkey_url: str, name: str, tmp_path: Path, tarry_command: WarmTarry) -> Iterator[StartMover]:
    """Processes that move, and die as processes do."""
    (program := tmp_path / "mover.py").write_text(MOVER)
    with ExitStack() as stack:

        def start() -> WarmProcess:
            process = tarry_command.start_program(program, valkey_url, name)
            stack.callback(process.kill)
            return process

        yield start


@pytest.mark.slow
def test_a_killed_mover_is_replaced_by_its_deputy(start_mover: StartMover, server: Any, name: str) -> None:
    keys = keys_of(name)

    def seats(want: int) -> list[bytes]:
        until(lambda: server.zcard(keys.movers) >= want)
        found: list[bytes] = server.zrange(keys.movers, 0, -1)
        return found

    first = start_mover()
    [one] = seats(1)
    start_mover()
    (other,) = (seat for seat in seats(2) if seat != one)
    assert other.startswith(b"~")
    first.kill()
    element = pack(b"tea", b"12345678")  # nobody is told of it
    server.zadd(keys.timeouts, {element: 1})
    server.rpush(keys.order, element)
    assert server.blpop(name, LONGEST_S) == (name.encode(), b"tea")
    until(lambda: server.zrange(keys.movers, 0, -1) == [other[1:]])


@pytest.mark.slow
def test_a_killed_consumer_loses_only_its_own_element(
    valkey_url: str, name: str, tmp_path: Path, tarry_command: WarmTarry
) -> None:
    script = (
        "import sys, tarry\n"
        "queue = tarry.Client(sys.argv[1]).blocking_queue(sys.argv[2], codec='string')\n"
        "print(queue.take(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with tarry.Client(valkey_url) as client:
        client.delayed_queue(name, codec="string").offer_many(["a", "b"], "5ms")
        (program := tmp_path / "consumer.py").write_text(script)
        with tarry_command.talk_to(program, valkey_url, name) as (process, _, told):
            assert told.readline() == "a\n"
            process.kill()
            process.wait(LONGEST_S)
        assert client.blocking_queue(name, codec="string").poll(wait=LONGEST_S) == "b"


@pytest.mark.otherserver
def test_a_cluster_refuses_names_whose_keys_are_in_several_slots(cluster_nodes: list[tuple[str, int]]) -> None:
    (host, port), *_ = cluster_nodes
    with tarry.Client(f"redis+cluster://{host}:{port}") as client, pytest.raises(tarry.BadInput, match="several slots"):
        client.delayed_queue("a{b")


APART = ["apart-a", "apart-b", "apart-c"]


@pytest.fixture
def apart(cluster_nodes: list[tuple[str, int]], name: str) -> tuple[str, list[str]]:
    """A Cluster, and queues that lie in different slots of it."""
    names = [f"{name}-{one}" for one in APART]
    assert len({key_slot(one.encode()) for one in names}) == 3
    (host, port), *_ = cluster_nodes
    return f"redis+cluster://{host}:{port}", names


@pytest.mark.otherserver
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_polling_queues_in_several_slots_loses_nothing(apart: tuple[str, list[str]], awaited: bool) -> None:
    """Elements come to all three at the same moments, some at once and some by a delay; one at a time is wanted."""
    url, names = apart
    first, *others = names
    wanted = sorted(f"{name} {n}" for name in names for n in range(20))

    def offer() -> None:
        with tarry.Client(url) as client:
            for n in range(20):
                for name in names:
                    if n % 2:
                        client.blocking_queue(name, codec="string").put(f"{name} {n}")
                    else:
                        client.delayed_queue(name, codec="string").offer(f"{name} {n}", "20ms")

    async def story() -> list[Any]:
        async with tarry.AsyncClient(url) as client:
            queue = client.blocking_queue(first, codec="string")
            assert await queue.poll_from_any(*others, wait="50ms") is None
            thread.start()
            return [await queue.poll_from_any(*others, wait=LONGEST_S) for _ in wanted]

    thread = threading.Thread(target=offer)
    if awaited:
        found = asyncio.run(story())
    else:
        with tarry.Client(url) as client:
            queue = client.blocking_queue(first, codec="string")
            assert queue.poll_from_any(*others, wait="50ms") is None
            thread.start()
            found = [queue.poll_from_any(*others, wait=LONGEST_S) for _ in wanted]
    thread.join()
    assert sorted(found) == wanted
    with tarry.Client(url) as client:
        assert [client.blocking_queue(name, codec="string").size() for name in names] == [0, 0, 0]


@pytest.mark.otherserver
def test_a_cancelled_poll_of_several_slots_gives_elements_back(apart: tuple[str, list[str]]) -> None:
    url, names = apart

    async def story() -> None:
        async with tarry.AsyncClient(url) as client:
            queues = [client.blocking_queue(name, codec="string") for name in names]
            for delay in (0, 0.001, 0.005, 0.02):
                waiting = asyncio.ensure_future(queues[0].poll_from_any(*names[1:], wait=LONGEST_S))
                await asyncio.sleep(0.05)
                await asyncio.gather(*[queue.put("tea") for queue in queues])
                await asyncio.sleep(delay)
                waiting.cancel()
                await asyncio.wait({waiting})
                taken = 0 if waiting.cancelled() else 1
                left = [await queue.poll() for queue in queues]
                assert left.count("tea") + taken == 3

    asyncio.run(story())


@pytest.mark.slow
@pytest.mark.parametrize("awaited", [False, True], ids=["sync", "async"])
def test_a_mover_without_channel_permission_still_moves(own_server: Any, name: str, awaited: bool) -> None:
    running = own_server(port=True)
    running.ask("ACL", "SETUSER", "deaf", "on", ">secret", "~*", "+@all", "resetchannels")
    host, port = running.address
    url = f"redis://deaf:secret@{host}:{port}"

    def connections() -> int:
        with redis.Redis(host=host, port=port) as raw:
            return int(raw.info("stats")["total_connections_received"])

    async def story() -> str:
        async with tarry.AsyncClient(url) as client:
            await client.delayed_queue(name, codec="string").offer("tea", "1500ms")
            value: str = await client.blocking_queue(name, codec="string").take()
            return value

    began = time.monotonic()
    if awaited:
        assert asyncio.run(story()) == "tea"
    else:
        with tarry.Client(url) as client:
            client.delayed_queue(name, codec="string").offer("tea", "1500ms")
            assert client.blocking_queue(name, codec="string").take() == "tea"
    lived_s = time.monotonic() - began  # a busy machine takes longer
    assert connections() < 15 + 10 * lived_s, "it tries to listen now and then, not all the time"
