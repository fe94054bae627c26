"""examples/lock_once.py, on both kinds of lock."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.errors import BadInput

LONG_MS = 600_000
EXAMPLE = Path(__file__).parents[2] / "examples" / "lock_once.py"


def example() -> Any:
    spec = importlib.util.spec_from_file_location("lock_once", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.DistributedLock


@pytest.fixture(params=["redis", "zookeeper"])
def locks(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """Two processes' beans."""
    made: list[Any] = []
    for _ in range(2):
        if request.param == "redis":
            client: Any = tarry.Client(request.getfixturevalue("valkey_url"))
        else:
            from tarry import zookeeper

            hosts = request.getfixturevalue("zookeeper").hosts
            client = zookeeper.Client(hosts, namespace="longjuanfeng_test1", session_timeout=2)
        client.lock("any").state()  # there is a connection; to make one may take longer than a lock is waited for
        made.append(example()(client))
    yield made
    for one in made:
        one.destroy()


def test_lock_once_locks_and_unlock_releases(locks: list[Any], name: str) -> None:
    mine, other = locks
    assert mine.lock_once(name, 1000, LONG_MS)
    assert not mine.lock_once(name)
    assert not other.lock_once(name, 50)
    assert mine.unlock(name)
    assert not mine.unlock(name)
    assert other.lock_once(name, 0, LONG_MS)
    assert other.unlock(name)


@pytest.mark.slow
def test_lock_once_waits_one_second_by_default(locks: list[Any], name: str) -> None:
    mine, other = locks
    assert mine.lock_once(name, 1000, LONG_MS)
    began = time.monotonic()
    assert not other.lock_once(name)
    assert time.monotonic() - began >= 1  # no sooner; how much later is the machine's affair
    mine.unlock(name)


def test_an_unreleased_lock_is_free_after_its_lease(locks: list[Any], name: str) -> None:
    """What the article's janitor thread was for."""
    mine, other = locks
    assert mine.lock_once(name, 1000, 300)
    assert other.lock_once(name, LONG_MS, LONG_MS)
    assert not mine.unlock(name)
    assert other.unlock(name)


def test_a_lock_once_lasts_two_seconds_by_default(locks: list[Any], name: str) -> None:
    before = time.monotonic()
    assert locks[0].lock_once(name)
    after = time.monotonic()
    lock = locks[0].client.lock(name)
    until = lock._locks().table.hold_of(lock._id, threading.current_thread()).until
    assert before + 1 < until <= after + 2


@pytest.mark.parametrize(("key", "wait"), [("", 0), ("a", -1)])
def test_arguments_that_the_article_refuses_are_refused(locks: list[Any], key: str, wait: int) -> None:
    with pytest.raises(BadInput):
        locks[0].lock_once(key, wait)
