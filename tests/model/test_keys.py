"""The games of test_model.py with keys: half of the jobs have one, and the topic limits them.

The model does not foretell which key comes next: it judges what was handed out. A job was the first of its key that was due, its key had a place
and a rate, and nobody who could run was left out. With `fair` no key got two before another one, that could run all the time, got one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from model.test_model import PLENTY, SECOND, Game, us
from model.topic_model import KEEP, SWEEP, Job, Topic, by_the_table
from tarry import NewJob

pytestmark = pytest.mark.slow

KEYS = (None, "k", None, "l", "k", "测", "k\1", None, "l")


@dataclass
class KeyedTopic(Topic):
    places: int | None = None  # of a key
    per: int | None = None  # µs between two jobs of a key
    fair: bool = False
    retry_holds: bool = False
    paces: dict[str, int] = field(default_factory=dict)
    """Of each key: until when its rate is spent."""
    pauses: dict[str, int] = field(default_factory=dict)
    passed: dict[str | None, Counter[str | None]] = field(default_factory=dict)
    """Of each key that could run since: how many of each other key were handed out."""

    def is_first(self, id: str) -> bool:
        """Whether a due job is the first of its key, or of those without one."""
        job = self.jobs[id]
        return (
            min(
                (name for name, other in self.jobs.items() if self.is_beside(other, job)),
                key=lambda name: self.order_of(name, self.jobs[name]),
            )
            == id
        )

    def order_of(self, id: str, job: Job) -> tuple[Any, ...]:
        return (not job.holds, 0 if job.holds else -job.priority, job.at, id.encode())

    def is_beside(self, other: Job, job: Job) -> bool:
        return other.place == "due" and other.at <= self.now and other.key == job.key

    def runnable(self) -> set[str | None]:
        """The keys with a job that may be handed out."""
        due = {job.key for job in self.jobs.values() if job.place == "due" and job.at <= self.now}
        return {key for key in due if key is None or self.may_go(key) > 0}

    def may_go(self, key: str) -> int:
        """How many due jobs of a key may be handed out now."""
        waiting = [job for job in self.jobs.values() if job.place == "due" and job.key == key]
        due = sum(job.at <= self.now for job in waiting)
        if max(self.paces.get(key, 0) if self.per is not None else 0, self.pauses.get(key, 0)) > self.now:
            return 0
        if self.retry_holds and any(job.holds and job.at > self.now for job in waiting):
            due = sum(job.holds and job.at <= self.now for job in waiting)
        if self.places is not None:
            due = min(due, max(self.places - self.reserved_of(key), 0))
        return due if self.per is None else min(due, 1)

    def reserved_of(self, key: str) -> int:
        return sum(job.place == "reserved" and job.counted_for == key for job in self.jobs.values())

    def note_runnable(self) -> None:
        can = self.runnable()
        self.passed = {key: self.passed.get(key, Counter()) for key in can}

    def hold(self, jobs: Iterable[Job]) -> None:
        """They failed, or were lost, and wait again."""
        for job in jobs:
            job.holds = self.retry_holds and job.key is not None and job.place == "due"

    def put_back(self) -> None:
        over = [job for _, job in self.in_place("reserved", self.now) if job.receipt is not None]
        super().put_back()
        self.hold(over)

    def settle(self, verb: str, id: str, receipt: int, again: bool, wait: int, counts: bool) -> str | None:
        job = self.jobs.get(id)
        was_reserved = job is not None and job.place == "reserved"
        refused = super().settle(verb, id, receipt, again, wait, counts)
        if verb == "release" and job is not None and was_reserved and counts:
            self.hold([job])
        return refused

    def release_holder(self, holder: str, counts: bool) -> int:
        held = self.of_holder(holder)
        released = super().release_holder(holder, counts)
        self.hold(held)
        return released

    def reschedule(self, id: str, at: int) -> None:
        if self.state(id) in ("delayed", "ready"):
            self.jobs[id].holds = False
        super().reschedule(id, at)

    @by_the_table("pop")
    def pop_these(self, ids: list[str], n: int, ttr: int, holder: str) -> None:
        self.put_back()
        for id, _ in self.in_place("dead", self.now - KEEP)[:SWEEP]:
            del self.jobs[id]
        self.note_runnable()
        most = 0 if self.paused > self.now else min(n, max(self.cap - len(self.in_place("reserved", 10**18)), 0))
        assert len(ids) <= most
        receipt = max(self.last + 1, self.now)
        for k, id in enumerate(ids):
            job = self.jobs[id]
            assert job.key in self.runnable(), "no limit of its key forbids it"
            assert self.is_first(id), "a key's jobs come in their order"
            for key, others in self.passed.items():
                others[job.key] += key != job.key
                assert not self.fair or others[job.key] < 2, f"{job.key} came twice, and {key} could run"
            self.passed[job.key] = Counter()
            self.reserve(job, ttr, k, receipt, holder)
            if job.key is not None and self.per is not None:
                self.paces[job.key] = self.now + self.per
            self.note_runnable()
        assert len(ids) == most or not self.runnable(), "nobody who could run is left out"
        self.last = receipt if ids else self.last
        self.popped += len(ids)


class KeyedGame(Game):
    believed: KeyedTopic
    model = KeyedTopic

    def new(self, spec: Any, k: int = 0, n: int = 1) -> tuple[NewJob[Any], Job]:
        real, job = super().new(spec, k, n)
        key = KEYS[next(self.bodies) % len(KEYS)]
        object.__setattr__(real, "key", key)
        job.key = key
        return real, job

    def judge_pop(self, handed_out: list[str], n: int, ttr: int, holder: str) -> None:
        self.believed.pop_these(handed_out, n, ttr, holder)

    @rule(
        places=st.sampled_from([None, 1, 1, 2]),
        rate=st.sampled_from([None, None, (1, SECOND), (3, 60 * SECOND)]),
        fair=st.booleans(),
        holds=st.booleans(),
        really=st.sampled_from([False, True]),
    )
    def limit_keys(
        self, places: int | None, rate: tuple[int, int] | None, fair: bool, holds: bool, really: bool
    ) -> None:
        if not really:
            return
        self.topic.configure(
            key_concurrency=places, key_rate=rate and (rate[0], us(rate[1])), fair=fair, retry_holds_key=holds
        )
        self.believed.retry_holds = holds
        self.believed.places, self.believed.per, self.believed.fair = places, rate and ceil(rate[1] / rate[0]), fair
        self.believed.passed, self.believed.lease = {}, -1

    @rule(cap=st.none() | st.sampled_from([1, 2, 3]), really=st.sampled_from([False, True]))
    def limit(self, cap: int | None, really: bool) -> None:
        if really:
            self.topic.configure(concurrency=cap)
            self.believed.cap, self.believed.lease = cap or 10**9, -1

    @rule(key=st.sampled_from(["k", "l", "测"]), state=st.sampled_from([None, "delayed", "ready", "reserved"]))
    def purge_key(self, key: str, state: Any) -> None:
        """Those that are reserved are found by the key for which they are counted, the others by their own."""
        gone = [
            id
            for id, job in self.believed.jobs.items()
            if (job.place == "due" and job.key == key and state in (None, self.believed.state(id)))
            or (job.place == "reserved" and job.counted_for == key and state in (None, "reserved"))
        ]
        assert self.topic.purge(state, key=key) == len(gone)
        for id in gone:
            job = self.believed.jobs.pop(id)
            self.stale[id] = max(self.stale.get(id, 0), job.receipt or 0)

    @rule(key=st.sampled_from(["k", "l"]), span=st.none() | st.sampled_from([SECOND, 60 * SECOND]))
    def pause_key(self, key: str, span: int | None) -> None:
        if span is None:
            self.topic.resume(key=key)
            self.believed.pauses.pop(key, None)
        else:
            self.topic.pause(us(span), key=key)
            self.believed.pauses[key] = self.believed.now + span
        self.believed.passed = {}

    @invariant()
    def the_numbers_of_keys_are_right(self) -> None:
        if not hasattr(self, "client"):
            return
        held_back = 0
        for key in {key for key in KEYS if key is not None}:
            jobs = [job for job in self.believed.jobs.values() if job.place == "due" and job.key == key]
            ready = sum(job.at <= self.believed.now for job in jobs)
            go = self.believed.may_go(key)
            held_back += ready - go
            found = self.topic.stats(key=key)
            assert (found.delayed, found.ready, found.reserved, found.held_back) == (
                len(jobs) - ready,
                ready,
                self.believed.reserved_of(key),
                ready - go,
            )
            assert (found.limited is not None) == (ready > 0 and go == 0)
        if not self.server.hexists(f"tarry:{{{self.client.namespace}/t}}:meta", "recount"):
            assert self.topic.stats().held_back == held_back

    @invariant()
    def nothing_is_lost(self) -> None:
        """Held back, due, reserved, dead, finished and deleted are all that were added; and the entries by key are those of the jobs."""
        if not hasattr(self, "client"):
            return
        stats = self.topic.stats()
        there = stats.delayed + stats.ready + stats.reserved + stats.dead
        assert there + stats.finished + stats.deleted + stats.replaced + stats.swept + stats.lost == stats.added
        self.believed.note_runnable()
        prefix = f"tarry:{{{self.client.namespace}/t}}:"
        entries = self.server.zrange(prefix + "by_key", 0, -1)
        waiting = Counter(entry.split(b"\0")[0] for entry in entries if entry.split(b"\0", 1)[1][:1] != b"!")
        jobs = [job for job in self.believed.jobs.values() if job.key is not None]
        assert waiting == Counter(job.key.encode() for job in jobs if job.place == "due" and job.key)
        turns = dict(self.server.zrange(prefix + "turns", 0, -1, withscores=True))
        assert set(turns) <= set(waiting)
        first = min(turns.values(), default=None)
        stored = self.server.hget(prefix + "meta", "keyed_next")
        if not self.server.hexists(prefix + "meta", "recount"):
            assert (float(stored) if stored else None) == first


def run_games(url: str, games: int, steps: int, **more: Any) -> None:
    from model import test_model

    game = type("Game", (KeyedGame,), {"url": url})
    run_state_machine_as_test(game, settings=test_model.settings_of(games, steps, **more))


def test_a_topic_with_keys_behaves_like_the_model(valkey_url: str) -> None:
    run_games(valkey_url, 10, 20, derandomize=True, database=None)


@pytest.mark.long
def test_a_topic_with_keys_behaves_like_the_model_in_longer_games(valkey_url: str) -> None:
    run_games(valkey_url, 100, 40, derandomize=True, database=None)


@pytest.mark.long
def test_a_topic_with_keys_behaves_like_the_model_in_random_runs(valkey_url: str) -> None:
    run_games(valkey_url, PLENTY, 50)
