"""Every verb of the blocking queue, blocking and awaited, in imaginary time."""

from __future__ import annotations

from typing import Any

import pytest

from tarry.clients.testing import TestClient
from tarry.errors import BadInput
from tarry.verbs.redisson.delayed import transfer
from tarry.verbs.redisson.delayed.queue_context import keys_of


async def test_the_order_is_first_in_first_out(blocking: Any) -> None:
    await blocking.put("a")
    assert await blocking.offer("b") is True
    assert await blocking.poll() == "a"
    assert await blocking.take() == "b"
    assert await blocking.poll() is None


async def test_take_waits_for_the_next_due_element(delayed: Any, blocking: Any, clock: Any) -> None:
    start = clock.us
    await delayed.offer("tea", "30m")
    assert await blocking.take() == "tea"
    assert clock.us - start == 30 * 60 * 1_000_000


async def test_poll_waits_no_longer_than_its_timeout(delayed: Any, blocking: Any, clock: Any) -> None:
    start = clock.us
    await delayed.offer("tea", "10s")
    assert await blocking.poll(wait="4s") is None
    assert clock.us - start == 4_000_000
    assert await blocking.poll_many(5, wait="10s") == ["tea"]
    assert clock.us - start == 10_000_000


async def test_poll_of_many_returns_a_list(blocking: Any) -> None:
    assert await blocking.poll_many(3) == []
    for value in "abcd":
        await blocking.put(value)
    assert await blocking.poll_many(3) == ["a", "b", "c"]
    assert await blocking.poll_many(3) == ["d"]


async def test_poll_from_any_takes_from_the_first_nonempty_queue(
    queues: Any, name: str, blocking: Any, clock: Any
) -> None:
    other = queues.blocking(f"other-{name}", codec="string")
    assert await blocking.poll_from_any(f"other-{name}") is None
    await other.put("theirs")
    await blocking.put("mine")
    assert await blocking.poll_from_any(f"other-{name}", wait=1) == "mine"
    assert await blocking.poll_from_any(f"other-{name}", wait=1) == "theirs"
    await queues.delayed(f"other-{name}", codec="string").offer("later", 5)
    assert await blocking.poll_from_any(f"other-{name}", wait="1m") == "later"


async def test_poll_from_any_with_name_tells_whose_element_it_is(
    queues: Any, name: str, blocking: Any, clock: Any
) -> None:
    others = [f"other-{name}", f"third-{name}"]
    assert await blocking.poll_from_any_with_name(*others) is None
    await queues.blocking(others[1], codec="string").put("theirs")
    await blocking.put("mine")
    assert await blocking.poll_from_any_with_name(*others, wait=1) == (name, "mine")
    assert await blocking.poll_from_any_with_name(*others, wait=1) == (others[1], "theirs")
    await queues.delayed(others[0], codec="string").offer("later", 5)
    assert await blocking.poll_from_any_with_name(*others, wait="1m") == (others[0], "later")


@pytest.mark.parametrize(
    ("target", "limit", "said"),
    [
        ([], "a", "limit: 'a'; it is a whole number"),
        ([], -1, "limit: -1; it is a whole number"),
        ([], True, "limit: True; it is"),
        ((), None, "target: a tuple; it is a list"),
        (None, 1, "target: a NoneType; it is a list"),
    ],
)
async def test_drain_to_takes_nothing_that_it_cannot_append(blocking: Any, target: Any, limit: Any, said: str) -> None:
    await blocking.put("tea")
    with pytest.raises(BadInput, match=f"^{said}"):
        await blocking.drain_to(target, limit)
    assert await blocking.size() == 1


async def test_drain_to_appends_all_or_up_to_a_limit(blocking: Any) -> None:
    got = ["before"]
    assert await blocking.drain_to(got) == 0
    for value in "abc":
        await blocking.put(value)
    assert await blocking.drain_to(got, 2) == 2
    assert await blocking.drain_to(got) == 1
    assert got == ["before", "a", "b", "c"]


async def test_peek_contains_and_size_remove_nothing(blocking: Any) -> None:
    assert await blocking.peek() is None
    await blocking.put("a")
    await blocking.put("b")
    assert await blocking.peek() == "a"
    assert await blocking.contains("b")
    assert not await blocking.contains("c")
    assert await blocking.size() == 2


