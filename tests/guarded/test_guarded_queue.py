"""Article 002's queue: the same results under every guard, and in both layouts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from locks.lock_users import LockUsers
from tarry.errors import BadInput, FallenBehind, LockLost


@pytest.fixture
def hand(party: LockUsers) -> Any:
    return party.hand()


@pytest.fixture
def queues(party: LockUsers, guard_of: Callable[..., Any], name: str, layout: str) -> Callable[..., Any]:
    """Makes a client's handle of the queue; a client each time, as of many processes."""

    def make(**options: Any) -> Any:
        client = party.client()
        return client.guarded_queue(name, guard=guard_of(client, name), layout=layout, **options)

    return make


def test_what_is_due_comes_out_in_order_with_its_lateness(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    dues = hand.call(queue.push, [("c", 0.06), ("a", 0), ("b", 0.03), ("far", 3600)])
    assert [due.tzinfo for due in dues] == [timezone.utc] * 4
    time.sleep(0.1)
    items = hand.call(queue.poll, count=10)
    assert [item.value for item in items] == ["a", "b", "c"]
    assert [item.due for item in items] == sorted(dues)[:3]
    for item in items:
        assert timedelta(seconds=0.03) < item.lateness < timedelta(seconds=20)
        assert item.due + item.lateness <= datetime.now(timezone.utc) + timedelta(seconds=1)
    assert hand.call(queue.poll, count=10) == []
    assert hand.call(queue.size) == 1


def test_a_mapping_is_pushed_too(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    hand.call(queue.push, {"a": 0, "b": "0s"})
    assert sorted(item.value for item in hand.call(queue.poll, count=10)) == ["a", "b"]


def test_no_more_than_count_come_out(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    hand.call(queue.push, [(i, 0) for i in range(5)])
    first, second = hand.call(queue.poll, count=2, wait=20), hand.call(queue.poll, count=5)
    assert (len(first), len(second)) == (2, 3)
    assert sorted(item.value for item in first + second) == [0, 1, 2, 3, 4]
    assert len(hand.call(queue.poll)) == 0


def test_values_are_json_data(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    values = [{"order": 7, "测试": [1, None, "é"]}, ["x"], 1.5, True]
    hand.call(queue.push, [(value, 0) for value in values])
    got = [item.value for item in hand.call(queue.poll, count=10, wait=20)]
    assert sorted(map(json.dumps, got)) == sorted(map(json.dumps, values))


def test_nothing_comes_out_early(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    (due,) = hand.call(queue.push, [("tea", 0.05)])
    while not (items := hand.call(queue.poll)):
        pass
    assert items[0].lateness >= timedelta(0)
    assert items[0].due == due


@pytest.mark.slow
def test_who_waits_gets_it_when_it_is_due(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    hand.call(queue.push, [("tea", 0.15)])
    items = hand.call(queue.poll, wait=20)
    assert [item.value for item in items] == ["tea"]
    assert hand.call(queue.poll, wait=0.05) == []


def test_who_waits_gets_what_another_puts_in(party: LockUsers, queues: Callable[..., Any]) -> None:
    waiting = party.hand()
    done = waiting.begin(queues().poll, wait=20)
    time.sleep(0.05)
    party.hand().call(queues().push, [("tea", 0.05)])
    assert [item.value for item in done.result(20)] == ["tea"]


@pytest.mark.slow
def test_each_item_comes_out_once(party: LockUsers, queues: Callable[..., Any]) -> None:
    """Under a guard that keeps nobody away, too: what was really removed is all that is handed out."""
    party.hand().call(queues().push, [(i, 0) for i in range(300)])
    time.sleep(0.02)
    got: list[int] = []

    def drain(queue: Any) -> None:
        while items := queue.poll(count=7, wait=0.3):
            got.extend(item.value for item in items)

    async def drain_async(queue: Any) -> None:
        while items := await queue.poll(count=7, wait=0.3):
            got.extend(item.value for item in items)

    chosen = drain if party.face == "sync" else drain_async
    for done in [party.hand().begin(chosen, queues()) for _ in range(6)]:
        done.result(30)
    assert sorted(got) == list(range(300))


@pytest.mark.parametrize(
    ("items", "what"),
    [
        ({None: 1}, "the value is None"),
        ({"a": None}, "the delay is None"),
        ([("a", 1), (None, 1)], "the value is None"),
        ([("a", -1)], "delay"),
        (["abc"], "not a pair"),
        ([("a", 0), (float("nan"), 0)], "not finite"),
    ],
)
def test_bad_items_are_refused_before_anything_is_written(
    hand: Any, queues: Callable[..., Any], items: Any, what: str
) -> None:
    queue = queues()
    with pytest.raises(BadInput, match=what):
        hand.call(queue.push, items)
    assert hand.call(queue.size) == 0


@pytest.mark.parametrize("count", [0, -1, 1001, True, "1"])
def test_a_count_that_cannot_be_is_refused(hand: Any, queues: Callable[..., Any], count: Any) -> None:
    with pytest.raises(BadInput, match="count"):
        hand.call(queues().poll, count=count)


def test_a_queue_that_has_fallen_behind_says_so_and_loses_nothing(hand: Any, queues: Callable[..., Any]) -> None:
    told: list[timedelta] = []
    hand.call(queues().push, [("a", 0), ("b", 0)])
    time.sleep(0.06)
    strict = queues(max_lateness=0.05)
    with pytest.raises(
        FallenBehind, match=r"its first item is .* late, and 50ms is allowed. Nothing was taken"
    ) as fault:
        hand.call(strict.poll, count=2)
    assert fault.value.lateness is not None
    assert fault.value.lateness > timedelta(seconds=0.05)
    assert hand.call(strict.size) == 2
    lenient = queues(max_lateness=0.05, on_late=told.append)
    assert len(hand.call(lenient.poll, count=2)) == 2
    assert len(told) == 1
    assert told[0] > timedelta(seconds=0.05)
    hand.call(lenient.push, [("c", 0)])
    assert [item.value for item in hand.call(queues(max_lateness=60).poll, wait=1)] == ["c"]


def test_how_it_is(hand: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    assert hand.call(queue.stats).next_due is None
    dues = hand.call(queue.push, [("a", 0), ("b", 3600)])
    time.sleep(0.01)
    now = hand.call(queue.stats)
    assert (now.size, now.overdue, now.next_due) == (2, 1, dues[0])
    assert now.lateness > timedelta(0)
    assert hand.call(queue.clear)
    assert not hand.call(queue.clear)


# ── what layouts and guards differ in ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("guarded", [False, True])
def test_equal_payloads_are_different_items_but_for_the_article(party: LockUsers, name: str, guarded: bool) -> None:
    hand, client = party.hand(), party.client()
    for layout, expected in (("tarry", 3), ("article", 1)):
        guard = client.lock("guard of " + name) if guarded else None
        queue = client.guarded_queue(name, guard=guard, layout=layout)
        hand.call(queue.push, [("same", 0)] * 3)
        assert len(hand.call(queue.poll, count=10, wait=20)) == expected


@pytest.mark.parametrize("guarded", [False, True])
def test_the_articles_bytes_are_read_and_written_as_its_java_does(
    party: LockUsers, raw: Any, name: str, guarded: bool
) -> None:
    """``ZADD d_q_p:NAME currentTimeMillis+delay toJson(data)``."""
    hand, client = party.hand(), party.client()
    guard = client.lock("guard of " + name) if guarded else None
    queue = client.guarded_queue(name, guard=guard, layout="article")
    hand.call(queue.push, [({"order": 7}, 3600)])
    ((member, score),) = raw.zrange(f"d_q_p:{name}", 0, -1, withscores=True)
    assert json.loads(member) == {"order": 7}
    assert abs(score - (time.time() + 3600) * 1000) < 30_000
    assert score == int(score)
    raw.zadd(f"d_q_p:{name}", {'{"order":8}': int(time.time() * 1000) - 1500})
    (item,) = hand.call(queue.poll, count=10)
    assert item.value == {"order": 8}
    assert timedelta(seconds=1) < item.lateness < timedelta(seconds=30)
    hand.call(queue.push, [({"order": 7}, 0)])  # pushed again: the last push decides
    assert hand.call(queue.poll, wait=1)[0].value == {"order": 7}
    with pytest.raises(BadInput, match="JSON, not bytes"):
        hand.call(queue.push, [(b"raw", 0)])


def test_what_cannot_be_read_is_handed_out_as_bytes(party: LockUsers, raw: Any, name: str) -> None:
    raw.zadd(f"d_q_p:{name}", {b"{broken": 1})
    hand, client = party.hand(), party.client()
    assert hand.call(client.guarded_queue(name, layout="article").poll)[0].value == b"{broken"


def test_a_late_holder_is_refused_and_removes_nothing(party: LockUsers, name: str) -> None:
    class Late:
        """A guard whose holder has been overtaken, and does not know it."""

        name, kept_in = "late", "nowhere"

        def __init__(self, token: int, face: str) -> None:
            self.token = token
            self._awaited = face == "async"

        def acquire(self, **_: Any) -> Any:
            return self._answer(self)

        def release(self) -> Any:
            return self._answer(None)

        def _answer(self, value: Any) -> Any:
            async def later() -> Any:
                return value

            return later() if self._awaited else value

    hand, client = party.hand(), party.client()
    old, new = (client.guarded_queue(name, guard=Late(token, party.face)) for token in (5, 6))
    hand.call(new.push, [("a", 0), ("b", 0)])
    assert [item.value for item in hand.call(new.poll, wait=20)] == ["a"]
    with pytest.raises(LockLost, match=r"has seen the token 6, and this one is 5"):
        hand.call(old.poll)
    assert hand.call(old.size) == 1
    assert [item.value for item in hand.call(new.poll)] == ["b"]


def test_who_waits_for_the_guard_waits_no_longer_than_it_said(party: LockUsers, name: str) -> None:
    first, second = party.hand(), party.hand()
    client = party.client()
    lock = client.lock("guard of " + name)
    queue = client.guarded_queue(name, guard=lock)
    first.call(queue.push, [("a", 0)])
    time.sleep(0.01)
    grant = first.call(lock.acquire)
    assert second.call(queue.poll, wait=0.05) == []
    assert second.call(queue.poll) == []
    first.call(grant.release)
    assert [item.value for item in second.call(queue.poll, wait=1)] == ["a"]


def test_waiting_asks_no_oftener_than_it_must(party: LockUsers, raw: Any, name: str) -> None:
    hand = party.hand()
    queue = party.client().guarded_queue(name)
    hand.call(queue.push, [("far", 60)])
    before = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert hand.call(queue.poll, wait=0.5) == []
    assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 4


@pytest.mark.parametrize("options", [{"layout": "java"}, {"max_lateness": -1}, {"on_late": print}])
def test_options_that_cannot_be_are_refused(party: LockUsers, name: str, options: Any) -> None:
    with pytest.raises(BadInput):
        party.client().guarded_queue(name, **options)
