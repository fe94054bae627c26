"""Very many elements are moved by their places; wrong places cost time and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tarry.clients.testing import Clock, TestClient
from tarry.verbs.redisson.delayed import transfer
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.elements import pack

N = 8_000
KEYS = keys_of("places")


@pytest.fixture
def client(valkey_url: str, clock: Clock, server: Any) -> Iterator[TestClient]:
    with TestClient(valkey_url, clock) as made:
        yield made
    server.delete(*KEYS)


@pytest.fixture
def mixed(server: Any, clock: Clock) -> list[int]:
    """The order in which many elements are due that were offered in another."""
    pipe = server.pipeline(transaction=False)
    for i in range(N):
        element = pack(b"%d" % i, i.to_bytes(8, "big"))
        pipe.rpush(KEYS.order, element)
        pipe.zadd(KEYS.timeouts, {element: clock.us // 1000 + i * 9871 % N})
    pipe.execute()
    clock.advance(N)
    return sorted(range(N), key=lambda i: i * 9871 % N)


def moved(server: Any) -> list[int]:
    return [int(payload) for payload in server.lrange(KEYS.ready, 0, -1)]


def drive(client: TestClient, meddle: Callable[[], None], every: int = 4) -> int:
    """Performs the whole transfer; now and then somebody meddles between two requests. Answers how many scripts."""
    flow, answer, scripts = transfer.transfer_all(KEYS), None, 0
    try:
        while True:
            request = flow.send(answer)
            scripts += 1
            if scripts % every == 0:
                meddle()
            answer = client.engine.runner.perform(request)
    except StopIteration:
        return scripts


@pytest.mark.slow
def test_elements_are_moved_by_due_time_with_few_scripts(client: TestClient, mixed: list[int], server: Any) -> None:
    assert drive(client, lambda: None) < N // 250
    assert moved(server) == mixed
    assert not server.exists(KEYS.order, KEYS.timeouts)


@pytest.mark.slow
def test_other_clients_may_poll_during_a_move(client: TestClient, mixed: list[int], server: Any) -> None:
    taken: list[int] = []

    def take() -> None:
        element = server.lpop(KEYS.order)
        if element is not None and server.zrem(KEYS.timeouts, element):
            taken.append(int(element[17:]))

    drive(client, take, every=8)
    assert taken
    gone = set(taken)
    assert moved(server) == [i for i in mixed if i not in gone]
    assert not server.exists(KEYS.order, KEYS.timeouts)


@pytest.mark.slow
def test_other_clients_may_offer_during_a_move(client: TestClient, mixed: list[int], server: Any) -> None:
    client_two = client.delayed_queue("places", codec="string")
    offered: list[str] = []

    def offer() -> None:
        offered.append(f"-{len(offered) + 1}")
        client_two.offer(offered[-1], "1h")

    drive(client, offer)
    assert moved(server) == mixed
    assert client_two.read_all() == offered


@pytest.mark.slow
def test_other_clients_may_remove_and_offer_during_a_move(
    client: TestClient, mixed: list[int], server: Any, clock: Clock
) -> None:
    """Java's remove and offer between two of our scripts: places are wrong, and nothing says so but the anchors."""
    removed: list[int] = []

    def meddle() -> None:
        length = server.llen(KEYS.order)
        element = server.lindex(KEYS.order, length // 2)
        if element is not None and server.zscore(KEYS.timeouts, element) <= clock.us // 1000:
            server.zrem(KEYS.timeouts, element)
            server.lrem(KEYS.order, 1, element)
            removed.append(int(element[17:]))
            late = pack(b"-%d" % len(removed), len(removed).to_bytes(8, "little"))
            server.rpush(KEYS.order, late)
            server.zadd(KEYS.timeouts, {late: clock.us // 1000 + 10**6})

    drive(client, meddle, every=6)
    assert len(removed) > 1
    assert moved(server) == [i for i in mixed if i not in set(removed)]
    left = server.lrange(KEYS.order, 0, -1)
    assert [element[17:] for element in left] == [b"-%d" % (i + 1) for i in range(len(removed))]
    assert set(left) == set(server.zrange(KEYS.timeouts, 0, -1))


@pytest.mark.slow
def test_other_clients_may_offer_overdue_elements_during_a_move(
    client: TestClient, mixed: list[int], server: Any, clock: Clock
) -> None:
    """It is due among those whose places were said: the list's ends stay, and one place belongs to another element."""
    offered: list[int] = []
    inconsistent: list[int] = []

    def meddle() -> None:
        middle = server.zrange(KEYS.timeouts, 200, 200, withscores=True)
        if middle:
            number = N + len(offered)
            late = pack(b"%d" % number, number.to_bytes(8, "big"))
            server.zadd(KEYS.timeouts, {late: middle[0][1]})
            server.rpush(KEYS.order, late)
            offered.append(number)
        in_order = set(server.lrange(KEYS.order, 0, -1))
        inconsistent.append(len(in_order ^ set(server.zrange(KEYS.timeouts, 0, -1))))

    drive(client, meddle, every=6)
    assert len(offered) > 1
    assert not any(inconsistent)
    assert sorted(moved(server)) == sorted([*mixed, *offered])
    assert not server.exists(KEYS.order, KEYS.timeouts)