async def test_an_unreadable_payload_is_set_aside_and_the_next_one_is_taken(
    queues: Any, name: str, blocking: Any
) -> None:
    await blocking.put("tea")
    await blocking.put("7")
    numbers = queues.blocking(name, codec="long")
    assert await numbers.take() == 7
    (element,) = await numbers.poison()
    assert element.raw == b"tea"


async def test_an_element_with_a_lost_publish_is_still_delivered(
    delayed: Any, blocking: Any, server: Any, name: str
) -> None:
    await delayed.offer("tea", "10s")
    (element,) = server.lrange(f"redisson_delay_queue:{{{name}}}", 0, -1)
    server.zadd(f"redisson_delay_queue_timeout:{{{name}}}", {element: 1})  # as an offer whose message nobody heard
    assert await blocking.poll(wait=1) == "tea"


async def test_a_transfer_is_bounded_and_reports_that_more_is_left(
    delayed: Any, queues: Any, name: str, clock: Any
) -> None:
    await delayed.offer_many([str(i) for i in range(2500)], 1)
    clock.advance(1)
    run, keys = queues.client.engine.run, keys_of(name)
    counts = []
    while True:
        done = run(transfer.transfer(keys))
        done = done if isinstance(done, transfer.TransferResult) else await done
        counts.append(done.moved)
        if not done.left:
            break
    assert counts == [1000, 1000, 500]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["as offered", "backwards", "mixed"])
def test_the_list_is_consistent_after_every_transfer(
    client: TestClient, server: Any, name: str, clock: Any, order: str
) -> None:
    n = 3000
    whens = {
        "as offered": lambda i: i,
        "backwards": lambda i: n - i,
        "mixed": lambda i: i * 4801 % n,
    }[order]
    keys = keys_of(name)
    pipe = server.pipeline(transaction=False)
    from tarry.verbs.redisson.elements import pack

    for i in range(n):
        element = pack(b"%d" % i, i.to_bytes(8, "big"))
        pipe.rpush(keys.order, element)
        pipe.zadd(keys.timeouts, {element: clock.us // 1000 + whens(i)})
    pipe.execute()
    clock.advance(n)
    while True:
        done = client.engine.run(transfer.transfer(keys))
        left = {int(element[17:]) for element in server.zrange(keys.timeouts, 0, -1)}
        assert [int(element[17:]) for element in server.lrange(keys.order, 0, -1)] == sorted(left)
        if not done.left:
            break
    moved = [int(payload) for payload in server.lrange(keys.ready, 0, -1)]
    assert moved == sorted(range(n), key=whens)


async def test_the_next_caller_after_a_missed_deadline_becomes_the_mover(queues: Any, name: str, clock: Any) -> None:
    keys = keys_of(name)

    async def transfer_as(me: bytes, stays: bool = True) -> transfer.TransferResult:
        done = queues.client.engine.run(transfer.transfer(keys, mover_id=me, keeps_seat=stays))
        return done if isinstance(done, transfer.TransferResult) else await done

    assert (await transfer_as(b"one")).seat == transfer.MOVER
    assert (await transfer_as(b"two")).seat == transfer.DEPUTY
    assert (await transfer_as(b"three")).seat == 0
    clock.advance("800ms")
    assert (await transfer_as(b"two")).seat == transfer.DEPUTY  # the mover is late, but not by more than is allowed
    clock.advance("1ms")
    assert (await transfer_as(b"two")).seat == transfer.MOVER
    assert (await transfer_as(b"one")).seat == transfer.DEPUTY
    assert (await transfer_as(b"two", stays=False)).seat == 0
    assert (await transfer_as(b"three")).seat == transfer.MOVER


async def test_a_deputy_without_a_mover_becomes_the_mover(queues: Any, name: str, clock: Any) -> None:
    keys = keys_of(name)

    async def transfer_as(me: bytes) -> transfer.TransferResult:
        done = queues.client.engine.run(transfer.transfer(keys, mover_id=me, keeps_seat=True))
        return done if isinstance(done, transfer.TransferResult) else await done

    await transfer_as(b"one")
    deputy = await transfer_as(b"two")
    clock.advance(deputy.wait / 1_000_000)
    assert (await transfer_as(b"two")).seat == transfer.MOVER
    assert deputy.wait <= 801_000
