"""A model of a topic: places and a clock. The real topic is compared with it, step by step.

A job is in one place; its state is that place and the clock. Times are microseconds.

Run:  ``.venv/bin/python -m pytest tests/model -m "not long"`` plays the same games each time; ``MODEL_GAMES=5000 … -m long`` new ones.
Give: a rule of ``Game`` (test_model.py) does the same to the real topic and to ``Topic``, and asserts that both answer alike.
Get:  after each rule both are compared by ``both_tell_the_same``; a failure is the shortest list of rules that shows it.
Add:  a verb is a method of ``Topic`` with ``@by_the_table("verb")``, which fails for a step that the life cycle does not have, and a
      rule of ``Game``. What a topic shows anew is compared in ``both_tell_the_same``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from life_cycle import STEPS

P = ParamSpec("P")
R = TypeVar("R")
KEEP, SWEEP = 30 * 86_400_000_000, 16
LEASE = 1_000_000
REVIVES = ("replace", "update")


def by_the_table(
    cause: str,
) -> Callable[[Callable[Concatenate[Topic, P], R]], Callable[Concatenate[Topic, P], R]]:
    """Each change of state that the method makes is a step of the life cycle; ``settle`` is told its verb."""

    def decorate(method: Callable[Concatenate[Topic, P], R]) -> Callable[Concatenate[Topic, P], R]:
        @wraps(method)
        def checked(self: Topic, *args: P.args, **kwargs: P.kwargs) -> R:
            verb = str(args[0]) if cause == "settle" else cause
            # A repeated call also settles what timed out meanwhile, or died of it: nobody else has had the job.
            repeated = args[1] if cause == "settle" and args[3] else None
            before = {id: (self.state(id), job.place == "reserved" or id == repeated) for id, job in self.jobs.items()}
            answer = method(self, *args, **kwargs)
            for id in before.keys() | self.jobs.keys():
                old, held = before.get(id, ("new", False))
                new = self.state(id) or "gone"
                steps = {(verb, old, new), (verb, "reserved", new) if held else None}
                assert old == new or steps & TABLE, (verb, old, new)
            return answer

        return checked

    return decorate


TABLE: set[Any] = {step[:3] for step in STEPS}


@dataclass
class Job:
    body: Any
    at: int
    own_limit: int | None = 20
    own_ttr: int | None = None
    place: str = "due"
    attempt: int = 0
    limit: int | None = None
    holder: str = ""
    failed: bool = False  # an attempt that counted has failed, since the job was added or kicked
    receipt: int | None = None  # of the last hand-out since the job was added or kicked
    priority: int = 0
    first: int = 0  # when the first of the adds came that no handler has had
    created: int = 0
    changed: bool = False  # since the last hand-out
    steps: dict[str, int] = field(default_factory=dict)  # of this body
    key: str | None = None
    holds: bool = False  # it waits for a retry, and holds its key
    counted_for: str | None = None  # the key of the last hand-out: an update may have changed it since

    @property
    def size(self) -> int:
        """Of the body, as JSON."""
        return len(json.dumps(self.body))


@dataclass
class Topic:
    jobs: dict[str, Job] = field(default_factory=dict)
    now: int = 0
    last: int = 0
    paused: int = 0
    cap: int = 10**9
    latest: int = 10**18
    added: int = 0
    popped: int = 0  # without the hand-outs that were taken out again
    refused: int = 0
    too_late: int = 0
    keep_finished: int | None = None
    most: int | None = None
    most_bytes: int | None = None
    since: int = 0  # when the last lease ends that was given before these limits
    lease: int = -1  # of the client that adds: the second in which it does not look for limits
    weighed: bool = False  # the bytes of the bodies that wait are counted
    not_added: int = 0
    history: dict[str, int] = field(default_factory=dict)
    """Of each finished job that is kept: when its keep ends."""
    ended: dict[str, int] = field(default_factory=dict)
    """Of each of them: when it was finished."""

    def ends(self) -> set[tuple[int, bytes, str]]:
        """The ends that are kept: moment, id and state."""
        dead = {(job.at, id.encode(), "dead") for id, job in self.jobs.items() if job.place == "dead"}
        return dead | {(self.ended[id], id.encode(), "finished") for id in self.kept()}

    def kept(self) -> list[str]:
        """The ids of the finished jobs that are kept, in order."""
        found = [id for id, ends in self.history.items() if ends > self.now]
        return sorted(found, key=lambda one: (self.history[one], one.encode()))

    def has_ended(self, id: str) -> bool:
        """Whether `once` finds a finished job."""
        return id not in self.jobs and self.history.get(id, 0) > self.now

    def state(self, id: str) -> str | None:
        job = self.jobs.get(id)
        if job is None:
            return None
        if job.place == "due":
            return "delayed" if job.at > self.now else "ready"
        return "ready" if job.place == "reserved" and job.at <= self.now else job.place

    def retrying(self) -> list[str]:
        """The ids of the delayed jobs that have failed before."""
        return [id for id, job in self.jobs.items() if self.state(id) == "delayed" and job.failed]

    def in_place(self, place: str, until: int) -> list[tuple[str, Job]]:
        found = [(id, job) for id, job in self.jobs.items() if job.place == place and job.at <= until]
        return sorted(found, key=lambda pair: (pair[1].at, pair[0].encode()))

    def waiting(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.place == "due"]

    def pending_bytes(self) -> int | None:
        return sum(job.size for job in self.waiting()) if self.weighed else None

    def limit_producers(self, most: int | None, most_bytes: int | None) -> None:
        if (self.most, self.most_bytes) == (None, None):
            self.since = self.now + LEASE
        self.most, self.most_bytes = most, most_bytes
        self.weighed = self.weighed and most_bytes is not None

    def weigh(self) -> None:
        """The bytes are counted, if they are limited, and every producer knows of it."""
        self.weighed = self.weighed or (self.most_bytes is not None and self.now >= self.since)

    def is_full(self, specs: list[tuple[str, Job]], if_exists: str, lease: int) -> bool:
        """Whether the topic has no room for those that are new. ``lease``: with which they are sent."""
        if lease == self.now // LEASE or (self.most, self.most_bytes) == (None, None):
            return False
        self.weigh()
        first = dict(reversed(specs))
        new = [
            job.size
            for id, job in first.items()
            if (id not in self.jobs and not (if_exists == "once" and self.has_ended(id)))
            or (if_exists in REVIVES and id in self.jobs and self.jobs[id].place == "dead")
        ]
        if not new:
            return False
        over = self.most is not None and len(self.waiting()) + len(new) > self.most
        return over or (self.most_bytes is not None and (self.pending_bytes() or 0) + sum(new) > self.most_bytes)

    def learn(self, lease: int) -> None:
        """What the client knows of the limits, after an add that was sent with a lease, and was answered."""
        if (self.most, self.most_bytes) != (None, None):
            self.lease = self.lease if lease == self.now // LEASE else -1
        else:
            self.lease = self.now // LEASE

    def own_lease(self) -> int:
        """With which the client sends an add."""
        return self.lease if self.now // LEASE == self.lease else -1

    @by_the_table("add")
    def add(self, id: str, new: Job, if_exists: str, latest: int | None = None) -> tuple[bool, str]:
        """Created or not, and the state that answers."""
        old, state = self.jobs.get(id), str(self.state(id))
        if if_exists == "once" and self.has_ended(id):
            return False, "finished"
        if old is not None and if_exists == "update" and state != "dead":
            old.first = self.window_begins(id, old)
            old.changed = old.receipt is not None
            old.steps = {}
            old.body, old.own_limit = new.body, new.own_limit
            old.own_ttr, old.priority = new.own_ttr or old.own_ttr, new.priority or old.priority
            old.key = new.key or old.key
            return False, state
        if old is not None and if_exists not in ("replace", "update"):
            return False, state
        new.first = new.created = self.now
        if latest is not None:
            new.first = self.now if old is None else self.window_begins(id, old)
            new.at = min(new.at, new.first + latest)
        self.jobs[id] = new
        self.added += 1
        return True, str(self.state(id))

    def window_begins(self, id: str, job: Job) -> int:
        """When the first of the adds came that no handler has had."""
        waits = self.state(id) in ("delayed", "ready") and job.attempt == 0
        return job.first if waits or job.changed else self.now

    def fails(self, job: Job) -> bool:
        """An attempt failed. Whether the job is dead; one that was changed since begins from zero."""
        job.failed = True
        is_last = job.limit is not None and job.attempt >= job.limit
        if is_last and job.changed:
            job.attempt = 0
        return is_last and not job.changed

    def put_back(self) -> None:
        for _, job in self.in_place("reserved", self.now):
            is_dead = job.receipt is not None and self.fails(job)
            job.place, job.at = ("dead", self.now) if is_dead else ("due", job.at)

    @by_the_table("pop")
    def pop(self, n: int, ttr: int, holder: str = "") -> list[str]:
        self.put_back()
        for id, _ in self.in_place("dead", self.now - KEEP)[:SWEEP]:
            del self.jobs[id]
        room = max(self.cap - len(self.in_place("reserved", 10**18)), 0)
        ready = []
        due = sorted(self.in_place("due", self.now), key=lambda pair: -pair[1].priority)  # of one priority as they were
        for id, job in [] if self.paused > self.now or not room else due:
            if len(ready) == min(n, room):
                break
            if self.now - job.at > self.latest:
                job.place, job.at = "dead", self.now
                self.too_late += 1
            else:
                ready.append((id, job))
        receipt = max(self.last + 1, self.now)
        for k, (_, job) in enumerate(ready):
            self.reserve(job, ttr, k, receipt, holder)
        self.last = receipt if ready else self.last
        self.popped += len(ready)
        return [id for id, _ in ready]

    def reserve(self, job: Job, ttr: int, k: int, receipt: int, holder: str) -> None:
        job.place, job.at = "reserved", self.now + (job.own_ttr or ttr) + k
        job.attempt, job.limit, job.receipt = job.attempt + 1, job.own_limit, receipt
        job.holder, job.changed, job.counted_for, job.holds = holder, False, job.key, False

    def fault(self, job: Job | None, receipt: int, again: bool) -> str | None:
        """Why a receipt does not hold; "replay": this call was done before, or nobody else has had the job since."""
        if job is None or job.receipt is None:
            return "replay" if again else "gone" if job is None else "never"
        if job.receipt != receipt:
            return "again"
        if job.place == "reserved" and (job.at > self.now or again):
            return None
        if again:
            return "replay"
        return {"reserved": "timed out", "dead": "dead", "due": "released"}[job.place]

    @by_the_table("settle")
    def settle(self, verb: str, id: str, receipt: int, again: bool, wait: int, counts: bool) -> str | None:
        """Does it, or answers why not."""
        job = self.jobs.get(id)
        fault = self.fault(job, receipt, again)
        if job is not None and fault == "again" and again and verb == "finish" and receipt < job.created:
            return None  # of the job that had the id before
        if job is None or job.receipt is None or fault not in (None, "replay"):
            return None if fault == "replay" and verb == "finish" else "gone" if fault == "replay" else fault
        if verb == "finish" and job.changed:
            # its reservation is over: it waits, and counts against the limits for producers from the next pop on
            job.place, job.at, job.attempt, job.receipt, job.holder = "reserved", self.now, 0, None, ""
            job.failed = job.changed = False
            job.created = self.now
            self.added += 1
        elif verb == "finish":
            del self.jobs[id]
            if self.keep_finished is not None:
                self.history[id] = self.now + self.keep_finished
                self.ended[id] = self.now
        elif verb == "touch" and fault:
            return "released"
        elif verb == "touch":
            job.at = self.now + wait
        elif verb == "bury" and job.changed:
            if not fault:
                job.place, job.at, job.attempt, job.failed = "due", self.now, 0, True
        elif verb == "bury" and job.place != "dead":
            job.place, job.at = "dead", self.now
        elif verb == "release" and not fault:
            job.place, job.at = ("dead", self.now) if counts and self.fails(job) else ("due", self.now + wait)
            job.attempt -= not counts
        return None

    def keep_step(self, id: str, receipt: int, again: bool, name: str, result: int) -> str | int:
        """The result that the step has, or why the receipt does not hold. Steps end with their body."""
        job = self.jobs.get(id)
        fault = self.fault(job, receipt, again)
        if job is None or job.receipt is None or fault is not None:
            return (
                "gone"
                if fault == "replay" and (job is None or job.receipt is None)
                else {"replay": "released"}.get(str(fault), str(fault))
            )
        return result if job.changed else job.steps.setdefault(name, result)

    def of_holder(self, holder: str) -> list[Job]:
        """What one process has in its hands, in the order in which it was handed out or touched."""
        return [job for _, job in self.in_place("reserved", 10**18) if job.holder == holder]

    @by_the_table("release")
    def release_holder(self, holder: str, counts: bool) -> int:
        held = self.of_holder(holder)
        for k, job in enumerate(held):
            job.place, job.at = ("dead", self.now) if counts and self.fails(job) else ("due", self.now - len(held) + k)
            job.attempt -= not counts
        return len(held)

    def touch_holder(self, holder: str, ttr: int) -> int:
        held = [job for job in self.of_holder(holder) if self.now < job.at < self.now + ttr]
        for k, job in enumerate(held):
            job.at = self.now + ttr + k
        return len(held)

    @by_the_table("kick")
    def kick(self, id: str, at: int) -> None:
        if self.state(id) == "dead":
            job = self.jobs[id]
            job.place, job.at, job.attempt, job.receipt, job.failed = "due", at, 0, None, False
            job.changed = False

    @by_the_table("reschedule")
    def reschedule(self, id: str, at: int) -> None:
        if self.state(id) in ("delayed", "ready"):
            self.jobs[id].place, self.jobs[id].at = "due", at
