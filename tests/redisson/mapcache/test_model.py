"""A map cache against a dictionary with expiry: any sequence of verbs, on the real server in imaginary time.

The dictionary is what a user believes. It knows nothing of sorted sets, evictors or bytes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tarry.clients.testing import Clock, TestClient

KEYS = st.sampled_from("abcdef")
VALUES = st.sampled_from(["1", "2", "3"])
TIMES = st.none() | st.integers(1, 20)
NUMBER = itertools.count()


@dataclass
class EntryModel:
    value: str
    ttl_end: float = math.inf
    idle: float = math.inf
    idle_end: float = math.inf
    used: tuple[float, int] = (0, 0)  # the last time, and how often


class Dictionary:
    """A dictionary with expiry."""

    def __init__(self) -> None:
        self.now, self.all, self.most, self.lfu = 0, dict[str, EntryModel](), 0, False  # in ms

    def living(self, key: str) -> EntryModel | None:
        found = self.all.get(key)
        return found if found and min(found.ttl_end, found.idle_end) > self.now else None

    def use(self, key: str) -> EntryModel | None:
        found = self.living(key)
        if found:
            found.idle_end = self.now + found.idle
            found.used = (self.now, found.used[1] + bool(self.most))
        return found

    def put(self, key: str, value: str, ttl: float | None, idle: float | None, keep: bool = False) -> None:
        was = self.living(key)
        if keep and was:
            was.value = value
        else:
            used = self.all[key].used if key in self.all and self.most else (0, 0)
            self.all[key] = EntryModel(value, self.now + (ttl or math.inf) * 1000, (idle or math.inf) * 1000, used=used)
        self.use(key)

    @property
    def seen(self) -> dict[str, str]:
        return {key: entry.value for key, entry in self.all.items() if self.living(key)}


class Machine(RuleBasedStateMachine):
    url = ""

    @initialize(most=st.sampled_from([0, 3]), lfu=st.booleans())
    def begin(self, most: int, lfu: bool) -> None:
        self.clock = Clock()
        self.client = TestClient(self.url, self.clock)
        self.cache: Any = self.client.map_cache(f"model-{next(NUMBER)}", codec="string", policy=None)
        self.cache.clear()
        self.believed = Dictionary()
        self.believed.most, self.believed.lfu = most, lfu
        self.cache.set_max_size(most, mode="LFU" if lfu else "LRU")

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.cache.clear()
            self.client.close()

    def full(self) -> None:
        """What is too much has gone: the expired first, then what was used least. Which of equals is the server's choice."""
        if not self.believed.most or len(self.believed.all) <= self.believed.most:
            return
        stored = {key.decode() for key in self.raw_keys()}
        assert len(stored) == self.believed.most
        gone = [entry for key, entry in self.believed.all.items() if key not in stored]
        kept = [self.believed.all[key] for key in stored]
        rank = 1 if self.believed.lfu else 0
        dead = [entry for entry in kept if min(entry.ttl_end, entry.idle_end) <= self.believed.now]
        for entry in gone:
            alive = min(entry.ttl_end, entry.idle_end) > self.believed.now
            assert not (alive and dead), "an expired one goes before one that lives"
            others = [other for other in kept if other is not self.last]
            assert not alive or all(entry.used[rank] <= other.used[rank] for other in others)
        self.believed.all = {key: entry for key, entry in self.believed.all.items() if key in stored}

    def raw_keys(self) -> list[bytes]:
        from tarry.core.requests import Command

        return list(self.client.engine.run(Command((b"HKEYS", self.cache.name.encode()), list)))

    def written(self, key: str) -> None:
        self.last = self.believed.all.get(key)
        self.full()

    @rule(ms=st.sampled_from([1, 1000, 3000, 10_000]))
    def time_passes(self, ms: int) -> None:
        self.clock.advance(f"{ms}ms")
        self.believed.now += ms

    @rule(key=KEYS, value=VALUES, ttl=TIMES, idle=TIMES, fast=st.booleans())
    def put(self, key: str, value: str, ttl: int | None, idle: int | None, fast: bool) -> None:
        was = self.believed.living(key)
        if fast:
            assert self.cache.fast_put(key, value, ttl=ttl, max_idle=idle) is (was is None)
        else:
            assert self.cache.put(key, value, ttl=ttl, max_idle=idle) == (was.value if was else None)
        self.believed.put(key, value, ttl, idle)
        self.written(key)

    @rule(key=KEYS, value=VALUES)
    def put_keeping_the_time(self, key: str, value: str) -> None:
        self.cache.fast_put(key, value, keep_ttl=True)
        self.believed.put(key, value, None, None, keep=True)
        self.written(key)

    @rule(key=KEYS, value=VALUES, ttl=TIMES, idle=TIMES)
    def put_if_absent(self, key: str, value: str, ttl: int | None, idle: int | None) -> None:
        was = self.believed.use(key)
        assert self.cache.put_if_absent(key, value, ttl=ttl, max_idle=idle) == (was.value if was else None)
        if was is None:
            self.believed.put(key, value, ttl, idle)
            self.written(key)

    @rule(keys=st.sets(KEYS, max_size=3), value=VALUES, ttl=TIMES)
    @precondition(lambda self: not self.believed.most)
    def put_all(self, keys: set[str], value: str, ttl: int | None) -> None:
        self.cache.put_all(dict.fromkeys(keys, value), ttl=ttl)
        for key in keys:
            self.believed.put(key, value, ttl, None)

    @rule(key=KEYS, old=VALUES, new=VALUES)
    def replace(self, key: str, old: str, new: str) -> None:
        was = self.believed.use(key)
        does = was is not None and was.value == old
        assert self.cache.replace(key, old, new) is does
        if was and does:
            was.value = new

    @rule(key=KEYS, value=VALUES)
    def replace_whatever_is_there(self, key: str, value: str) -> None:
        was = self.believed.living(key)
        assert self.cache.replace(key, value) == (was.value if was else None)
        if was:
            self.believed.put(key, value, None, None, keep=True)

    @rule(key=KEYS, delta=st.integers(-3, 3))
    def add(self, key: str, delta: int) -> None:
        was = self.believed.living(key)
        total = int(was.value if was else 0) + delta
        assert self.cache.add_and_get(key, delta) == total
        self.believed.put(key, str(total), None, None, keep=True)
        self.written(key)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        was = self.believed.use(key)
        assert self.cache.get(key) == (was.value if was else None)

    @rule(key=KEYS)
    def contains_key(self, key: str) -> None:
        assert self.cache.contains_key(key) is (self.believed.use(key) is not None)

    @rule(key=KEYS)
    def get_with_ttl_only(self, key: str) -> None:
        was = self.believed.all.get(key)
        there = was is not None and was.ttl_end > self.believed.now
        assert self.cache.get_with_ttl_only(key) == (was.value if was and there else None)

    @rule(key=KEYS)
    def remaining_ttl(self, key: str) -> None:
        was = self.believed.living(key)
        left = min(was.ttl_end, was.idle_end) - self.believed.now if was else 0
        expected = timedelta.max if left == math.inf else timedelta(milliseconds=left)
        assert self.cache.remaining_ttl(key) == (expected if was else None)

    @rule(key=KEYS)
    def remove(self, key: str) -> None:
        was = self.believed.living(key)
        assert self.cache.remove(key) == (was.value if was else None)
        if was:
            del self.believed.all[key]

    @rule(key=KEYS, value=VALUES)
    def remove_if(self, key: str, value: str) -> None:
        was = self.believed.living(key)
        does = was is not None and was.value == value
        assert self.cache.remove(key, value) is does
        if does:
            del self.believed.all[key]

    @rule(keys=st.sets(KEYS, max_size=3))
    def fast_remove(self, keys: set[str]) -> None:
        there = [key for key in keys if self.believed.living(key)]
        assert self.cache.fast_remove(*keys) == len(there)
        for key in there:
            del self.believed.all[key]

    @rule(key=KEYS, ttl=TIMES, idle=TIMES, if_not_set=st.booleans())
    def expire_entry(self, key: str, ttl: int | None, idle: int | None, if_not_set: bool) -> None:
        was = self.believed.living(key)
        does = was is not None and not (if_not_set and min(was.ttl_end, was.idle_end) < math.inf)
        assert self.cache.expire_entry(key, ttl=ttl, max_idle=idle, if_not_set=if_not_set) is does
        if was and does:
            was.ttl_end, was.idle = self.believed.now + (ttl or math.inf) * 1000, (idle or math.inf) * 1000
            self.believed.use(key)

    @rule()
    def evict(self) -> None:
        gone = [key for key in self.believed.all if not self.believed.living(key)]
        assert self.cache.evict() == len(gone)
        for key in gone:
            del self.believed.all[key]

    @rule()
    def clear(self) -> None:
        assert self.cache.clear() is bool(self.believed.all)
        self.believed.all.clear()

    @rule(value=VALUES)
    def contains_value(self, value: str) -> None:
        assert self.cache.contains_value(value) is (value in self.believed.seen.values())

    @invariant()
    def everybody_sees_the_same(self) -> None:
        if hasattr(self, "cache"):
            assert dict(self.cache.as_dict().items()) == self.believed.seen
            assert self.cache.size() == len(self.believed.seen)
            self.time_passes(1)  # a verb, a moment: who was used last is never in doubt


@pytest.mark.slow
def test_a_map_cache_behaves_like_a_dictionary_with_expiry(valkey_url: str) -> None:
    Machine.url = valkey_url
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.long
def test_a_map_cache_matches_the_model_in_long_runs(valkey_url: str) -> None:
    Machine.url = valkey_url
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=600, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
