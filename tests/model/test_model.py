"""Hypothesis performs random verbs on a topic on the real server, in imaginary time, and compares it with the model.

After each step both tell the same of every job: its state, the moment its place knows, its attempts, its body. Receipts
rise. In the end ``check`` finds nothing.

The quick run plays the same games each time; the full one new ones, as many as MODEL_GAMES says.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
import redis
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

from model.topic_model import KEEP, Job, Topic
from tarry import Added, BadInput, End, JobExists, NewJob, Reservation, StaleReceipt, TopicFull
from tarry.clients.testing import Clock, TestClient
from tarry.errors import NotKept
from tarry.values.durations import moment_us
from tarry.verbs.jobs import add, settle, steps
from tarry.verbs.jobs.end_values import Position
from tarry.verbs.jobs.options import JobOptions
from tarry.verbs.jobs.records import pack_fault

pytestmark = pytest.mark.slow

SECOND = 1_000_000
PLENTY = int(os.environ.get("MODEL_GAMES", "800"))
IDS = st.sampled_from(["a", "b", "c", "d", "测"])
MANY_IDS = st.lists(IDS, min_size=1, max_size=5, unique=True)
DELAYS = st.sampled_from([0, 0, 0, 1, 2, 5, 1000, 59 * SECOND, 60 * SECOND, 3600 * SECOND])
TTRS = st.sampled_from([1000, 2000, 30 * SECOND, 60 * SECOND])
LIMITS = st.sampled_from([1, 2, 3, None, 20])
PRIORITIES = st.sampled_from([0, 0, 1, 2, 3])
NEW = st.tuples(IDS, DELAYS, LIMITS, st.none() | TTRS, PRIORITIES)
IF_EXISTS = st.sampled_from(["error", "keep", "once", "replace", "update"])
LATEST = st.none() | st.sampled_from([1000, 5000, 59 * SECOND, 61 * SECOND, 3600 * SECOND])
SETTLERS = st.sampled_from(["finish", "touch", "release", "bury"])
WAITS = st.sampled_from([1000, SECOND, 60 * SECOND])
CALLS = st.sampled_from(["once", "twice", "only again"])
ON_THE_WAY = st.sampled_from([0, 0, 0, SECOND // 2, 2 * SECOND])
HOLDERS = st.sampled_from(["web-1", "web-2"])
STATES = st.sampled_from(["delayed", "ready", "reserved", "dead", "retrying", "finished"])


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


class Game(RuleBasedStateMachine):
    url = ""
    model: type[Topic] = Topic

    @initialize()
    def begin(self) -> None:
        self.clock = Clock()
        name = f"model{uuid4().hex}"  # this file is imported twice, by pytest and by test_keys.py
        self.client = TestClient(self.url, self.clock, namespace=name)
        self.other = TestClient(self.url, self.clock, namespace=name)
        self.topic = self.client.topic("t")
        self.believed = self.model(now=self.clock.us)
        self.held: list[Reservation] = []
        self.all_ends: set[tuple[int, bytes, str]] = set()
        self.late_us: dict[tuple[str, int], int] = {}
        self.shown = 0
        self.server = redis.Redis.from_url(self.url)
        self.seen = self.steps = 0
        self.stale: dict[str, int] = {}
        """By id: receipts up to this one certainly did not finish a job that is gone. The server remembers them for a minute."""
        self.bodies = count()

    def teardown(self) -> None:
        if hasattr(self, "client"):
            found = self.topic.check()
            self.topic.purge()
            self.client.close()
            self.other.close()
            self.server.close()
            assert found.ok, found.faults

    def new(
        self, spec: tuple[str, int, int | None, int | None, int], k: int = 0, n: int = 1
    ) -> tuple[NewJob[Any], Job]:
        id, delay, limit, ttr, priority = spec
        number = next(self.bodies)
        body = f"{number}:" + "x" * (7 * number % 60)
        at = self.believed.now + (delay + k if delay else k - n)
        real = NewJob(body, delay=us(delay), id=id, max_attempts=limit, ttr=us(ttr) if ttr else None, priority=priority)
        return real, Job(body, at, limit, ttr, priority=priority)

    # ── adding, popping ──

    @rule(
        spec=NEW, if_exists=IF_EXISTS, latest=LATEST, twice=st.booleans(), by_small=st.booleans(), on_the_way=ON_THE_WAY
    )
    def add(self, spec: Any, if_exists: Any, latest: int | None, twice: bool, by_small: bool, on_the_way: int) -> None:
        real, job = self.new(spec)
        if if_exists == "once" and self.believed.keep_finished is None:
            lease = self.believed.own_lease()
            self.believed.is_full([], if_exists, lease)  # it looks at the limits all the same
            with pytest.raises(NotKept, match="keeps none by its own setting"):
                self.topic.add(real.body, id=real.id, if_exists="once")
            self.believed.learn(lease)
            return
        latest = max(latest, spec[1]) if latest is not None and if_exists == "replace" else None
        opts = JobOptions(
            delay=real.delay or 0,
            if_exists=if_exists,
            ttr=real.ttr,
            max_attempts=real.max_attempts,
            priority=real.priority or 0,
            key=real.key,
        ).encode()
        if latest is not None:
            opts = opts.due_within(us(latest))
        call, lease = add.add_job(self.topic.verbs.context, real.body, opts, real.id), self.believed.own_lease()
        self.time_passes(on_the_way)
        job.at += on_the_way
        is_full = self.believed.is_full([(spec[0], job)], if_exists, lease)
        created, state = (False, "") if is_full else self.believed.add(spec[0], job, if_exists, latest)
        for ask in [call if by_small else call.as_large(), call.as_replay()][: 1 + twice]:
            self.believed.learn(lease)
            if is_full:
                with pytest.raises(TopicFull):
                    self.client.engine.run(ask)
                self.believed.not_added += 1
            elif if_exists == "error" and not created:
                with pytest.raises(JobExists) as told:
                    self.client.engine.run(ask)
                assert told.value.state == state
            else:
                added = self.client.engine.run(ask)
                assert (added.is_new, added.state) == (created, state)

    @rule(specs=st.lists(NEW, min_size=1, max_size=6), latest=LATEST.filter(bool))
    def add_many_within(self, specs: Any, latest: int) -> None:
        latest = max(latest, *(spec[1] for spec in specs))
        pairs = [self.new(spec, k, len(specs)) for k, spec in enumerate(specs)]
        opts = JobOptions(if_exists="replace").encode().due_within(us(latest))
        flow = add.add_jobs(self.topic.verbs.context, [real for real, _ in pairs], opts)
        self.adds_all([spec[0] for spec in specs], pairs, "replace", latest, lambda: self.client.engine.run(flow))

    def adds_all(
        self,
        ids: list[str],
        pairs: list[tuple[NewJob[Any], Job]],
        if_exists: str,
        latest: int | None,
        really: Callable[[], list[Added]],
    ) -> None:
        """All of them or none."""
        lease = self.believed.own_lease()
        if self.believed.is_full([(id, job) for id, (_, job) in zip(ids, pairs, strict=True)], if_exists, lease):
            with pytest.raises(TopicFull):
                really()
            self.believed.not_added += len(ids)
            return
        answers = [self.believed.add(id, job, if_exists, latest) for id, (_, job) in zip(ids, pairs, strict=True)]
        assert [(one.is_new, one.state) for one in really()] == answers
        self.believed.learn(lease)

    @rule(specs=st.lists(NEW, min_size=1, max_size=6), if_exists=IF_EXISTS)
    def add_many(self, specs: Any, if_exists: Any) -> None:
        ids = [spec[0] for spec in specs]
        pairs = [self.new(spec, k, len(specs)) for k, spec in enumerate(specs)]
        reals = [real for real, _ in pairs]
        if if_exists == "once" and self.believed.keep_finished is None:
            lease = self.believed.own_lease()
            self.believed.is_full([], if_exists, lease)  # it looks at the limits all the same
            with pytest.raises(NotKept, match="keeps none by its own setting"):
                self.topic.add_many(reals, if_exists="once")
            self.believed.learn(lease)
        elif if_exists == "error" and len(set(ids)) < len(ids):
            with pytest.raises(BadInput, match="twice"):
                self.topic.add_many(reals)
        elif if_exists == "error" and any(id in self.believed.jobs for id in ids):
            with pytest.raises(JobExists):
                self.topic.add_many(reals)
        else:
            self.adds_all(ids, pairs, if_exists, None, lambda: self.topic.add_many(reals, if_exists=if_exists))

    @rule(n=st.sampled_from([1, 2, 10]), ttr=TTRS, holder=HOLDERS)
    def pop(self, n: int, ttr: int, holder: str = "web-1") -> None:
        self.topic.verbs.holder = holder.encode()
        jobs = self.topic.pop_many(n, ttr=us(ttr))
        self.judge_pop([job.id for job in jobs], n, ttr, holder)
        for job in jobs:
            known = self.believed.jobs[job.id]
            assert (job.receipt, job.attempt, job.body) == (known.receipt, known.attempt, known.body)
            assert job.steps == known.steps
            assert job.receipt > self.seen
            assert job.lateness >= timedelta(0)
        if jobs:
            self.seen = jobs[0].receipt
        self.held += [Reservation(job.id, job.receipt) for job in jobs]
        self.late_us.update({(job.id, job.receipt): job.popped_us - job.due_us for job in jobs})

    def judge_pop(self, handed_out: list[str], n: int, ttr: int, holder: str) -> None:
        assert handed_out == self.believed.pop(n, ttr, holder)

    @rule(n=st.sampled_from([1, 2, 10]))
    def lose_and_pop_again(self, n: int) -> None:
        self.pop(n, 1000)
        self.time_passes(1000 + n)
        self.pop(n, 30 * SECOND)

    # ── settling, with new receipts and with old ones ──

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        verb=SETTLERS,
        wait=WAITS,
        counts=st.booleans(),
        calls=CALLS,
    )
    def settle(self, data: Any, verb: str, wait: int, counts: bool, calls: str) -> None:
        recent = st.sampled_from(self.held[-6:])
        jobs = data.draw(
            st.lists(recent | st.sampled_from(self.held), min_size=1, max_size=4, unique_by=lambda r: r.id)
        )
        self.settles(jobs, verb, wait, counts, calls)

    @rule(n=st.sampled_from([1, 2, 10]), verb=SETTLERS, wait=WAITS, counts=st.booleans(), calls=CALLS)
    def work(self, n: int, verb: str, wait: int, counts: bool, calls: str) -> None:
        before = len(self.held)
        self.pop(n, 30 * SECOND)
        if jobs := self.held[before:]:
            self.settles(jobs, verb, wait, counts, calls)

    def settles(self, jobs: list[Reservation], verb: str, wait: int, counts: bool, calls: str) -> None:
        keys = self.topic.verbs.keys
        call = {
            "finish": lambda: settle.FINISH.call(keys, settle.FINISH.encode(jobs)),
            "touch": lambda: settle.TOUCH.call(keys, settle.TOUCH.encode(jobs, ttr=us(wait))),
            "release": lambda: settle.RELEASE.call(keys, settle.RELEASE.encode(jobs, delay=us(wait), counted=counts)),
            "bury": lambda: settle.BURY.call(keys, settle.BURY.encode(jobs, reason="no")),
        }[verb]()
        for again in {"once": [False], "twice": [False, True], "only again": [True]}[calls]:
            expected = [
                self.believed.settle(verb, job.id, job.receipt, again, wait + k, counts) for k, job in enumerate(jobs)
            ]
            told = self.client.engine.run(call.as_replay() if again else call)
            for job, fault, reason in zip(jobs, told, expected, strict=True):
                late = verb == "finish" and again and job.receipt <= self.stale.get(job.id, 0)
                assert (fault and fault.reason) == reason or (late and fault.reason in ("gone", "again"))
                self.believed.refused += fault is not None
                if verb == "finish" and fault is None:
                    self.stale[job.id] = max(self.stale.get(job.id, 0), job.receipt - 1)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), names=st.lists(st.sampled_from(["charge", "测"]), min_size=1, max_size=3), calls=CALLS)
    def keep_steps(self, data: Any, names: list[str], calls: str) -> None:
        job = data.draw(st.sampled_from(self.held[-3:]) | st.sampled_from(self.held))
        for name in names:
            result = next(self.bodies)
            call = steps.keep_step(self.topic.verbs.keys, job, name, b"%d" % result)
            for again in {"once": [False], "twice": [False, True], "only again": [True]}[calls]:
                expected = self.believed.keep_step(job.id, job.receipt, again, name, result)
                told: str | int
                try:
                    told = int(self.client.engine.run(call.as_replay() if again else call))
                except StaleReceipt as refusal:
                    told = refusal.reason
                    self.believed.refused += 1
                assert told == expected

    @precondition(lambda self: self.held)
    @rule(data=st.data(), wait=WAITS, calls=CALLS, fault=st.sampled_from(["", pack_fault("", "nobody knows it")]))
    def put_back_unseen(self, data: Any, wait: int, calls: str, fault: str) -> None:
        job = data.draw(st.sampled_from(self.held[-6:]))
        late_us = self.late_us[job.id, job.receipt]
        call = settle.fail(
            self.topic.verbs.keys, settle.Failure(job, b"%d" % wait, fault, counted=False, unseen_us=late_us)
        )
        for again in {"once": [False], "twice": [False, True], "only again": [True]}[calls]:
            known = self.believed.jobs.get(job.id)
            was_held = known is not None and known.place == "reserved"
            expected = self.believed.settle("release", job.id, job.receipt, again, wait, False)
            told = None
            try:
                self.client.engine.run(call.as_replay() if again else call)
            except StaleReceipt as refusal:
                told = refusal.reason
            assert told == expected
            self.believed.refused += told is not None
            self.believed.popped -= was_held and self.believed.jobs[job.id].place == "due"

    @rule(holder=HOLDERS, counts=st.booleans())
    def release_holder(self, holder: str, counts: bool) -> None:
        assert self.topic.release_holder(holder, counted=counts) == self.believed.release_holder(holder, counts)

    @rule(holder=HOLDERS, ttr=TTRS)
    def touch_holder(self, holder: str, ttr: int) -> None:
        assert self.topic.touch_holder(holder, ttr=us(ttr)) == self.believed.touch_holder(holder, ttr)

    # ── by id, and as a whole ──

    @rule(ids=MANY_IDS, twice=st.booleans())
    def kick(self, ids: list[str], twice: bool) -> None:
        for _ in range(1 + twice):
            expected = [self.believed.state(id) for id in ids]
            for k, id in enumerate(ids):
                self.believed.kick(id, self.believed.now - len(ids) + k)
            assert self.topic.kick_many(ids) == expected

    @rule(ids=MANY_IDS)
    def delete(self, ids: list[str]) -> None:
        assert self.topic.delete_many(ids) == [self.believed.state(id) for id in ids]
        for id in ids:
            if (gone := self.believed.jobs.pop(id, None)) is not None:
                self.stale[id] = max(self.stale.get(id, 0), gone.receipt or 0)

    @rule(ids=MANY_IDS, delay=DELAYS)
    def reschedule(self, ids: list[str], delay: int) -> None:
        assert self.topic.reschedule_many(ids, delay=us(delay)) == [self.believed.state(id) for id in ids]
        for id in ids:
            self.believed.reschedule(id, self.believed.now + delay)

    @rule(state=st.none() | STATES, really=st.sampled_from([False, False, True]))
    def purge(self, state: Any, really: bool) -> None:
        if not really:
            return  # else most games would be about empty topics
        retrying = self.believed.retrying()
        gone = [
            id
            for id in self.believed.jobs
            if state in (None, self.believed.state(id)) or (state == "retrying" and id in retrying)
        ]
        expected = len(self.believed.kept()) if state == "finished" else len(gone)
        assert self.topic.purge(state) == expected
        for id in gone:
            del self.believed.jobs[id]
        if state in (None, "finished"):
            self.believed.history.clear()

    @rule(keep=st.none() | st.sampled_from([SECOND, 60 * SECOND, 3600 * SECOND]), really=st.booleans())
    def keep_finished(self, keep: int | None, really: bool) -> None:
        if not really:
            return
        self.topic.configure(keep_finished=us(keep) if keep else None)
        self.believed.keep_finished, self.believed.lease = keep, -1  # whatever is set, a client asks anew

    @rule(span=st.none() | DELAYS.filter(bool), really=st.sampled_from([False, False, True]))
    def pause(self, span: int | None, really: bool) -> None:
        if not really:
            return
        self.topic.pause(us(span) if span else None)
        self.believed.paused = self.believed.now + (span or 10**15)

    @rule(cap=st.none() | st.sampled_from([1, 2, 3]), latest=st.none() | WAITS, really=st.sampled_from([False, True]))
    def limit(self, cap: int | None, latest: int | None, really: bool) -> None:
        if not really:
            return
        self.topic.configure(concurrency=cap, max_lateness=us(latest) if latest else None)
        self.believed.cap, self.believed.latest, self.believed.lease = cap or 10**9, latest or 10**18, -1

    @rule(
        most=st.none() | st.sampled_from([1, 2, 3]),
        most_bytes=st.none() | st.sampled_from([60, 150]),
        by_another=st.booleans(),
        really=st.sampled_from([False, True]),
    )
    def limit_producers(self, most: int | None, most_bytes: int | None, by_another: bool, really: bool) -> None:
        if not really:
            return
        topic = self.other.topic("t") if by_another else self.topic
        topic.configure(max_pending=most, max_pending_bytes=most_bytes)
        self.believed.limit_producers(most, most_bytes)
        if not by_another:
            self.believed.lease = -1

    @rule()
    def check(self) -> None:
        found = self.topic.check()
        assert found.ok, found.faults
        self.believed.weigh()

    @rule()
    def resume(self) -> None:
        self.topic.resume()
        self.believed.paused = 0

    # ── ends ──

    @rule(data=st.data(), limit=st.integers(1, 3), back=st.sampled_from([0, 1, SECOND, 60 * SECOND, 4000 * SECOND]))
    def read_ends(self, data: Any, limit: int, back: int) -> None:
        """From any place on: those that are kept, each once, in their order; a gap is said where another one was."""
        moments = sorted({at for at, *_ in self.all_ends})
        begin = data.draw(st.sampled_from([self.believed.now - back, *(at + off for at in moments for off in (0, 1))]))
        position, rows, told = Position(begin), list[Any](), -1
        while True:
            operation = self.topic.verbs.ends(position, limit)
            if self.believed.keep_finished is None:
                with pytest.raises(NotKept):
                    self.client.engine.run(operation)
                return
            page = self.client.engine.run(operation)
            for one in page.found:
                if isinstance(one, End):
                    rows.append((moment_us(one.at), one.job.id.encode(), one.job.state))
                else:
                    told = max(told, moment_us(one.until))
            assert position <= page.position
            if not page.again_in_s and page.again_in_s is not None:
                position = page.position
                continue
            break
        ended = {end for end in self.all_ends if begin <= end[0] < self.believed.now}
        kept = {end for end in self.believed.ends() if begin <= end[0] < self.believed.now}
        assert rows == sorted(set(rows))
        assert set(rows) <= kept
        assert [end for end in ended - set(rows) if end[0] > told] == []

    # ── time ──

    @rule(span=st.one_of(DELAYS, st.integers(0, 120 * SECOND), st.sampled_from([1, 1, 1, KEEP])))
    def time_passes(self, span: int) -> None:
        self.clock.advance(us(span))
        self.believed.now = self.clock.us

    @rule(which=st.integers(0, 3), off=st.sampled_from([-1, 0, 0, 1]))
    def time_passes_to_a_deadline(self, which: int, off: int) -> None:
        ahead = {job.at + (KEEP if job.place == "dead" else 0) for job in self.believed.jobs.values()}
        moments = sorted(at for at in ahead if at > self.believed.now)
        if moments:
            self.time_passes(max(moments[min(which, len(moments) - 1)] + off - self.believed.now, 0))

    # ── what must be so after each step ──

    @invariant()
    def both_tell_the_same(self) -> None:
        if not hasattr(self, "client"):
            return
        believed = {
            id: (self.believed.state(id), job.at, job.attempt, job.body, job.priority, job.steps, job.key)
            for id, job in self.believed.jobs.items()
        }
        listed = self.topic.list(limit=1000)
        real = {
            job.id: (job.state, job._since, job.attempts, job.body, job.priority, job.steps, job.key) for job in listed
        }
        assert real == believed
        stats = self.topic.stats()
        assert stats.added == self.believed.added
        assert stats.popped >= max(self.believed.popped, self.shown), "it never falls"
        self.shown = stats.popped
        assert (stats.refused, stats.too_late) == (self.believed.refused, self.believed.too_late)
        assert (stats.not_added, stats.pending_bytes) == (self.believed.not_added, self.believed.pending_bytes())
        states = [state for state, *_ in believed.values()]
        for state in ("delayed", "ready", "reserved", "dead"):
            assert getattr(stats, state) == states.count(state)
        retrying = sorted(self.believed.retrying())
        assert stats.retrying == len(retrying)
        self.all_ends |= self.believed.ends()
        kept = self.believed.kept()
        assert stats.finished_kept == len(kept)
        self.steps += 1
        if self.steps % 5 == 0:
            self.views_tell_the_same(retrying, kept)

    def views_tell_the_same(self, retrying: list[str], kept: list[str]) -> None:
        """What is counted in other places, and the jobs by state: a fault there stays, so it is not looked for after each step."""
        meta = self.server.hgetall(f"tarry:{{{self.client.namespace}/t}}:meta")
        counts = [int(n) for field, n in meta.items() if field.startswith(b"late:") or field == b"noted"]
        assert sum(counts) == self.believed.popped
        assert min(counts, default=0) >= 0
        assert sorted(job.id for job in self.topic.list("retrying", limit=1000)) == retrying
        assert sorted(job.id for job in self.topic.list("delayed", limit=1000) if job.retrying) == retrying
        assert [job.id for job in self.topic.list("finished", limit=1000)] == kept
        for id, job in zip(kept, self.topic.get_many(kept), strict=True):
            assert job is not None
            assert job.state == (self.believed.state(id) or "finished")


def run_games(url: str, games: int, steps: int, **more: Any) -> None:
    """``more``: whether the games are new ones."""
    game = type("Game", (Game,), {"url": url})
    run_state_machine_as_test(game, settings=settings_of(games, steps, **more))


def settings_of(games: int, steps: int, **more: Any) -> settings:
    return settings(
        max_examples=games,
        stateful_step_count=steps,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        **more,
    )


def test_a_topic_behaves_like_the_model(valkey_url: str) -> None:
    """Promise: Exactly one place; Places; Attempts."""
    run_games(valkey_url, 60, 40, derandomize=True, database=None)


@pytest.mark.long
def test_a_topic_behaves_like_the_model_in_random_runs(valkey_url: str) -> None:
    run_games(valkey_url, PLENTY, 50)
