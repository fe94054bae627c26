"""Every verb of the delayed queue, blocking and awaited."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tarry import BadInput
from tarry.values.durations import as_datetime
from tarry.verbs.redisson.elements import Format, pack
from tarry.verbs.redisson.values import Opaque


async def test_an_element_moves_to_the_blocking_queue_when_it_is_due(delayed: Any, blocking: Any, clock: Any) -> None:
    await delayed.offer("tea", "30m")
    clock.advance("29m")
    assert await blocking.poll() is None
    clock.advance("1m")
    assert await blocking.poll() == "tea"
    assert await delayed.size() == 0


async def test_an_offer_returns_its_due_time_rounded_up_to_the_millisecond(delayed: Any, clock: Any) -> None:
    clock.advance(timedelta(microseconds=1))
    assert await delayed.offer("tea", "2ms") == as_datetime(clock.us - 1) + timedelta(milliseconds=3)


async def test_an_element_is_never_a_millisecond_early(delayed: Any, blocking: Any, clock: Any) -> None:
    clock.advance("600us")
    await delayed.offer("tea", "1ms")
    clock.advance("1ms")
    assert await blocking.poll() is None
    clock.advance("400us")
    assert await blocking.poll() == "tea"


@pytest.mark.parametrize("delay", [-1, "-1s", timedelta(seconds=-1)])
async def test_a_negative_delay_is_refused(delayed: Any, delay: Any) -> None:
    with pytest.raises(BadInput, match="delay"):
        await delayed.offer("tea", delay)
    with pytest.raises(BadInput, match="delay"):
        await delayed.offer_many(["tea"], delay)
    assert await delayed.size() == 0


async def test_a_value_the_codec_cannot_encode_is_refused(queues: Any, name: str) -> None:
    queue = queues.delayed(name, codec="long")
    with pytest.raises(BadInput):
        await queue.offer_many([1, "two"], 1)
    assert await queue.size() == 0


async def test_offer_many_keeps_the_order(delayed: Any, blocking: Any, clock: Any) -> None:
    words = [f"{i:04}" for i in range(2500)]
    assert len(await delayed.offer_many(words, 5)) == 2500
    assert await delayed.read_all() == words
    clock.advance(5)
    got: list[str] = []
    assert await blocking.drain_to(got) == 2500
    assert got == words


async def test_elements_come_by_due_time_not_by_offer_order(delayed: Any, blocking: Any, clock: Any) -> None:
    for delay in (30, 10, 20):
        await delayed.offer(str(delay), delay)
    clock.advance(60)
    assert await blocking.poll_many(5) == ["10", "20", "30"]


async def test_poll_ignores_the_delay(delayed: Any) -> None:
    assert await delayed.poll() is None
    await delayed.offer("late", "1h")
    await delayed.offer("soon", 1)
    await delayed.offer("last", 2)
    assert await delayed.poll() == "late"
    assert await delayed.poll_many(5) == ["soon", "last"]
    assert await delayed.poll_many(5) == []


@pytest.mark.parametrize("limit", [0, -1, 1001, True, "2"])
async def test_poll_many_takes_a_number_from_1_to_1000(delayed: Any, blocking: Any, limit: Any) -> None:
    for queue in (delayed, blocking):
        with pytest.raises(BadInput, match=r"^limit: .*; it is a whole number from 1 to 1000"):
            await queue.poll_many(limit)
        assert await queue.poll_many(1) == await queue.poll_many(1000) == []
        with pytest.raises(TypeError):
            await queue.poll(5)


async def test_poll_many_of_a_thousand_takes_a_thousand(delayed: Any, blocking: Any, server: Any, name: str) -> None:
    words = [str(k) for k in range(1001)]
    await delayed.offer_many(words, "1h")
    assert await delayed.poll_many(1000) == words[:1000]
    assert await delayed.poll() == "1000"
    server.rpush(name, *words)
    assert await blocking.poll_many(1000) == words[:1000]
    assert await blocking.poll() == "1000"


async def test_a_polled_element_is_not_delivered(delayed: Any, blocking: Any, clock: Any) -> None:
    await delayed.offer("tea", 1)
    assert await delayed.poll() == "tea"
    clock.advance(2)
    assert await blocking.poll() is None


async def test_peek_shows_the_first_offered_element(delayed: Any) -> None:
    assert await delayed.peek() is None
    await delayed.offer_many(["a", "b"], 1)
    assert await delayed.peek() == "a"
    assert await delayed.size() == 2


async def test_remove_removes_the_first_equal_element(delayed: Any, blocking: Any, clock: Any) -> None:
    for value in "abab":
        await delayed.offer(value, 1)
    assert await delayed.remove("b")
    assert await delayed.read_all() == ["a", "a", "b"]
    assert not await delayed.remove("z")
    clock.advance(1)
    assert sorted(await blocking.poll_many(9)) == ["a", "a", "b"]


async def test_remove_all_removes_every_equal_element(delayed: Any, blocking: Any, clock: Any) -> None:
    await delayed.offer_many("abcab", 1)
    assert await delayed.remove_all(["a", "b", "z"])
    assert not await delayed.remove_all(["a"])
    assert not await delayed.remove_all([])
    assert await delayed.read_all() == ["c"]
    clock.advance(1)
    assert await blocking.poll_many(9) == ["c"]


async def test_elements_dropped_by_retain_all_are_not_delivered(delayed: Any, blocking: Any, clock: Any) -> None:
    await delayed.offer_many("abcab", 1)
    assert await delayed.retain_all(["b"])
    assert not await delayed.retain_all(["b"])
    assert await delayed.read_all() == ["b", "b"]
    clock.advance(1)
    assert await blocking.poll_many(9) == ["b", "b"]


async def test_retaining_nothing_drops_everything(delayed: Any) -> None:
    await delayed.offer_many("abc", 1)
    assert await delayed.retain_all([])
    assert await delayed.size() == 0


async def test_contains_compares_encoded_values(delayed: Any) -> None:
    await delayed.offer_many("ab", 1)
    assert await delayed.contains("a")
    assert not await delayed.contains("c")
    assert await delayed.contains_all(["b", "a", "a"])
    assert not await delayed.contains_all(["a", "c"])
    assert await delayed.contains_all([])


@pytest.mark.slow
async def test_a_long_queue_is_searched_in_pages(delayed: Any) -> None:
    values = [str(i % 4_007) for i in range(5_000)]
    await delayed.offer_many(values, 60)
    assert await delayed.contains_all(["0", "2000", "4006"])
    assert await delayed.remove("0")
    assert await delayed.remove("0")
    assert not await delayed.remove("0")
    assert await delayed.read_all() == [value for value in values if value != "0"]


async def test_iterating_yields_all_elements(queues: Any, delayed: Any) -> None:
    values = [str(i) for i in range(2100)]
    await delayed.offer_many(values, 60)
    assert await queues.walk(delayed) == values
    assert await delayed.size() == 2100


async def test_the_last_offered_element_can_be_pushed_to_another_list(
    delayed: Any, queues: Any, name: str, clock: Any
) -> None:
    other = queues.blocking(f"other-{name}", codec="string")
    await other.put("there")
    await delayed.offer_many("ab", 1)
    assert await delayed.poll_last_and_offer_first_to(f"other-{name}") == "b"
    assert await other.poll_many(5) == ["b", "there"]
    clock.advance(1)
    assert await delayed.read_all() == ["a"]
    assert await delayed.poll_last_and_offer_first_to(f"other-{name}") == "a"
    assert await delayed.poll_last_and_offer_first_to(f"other-{name}") is None


async def test_clear_leaves_delivered_elements(delayed: Any, blocking: Any, clock: Any) -> None:
    await blocking.put("moved")
    await delayed.offer("tea", 1)
    assert await delayed.clear()
    assert not await delayed.clear()
    clock.advance(1)
    assert await blocking.poll_many(9) == ["moved"]


async def test_one_handle_per_message_strands_nothing(queues: Any, name: str, blocking: Any, clock: Any) -> None:
    for number in range(5):
        handle = queues.delayed(name, codec="string")
        await handle.offer(str(number), number)
        await handle.destroy()
    clock.advance(10)
    assert await blocking.poll_many(9) == list("01234")


async def test_both_formats_are_read_from_one_queue(
    delayed: Any, blocking: Any, server: Any, name: str, clock: Any
) -> None:
    for number, format in enumerate([Format.OLD, Format.NEW, Format.OLD]):
        element = pack(b"%d" % number, bytes([number] * 8), format)
        server.rpush(f"redisson_delay_queue:{{{name}}}", element)
        server.zadd(f"redisson_delay_queue_timeout:{{{name}}}", {element: clock.us / 1000 + number})
    assert await delayed.read_all() == ["0", "1", "2"]
    assert await delayed.contains_all("012")
    assert await delayed.remove("1")
    clock.advance(1)
    assert await blocking.poll_many(9) == ["0", "2"]


async def test_an_unreadable_element_is_set_aside_and_does_not_block_others(
    delayed: Any, blocking: Any, server: Any, name: str, clock: Any
) -> None:
    order, timeouts = f"redisson_delay_queue:{{{name}}}", f"redisson_delay_queue_timeout:{{{name}}}"
    await delayed.offer("before", 1)
    for bad in (b"short", b"", b"x" * 40):
        server.rpush(order, bad)
        server.zadd(timeouts, {bad: clock.us / 1000 + 1500})
    await delayed.offer("after", 2)
    assert await delayed.read_all() == ["before", "after"]
    clock.advance(5)
    assert await blocking.poll_many(9) == ["before", "after"]
    poison = {found.raw: found.reason for found in await delayed.poison()}
    assert poison.keys() == {b"short", b"", b"x" * 40}
    assert poison[b"short"] == "5 bytes: an element has sixteen at least"
    assert server.llen(order) == server.zcard(timeouts) == 0


async def test_poll_sets_unreadable_elements_aside_too(delayed: Any, server: Any, name: str) -> None:
    server.rpush(f"redisson_delay_queue:{{{name}}}", b"short")
    await delayed.offer("tea", 1)
    assert await delayed.poll() == "tea"
    assert [found.raw for found in await delayed.poison()] == [b"short"]


async def test_a_payload_of_another_codec_is_shown_raw_and_set_aside_by_poll(
    delayed: Any, queues: Any, name: str
) -> None:
    numbers = queues.delayed(name, codec="long")
    await delayed.offer_many(["tea", "7"], 1)
    assert await numbers.read_all() == [Opaque(b"tea"), 7]
    assert await numbers.poll() == 7
    (element,) = await numbers.poison()
    assert element.raw == b"tea"
    assert "BodyError" in element.reason


@pytest.mark.parametrize("name", ["", None, 7])
async def test_an_invalid_queue_name_is_refused(queues: Any, name: Any) -> None:
    for make in (queues.delayed, queues.blocking):
        with pytest.raises(BadInput, match="queue"):
            make(name)


async def test_an_unknown_codec_name_is_refused(queues: Any, name: str) -> None:
    with pytest.raises(BadInput, match="codec"):
        queues.delayed(name, codec="pickle")
