"""Against what Redisson 3.16.8 and 3.52.0 did with their locks, row by row (tests/redisson/data/locks.jsonl)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from locks.lock_users import LockUsers
from redisson.recorded import rows
from until import LONGEST_S, until

ROWS = [row for row in rows("locks") if row["do"].startswith("lock.")]
NAMES = ("vec:lock", "vec:{tag}:lock")
HOLDER = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}:\d+")
SLACK_MS = 3000


def story(version: str, name: str) -> list[dict[str, Any]]:
    """What one thread did to one lock, up to the row in which a second one waits."""
    found = []
    for row in ROWS:
        if row["version"] == version and row["do"].split()[1] == name:
            if row["note"] and row["note"].startswith("thread t2"):
                break
            found.append(row)
    return found


@pytest.fixture(autouse=True)
def _empty(server: Any) -> None:
    server.flushall()


@pytest.fixture
def channel(server: Any) -> Any:
    with server.pubsub(ignore_subscribe_messages=True) as heard:
        yield heard


def published_on(channel: Any) -> list[tuple[bytes, bytes]]:
    """What was published before: the answer to a ping comes behind it."""
    found = []
    channel.ping()
    while (message := channel.get_message(timeout=LONGEST_S)) is None or message["type"] != "pong":
        if message is not None:  # that it has subscribed
            found.append((message["channel"], message["data"]))
    return found


def perform(user: Any, client: Any, row: dict[str, Any]) -> Any:
    verb, name, *numbers = row["do"].split()
    lock = client.lock(name, shared=True)
    if verb == "lock.lock":
        return user.call(lock.acquire, **({"lease": int(numbers[0]) / 1000} if numbers else {}))
    if verb == "lock.tryLock":
        wait, lease = (int(numbers[0]) / 1000, int(numbers[1]) / 1000) if numbers else (0, None)
        return user.call(lock.acquire, wait=wait, lease=lease)
    if verb == "lock.unlock" and "error" not in str(row["reply"]):
        return user.call(lock.release)
    if verb == "lock.forceUnlock":
        return user.call(lock.force_release)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", ["3.16.8", "3.52.0"])
def test_our_locks_leave_the_keys_that_redisson_leaves(
    lock_users: LockUsers, server: Any, channel: Any, version: str, name: str
) -> None:
    told = story(version, name)
    assert len(told) > 8
    user, client = lock_users.user(), lock_users.client()
    channel.psubscribe("redisson_lock*")
    published_on(channel)
    for row in told:
        perform(user, client, row)
        for key, was in row["keys_changed"].items():
            fields = server.hgetall(key)
            assert [HOLDER.fullmatch(field) is not None for field in fields] == [True]
            assert list(fields.values()) == [bytes.fromhex(field["value"]["hex"]) for field in was["fields"]]
            if "count 2 -> 1" not in row["note"]:  # Redisson gives it the watchdog's 30 s then; here the lease stays
                assert abs(server.pttl(key) - was["pttl"]) < SLACK_MS
        for key in row["keys_gone"] or ():
            assert not server.exists(key)
        assert published_on(channel) == [
            (word["channel"].encode(), bytes.fromhex(word["payload"]["hex"])) for word in row["published"]
        ]


HELD = [row for row in rows("locks") if any(kept["type"] == "hash" for kept in row["keys_changed"].values())]


@pytest.mark.parametrize("row", HELD[::3], ids=lambda row: f"{row['version']}-{row['do'].split()[0]}")
def test_a_lock_held_by_java_is_respected(lock_users: LockUsers, server: Any, row: dict[str, Any]) -> None:
    """Its read and write locks too; its messages wake waiting clients."""
    name, kept = next((key, kept) for key, kept in row["keys_changed"].items() if kept["type"] == "hash")
    fields = {bytes.fromhex(f["field"]["hex"]): bytes.fromhex(f["value"]["hex"]) for f in kept["fields"]}
    server.hset(name, mapping=fields)
    server.pexpire(name, kept["pttl"])
    user, client = lock_users.user(), lock_users.client()
    lock = client.lock(name, shared=True)
    assert user.call(lock.acquire, wait=0) is None
    state = user.call(lock.state)
    assert state.holder.encode() in fields
    assert state.depth == int(fields[state.holder.encode()])
    assert server.hgetall(name) == fields
    waiting = user.begin(lock.acquire, wait=20)
    heard = f"redisson_lock__channel:{name if '{' in name else '{' + name + '}'}"
    until(lambda: server.pubsub_numsub(heard)[0][1])
    server.delete(name)
    server.publish(heard, "0")
    assert waiting.result(5) is not None


def test_a_java_lock_may_expire_without_a_message(lock_users: LockUsers, server: Any, name: str) -> None:
    server.hset(name, "d773656b-5faa-4063-8a0f-dd027429ee7c:1", 1)
    server.pexpire(name, 200)
    user, client = lock_users.user(), lock_users.client()
    assert user.call(client.lock(name, shared=True).acquire, wait=20) is not None


def test_a_release_publishes_the_message_that_java_expects(lock_users: LockUsers, server: Any, channel: Any) -> None:
    row = next(row for row in rows("locks") if row["note"] and row["note"].startswith("thread t2"))
    heard = next(words[1] for words in row["other"] if words[0] == "UNSUBSCRIBE")
    user, client = lock_users.user(), lock_users.client()
    grant = user.call(client.lock(row["do"].split()[1], shared=True).acquire)
    channel.subscribe(heard)
    published_on(channel)
    user.call(grant.release)
    assert published_on(channel) == [(heard.encode(), bytes.fromhex(row["published"][0]["payload"]["hex"]))]


def test_tokens_continue_those_of_javas_fenced_lock(lock_users: LockUsers, server: Any) -> None:
    user, client = lock_users.user(), lock_users.client()
    server.set("redisson_lock_token:{vec:fencedlock}", 3)
    first = user.call(client.lock("vec:fencedlock", shared=True).acquire)
    assert first.token > 3
    assert server.ttl("redisson_lock_token:{vec:fencedlock}") == -1
    user.call(first.release)
    assert server.incr("redisson_lock_token:{vec:fencedlock}") == first.token + 1  # Java's next
    assert user.call(client.lock("vec:fencedlock", shared=True).acquire).token > first.token + 1


def test_a_token_is_kept_for_a_week(lock_users: LockUsers, server: Any, name: str) -> None:
    user, client = lock_users.user(), lock_users.client()
    grant = user.call(client.lock(name, shared=True).acquire)
    key = f"redisson_lock_token:{{{name}}}"
    assert int(server.get(key)) == grant.token
    assert 6.9 * 86400 < server.ttl(key) <= 7 * 86400


def test_a_name_that_cannot_work_in_a_cluster_is_refused_there() -> None:
    from tarry.errors import BadInput
    from tarry.verbs.locks.lock_scripts import keys_of
    from tarry.verbs.locks.lock_values import LockId

    keys_of(LockId("a{b", shared=True), "default")
    with pytest.raises(BadInput, match="rename it"):
        keys_of(LockId("a{b", shared=True), "default", cluster=True)


def test_a_name_mapper_names_locks_as_in_java(lock_users: LockUsers, server: Any, name: str) -> None:
    user, client = lock_users.user(), lock_users.client(name_mapper="shop:")
    user.call(client.lock(name, shared=True).acquire)
    assert server.exists(f"shop:{name}", f"redisson_lock_token:{{shop:{name}}}") == 2
    assert user.call(client.lock(name, shared=True).state).name == name
