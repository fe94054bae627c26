"""A lock is of its namespace; with ``shared=True`` it is one of Java's, the same in every namespace."""

from __future__ import annotations

from typing import Any

import pytest

from locks.conftest import zookeeper_client
from locks.lock_users import LockUsers
from tarry.errors import BadInput
from tarry.verbs.locks.lock_scripts import lock_of, token_pattern
from tarry.verbs.locks.lock_values import LockId


def test_locks_of_two_namespaces_do_not_meet(any_lock_users: LockUsers, name: str) -> None:
    user, stranger = any_lock_users.user(), any_lock_users.user()
    one, other = any_lock_users.client(namespace="shop"), any_lock_users.client(namespace="bank")
    mine = user.call(one.lock(name).acquire, wait=0)
    assert stranger.call(any_lock_users.client(namespace="shop").lock(name).acquire, wait=0) is None
    theirs = stranger.call(other.lock(name).acquire, wait=0)
    user.call(mine.check)
    stranger.call(theirs.check)
    assert stranger.call(other.lock(name).force_release)
    user.call(mine.release)


def test_a_shared_lock_is_the_same_in_every_namespace(any_lock_users: LockUsers, name: str) -> None:
    user, stranger, path = any_lock_users.user(), any_lock_users.user(), f"/{name}"
    one, other = any_lock_users.client(namespace="shop"), any_lock_users.client(namespace="bank")
    grant = user.call(one.lock(path, shared=True).acquire, wait=0)
    assert stranger.call(other.lock(path, shared=True).acquire, wait=0) is None
    assert user.call(one.lock(path, shared=True).held)
    user.call(grant.release)


def test_a_name_is_one_lock_of_the_namespace_and_another_one_of_java(lock_users: LockUsers, name: str) -> None:
    user, client = lock_users.user(), lock_users.client()
    mine, javas = client.lock(name), client.lock(name, shared=True)
    grant = user.call(mine.acquire, wait=0)
    assert not user.call(javas.held)
    assert user.call(javas.acquire, wait=0).token != 0
    user.call(javas.release)
    user.call(grant.check)
    assert user.call(mine.held)
    user.call(grant.release)


def test_a_lock_leaves_any_key_of_its_name_alone(lock_users: LockUsers, server: Any, name: str) -> None:
    server.set(name, "precious")
    user = lock_users.user()
    grant = user.call(lock_users.client(namespace="shop").lock(name).acquire, wait=0)
    assert {key.decode() for key in server.scan_iter(f"*{name}*")} == {
        name, f"tarry:{{shop/{name}}}:lock", f"tarry:{{shop/{name}}}:token",
    }  # fmt: skip
    user.call(grant.release)
    assert server.get(name) == b"precious"


def test_a_name_mapper_maps_shared_locks_only(lock_users: LockUsers, server: Any, name: str) -> None:
    user, client = lock_users.user(), lock_users.client(name_mapper="java:")
    user.call(client.lock(name).acquire, wait=0)
    assert not server.exists(f"java:{name}")


@pytest.mark.parametrize("name", ["", "a{b", "a}b", " a"])
def test_a_name_of_a_lock_is_checked(lock_users: LockUsers, name: str) -> None:
    with pytest.raises(BadInput, match="lock: "):
        lock_users.user().call(lock_users.client().lock(name).acquire, wait=0)


def test_a_shared_lock_of_zookeeper_is_at_curators_path(zookeeper_users: LockUsers, kazoo: Any, name: str) -> None:
    user, client = zookeeper_users.user(), zookeeper_users.client()
    user.call(client.lock(f"/locks/{name}", shared=True).acquire)
    (node,) = kazoo.get_children(f"/locks/{name}")
    assert "-lock-" in node
    user.call(client.lock(name).acquire)
    assert len(kazoo.get_children(f"/tarry/tests/{name}")) == 1
    with pytest.raises(BadInput, match="such as '/locks/stock'"):
        user.call(client.lock(name, shared=True).acquire)


def test_the_locks_of_a_zookeeper_are_listed_by_namespace(zookeeper: Any, name: str) -> None:
    users = LockUsers("sync", zookeeper_client(zookeeper.hosts))
    one, other = users.client(namespace="shop"), users.client(namespace="bank")
    users.user().call(one.lock(name).acquire)
    assert (name in one.locks(), name in other.locks()) == (True, False)
    users.close()


def test_locks_are_known_again_by_the_keys_of_their_tokens() -> None:
    assert lock_of(b"tarry:{shop/a/b}:token", "shop") == LockId("a/b")
    assert lock_of(b"redisson_lock_token:{a}", "shop") == LockId("a", shared=True)
    assert token_pattern("a*[b]") == rb"tarry:{a\*\[b\]/*}:token"
