"""Guarded queues: the same results under every guard, and in both layouts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import tarry
from locks.lock_users import LockUsers
from tarry.clients.guarded_queues import lock_domain
from tarry.errors import BadInput, FallenBehind, LockLost
from until import LONGEST_S

MANY = 100


@pytest.fixture
def user(lock_users: LockUsers) -> Any:
    return lock_users.user()


@pytest.fixture
def queues(lock_users: LockUsers, guard_of: Callable[..., Any], name: str, layout: str) -> Callable[..., Any]:
    """Makes a client's handle of the queue; a client each time, as of many processes."""

    def make(**options: Any) -> Any:
        client = lock_users.client()
        return client.guarded_queue(name, guard=guard_of(client, name), layout=layout, **options)

    return make


def test_due_items_are_polled_in_order_with_their_lateness(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    dues = user.call(queue.push, [("c", 0.06), ("a", 0), ("b", 0.03), ("far", 3600)])
    assert [due.tzinfo for due in dues] == [timezone.utc] * 4
    time.sleep(0.1)
    items = user.call(queue.poll_many, 10)
    assert [item.value for item in items] == ["a", "b", "c"]
    assert [item.due for item in items] == sorted(dues)[:3]
    for item in items:
        assert timedelta(seconds=0.03) < item.lateness < timedelta(seconds=20)
        assert item.due + item.lateness <= datetime.now(timezone.utc) + timedelta(seconds=1)
    assert user.call(queue.poll_many, 10) == []
    assert user.call(queue.size) == 1


def test_push_accepts_a_mapping(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    user.call(queue.push, {"a": 0, "b": "0s"})
    assert sorted(item.value for item in user.call(queue.poll_many, 10)) == ["a", "b"]


def test_poll_many_returns_at_most_limit_items(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    user.call(queue.push, [(i, 0) for i in range(5)])
    first, second = user.call(queue.poll_many, 2, wait=20), user.call(queue.poll_many, 5)
    assert (len(first), len(second)) == (2, 3)
    assert sorted(item.value for item in first + second) == [0, 1, 2, 3, 4]
    assert user.call(queue.poll_many, 1000) == []


def test_poll_returns_one_item_or_none(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    assert user.call(queue.poll) is None
    user.call(queue.push, [("a", 0), ("b", 0)])
    assert sorted([user.call(queue.poll, wait=20).value, user.call(queue.poll).value]) == ["a", "b"]
    assert user.call(queue.poll) is None
    with pytest.raises(TypeError):
        user.call(queue.poll, 5)


def test_values_are_json(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    values = [{"order": 7, "测试": [1, None, "é"]}, ["x"], 1.5, True]
    user.call(queue.push, [(value, 0) for value in values])
    got = [item.value for item in user.call(queue.poll_many, 10, wait=20)]
    assert sorted(map(json.dumps, got)) == sorted(map(json.dumps, values))


def test_no_item_is_polled_early(user: Any, queues: Callable[..., Any]) -> None:
    """Promise: Never early."""
    queue = queues()
    (due,) = user.call(queue.push, [("tea", 0.05)])
    while (item := user.call(queue.poll)) is None:
        pass
    assert item.lateness >= timedelta(0)
    assert item.due == due


@pytest.mark.slow
def test_a_waiting_poll_gets_an_item_when_it_is_due(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    user.call(queue.push, [("tea", 0.15)])
    assert user.call(queue.poll, wait=20).value == "tea"
    assert user.call(queue.poll, wait=0.05) is None


def test_a_waiting_poll_gets_an_item_pushed_by_another(lock_users: LockUsers, queues: Callable[..., Any]) -> None:
    waiting = lock_users.user()
    done = waiting.begin(queues().poll, wait=20)
    time.sleep(0.05)
    lock_users.user().call(queues().push, [("tea", 0.05)])
    assert done.result(LONGEST_S).value == "tea"


@pytest.mark.slow
def test_each_item_is_polled_once(lock_users: LockUsers, queues: Callable[..., Any]) -> None:
    """Under a guard that keeps nobody away, too: what was really removed is all that is handed out."""
    lock_users.user().call(queues().push, [(i, 0) for i in range(MANY)])
    time.sleep(0.02)
    got: list[int] = []

    def drain(queue: Any) -> None:
        while items := queue.poll_many(7, wait=0.3):
            got.extend(item.value for item in items)

    async def drain_async(queue: Any) -> None:
        while items := await queue.poll_many(7, wait=0.3):
            got.extend(item.value for item in items)

    chosen = drain if lock_users.client_kind == "sync" else drain_async
    for done in [lock_users.user().begin(chosen, queues()) for _ in range(4)]:
        done.result(LONGEST_S)
    assert sorted(got) == list(range(MANY))


BAD_ITEMS: list[tuple[Any, str]] = [
    ({None: 1}, "the value is None"),
    ({"a": None}, "the delay is None"),
    ([("a", 1), (None, 1)], "the value is None"),
    ([("a", -1)], "delay"),
    (["abc"], "not a pair"),
    ([("a", 0), (float("nan"), 0)], "not finite"),
]


def test_bad_items_are_refused_before_anything_is_written(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    for items, what in BAD_ITEMS:
        with pytest.raises(BadInput, match=what):
            user.call(queue.push, items)
        assert user.call(queue.size) == 0, items


def test_an_invalid_limit_is_refused(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    for limit in (0, -1, 1001, True, "1"):
        with pytest.raises(BadInput, match=r"^limit: .*; it is a whole number from 1 to 1000"):
            user.call(queue.poll_many, limit)


def test_a_late_queue_raises_fallen_behind_and_loses_nothing(user: Any, queues: Callable[..., Any]) -> None:
    told: list[timedelta] = []
    user.call(queues().push, [("a", 0), ("b", 0)])
    time.sleep(0.06)
    strict = queues(max_lateness=0.05)
    with pytest.raises(
        FallenBehind, match=r"its first item is .* late, and 50ms is allowed. Nothing was taken"
    ) as fault:
        user.call(strict.poll_many, 2)
    assert fault.value.lateness is not None
    assert fault.value.lateness > timedelta(seconds=0.05)
    assert user.call(strict.size) == 2
    lenient = queues(max_lateness=0.05, on_late=told.append)
    assert len(user.call(lenient.poll_many, 2)) == 2
    assert len(told) == 1
    assert told[0] > timedelta(seconds=0.05)
    user.call(lenient.push, [("c", 0)])
    assert user.call(queues(max_lateness=60).poll, wait=1).value == "c"


def test_stats_and_clear_work(user: Any, queues: Callable[..., Any]) -> None:
    queue = queues()
    assert user.call(queue.stats).next_due is None
    dues = user.call(queue.push, [("a", 0), ("b", 3600)])
    time.sleep(0.01)
    now = user.call(queue.stats)
    assert (now.size, now.overdue, now.next_due) == (2, 1, dues[0])
    assert now.lateness > timedelta(0)
    assert user.call(queue.clear)
    assert not user.call(queue.clear)


# ── what layouts and guards differ in ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("guarded", [False, True])
def test_equal_payloads_are_separate_items_except_in_the_java_layout(
    lock_users: LockUsers, name: str, guarded: bool
) -> None:
    user, client = lock_users.user(), lock_users.client()
    for layout, expected in (("tarry", 3), ("java", 1)):
        guard = client.lock("guard of " + name) if guarded else None
        queue = client.guarded_queue(name, guard=guard, layout=layout)
        user.call(queue.push, [("same", 0)] * 3)
        assert len(user.call(queue.poll_many, 10, wait=20)) == expected


@pytest.mark.parametrize("guarded", [False, True])
def test_the_java_layout_reads_and_writes_the_bytes_of_its_java_program(
    lock_users: LockUsers, server: Any, name: str, guarded: bool
) -> None:
    """``ZADD d_q_p:NAME currentTimeMillis+delay toJson(data)``."""
    user, client = lock_users.user(), lock_users.client()
    guard = client.lock("guard of " + name) if guarded else None
    queue = client.guarded_queue(name, guard=guard, layout="java")
    user.call(queue.push, [({"order": 7}, 3600)])
    ((member, score),) = server.zrange(f"d_q_p:{name}", 0, -1, withscores=True)
    assert json.loads(member) == {"order": 7}
    assert abs(score - (time.time() + 3600) * 1000) < 30_000
    assert score == int(score)
    server.zadd(f"d_q_p:{name}", {'{"order":8}': int(time.time() * 1000) - 1500})
    (item,) = user.call(queue.poll_many, 10)
    assert item.value == {"order": 8}
    assert timedelta(seconds=1) < item.lateness < timedelta(seconds=30)
    user.call(queue.push, [({"order": 7}, 0)])  # pushed again: the last push decides
    assert user.call(queue.poll, wait=1).value == {"order": 7}
    with pytest.raises(BadInput, match="JSON, not bytes"):
        user.call(queue.push, [(b"raw", 0)])


def test_an_unreadable_item_is_polled_as_bytes(lock_users: LockUsers, server: Any, name: str) -> None:
    server.zadd(f"d_q_p:{name}", {b"{broken": 1})
    user, client = lock_users.user(), lock_users.client()
    assert user.call(client.guarded_queue(name, layout="java").poll).value == b"{broken"


def test_a_stale_fencing_token_is_refused_and_removes_nothing(lock_users: LockUsers, name: str) -> None:
    """Promise: Locks."""

    class Late:
        """A guard whose holder has been overtaken, and does not know it."""

        name, kept_in = "late", "nowhere"

        def __init__(self, token: int, client_kind: str) -> None:
            self.token = token
            self._awaited = client_kind == "async"

        def acquire(self, **_: Any) -> Any:
            return self._answer(self)

        def release(self) -> Any:
            return self._answer(None)

        def _answer(self, value: Any) -> Any:
            async def later() -> Any:
                return value

            return later() if self._awaited else value

    user, client = lock_users.user(), lock_users.client()
    old, new = (client.guarded_queue(name, guard=Late(token, lock_users.client_kind)) for token in (5, 6))
    user.call(new.push, [("a", 0), ("b", 0)])
    assert user.call(new.poll, wait=20).value == "a"
    with pytest.raises(LockLost, match=r"has seen the token 6, and this one is 5"):
        user.call(old.poll)
    assert user.call(old.size) == 1
    assert user.call(new.poll).value == "b"


def test_waiting_for_the_guard_respects_the_timeout(lock_users: LockUsers, name: str) -> None:
    first, second = lock_users.user(), lock_users.user()
    client = lock_users.client()
    lock = client.lock("guard of " + name)
    queue = client.guarded_queue(name, guard=lock)
    first.call(queue.push, [("a", 0)])
    time.sleep(0.01)
    grant = first.call(lock.acquire)
    assert second.call(queue.poll, wait=0.05) is None
    assert second.call(queue.poll) is None
    first.call(grant.release)
    assert second.call(queue.poll, wait=1).value == "a"


def test_a_waiting_poll_does_not_poll_the_server(lock_users: LockUsers, server: Any, name: str) -> None:
    user = lock_users.user()
    queue = lock_users.client().guarded_queue(name)
    user.call(queue.push, [("far", 60)])
    before = server.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert user.call(queue.poll, wait=0.5) is None
    assert server.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 4


@pytest.mark.parametrize("options", [{"layout": "mine"}, {"max_lateness": -1}, {"on_late": print}])
def test_invalid_options_are_refused(lock_users: LockUsers, name: str, options: Any) -> None:
    with pytest.raises(BadInput):
        lock_users.client().guarded_queue(name, **options)


def test_an_unknown_layout_is_refused_and_both_are_named(lock_users: LockUsers, name: str) -> None:
    with pytest.raises(BadInput, match="layout: 'article'; it is one of tarry, java"):
        lock_users.client().guarded_queue(name, layout="article")


def test_a_queue_is_of_its_namespace_but_javas_is_everybodys(lock_users: LockUsers, name: str) -> None:
    user = lock_users.user()
    shop, bank = (lock_users.client(namespace=namespace) for namespace in ("shop", "bank"))
    user.call(shop.guarded_queue(name).push, [("a", 0)])
    assert user.call(bank.guarded_queue(name).size) == 0
    user.call(shop.guarded_queue(name, layout="java").push, [("a", 0)])
    assert user.call(bank.guarded_queue(name, layout="java").size) == 1


def test_tokens_of_the_locks_of_two_namespaces_are_not_compared(valkey_url: str, name: str) -> None:
    with tarry.Client(valkey_url, namespace="shop") as shop, tarry.Client(valkey_url, namespace="bank") as bank:
        locks = [shop.lock(name), bank.lock(name), bank.lock(name, shared=True)]
        assert len({lock_domain(lock) for lock in locks}) == 3
        assert lock_domain(shop.lock(name, shared=True)) == lock_domain(locks[2])
