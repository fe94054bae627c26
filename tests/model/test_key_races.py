"""Races of clients whose jobs have keys: two end at once, with answers that are lost, and a purge and a pop between; and consumers that are
killed on each side of each exchange. Never are more jobs of a key reserved than its limit, nothing is lost, and no key is stuck.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import pytest

from model.test_two_producers import orders
from tarry import NewJob, StaleReceipt
from tarry.clients.testing import TestClient
from tarry.values.keys import part_key
from tarry.verbs.jobs import settle
from warm import WarmTarry

KEYS = ("k", "l")
VERBS = ("finish", "release", "bury")
PROGRAM = Path(__file__).with_name("killed_consumer.py")


def part(client: TestClient, name: str) -> bytes:
    topic: Any = client.topic("t")
    return part_key(topic.verbs.keys, name)


def check(client: TestClient, server: Any, places: int) -> Any:
    """What is true at every moment, by the numbers and by what is stored."""
    stats = client.topic("t").stats()
    left = stats.delayed + stats.ready + stats.reserved + stats.dead
    assert left + stats.finished + stats.deleted + stats.replaced + stats.swept + stats.lost == stats.added
    entries = [entry.split(b"\0", 1) for entry in server.zrange(part(client, "by_key"), 0, -1)]
    held = Counter(key for key, rest in entries if rest[:1] == b"!")
    assert max(held.values(), default=0) <= places
    assert {rest[1:] for _, rest in entries if rest[:1] == b"!"} <= set(server.zrange(part(client, "reserved"), 0, -1))
    assert sorted(rest[9:] for _, rest in entries if rest[:1] != b"!") == sorted(
        server.zrange(part(client, "keyed"), 0, -1)
    )
    return stats


def drain(client: TestClient, server: Any, places: int, more: Iterable[str] = KEYS) -> None:
    """Whatever waits is handed out, and a job that comes is, too."""
    topic: Any = client.topic("t")
    for key in more:
        topic.add("last", key=key)
    in_vain = 0
    while (stats := check(client, server, places)).delayed + stats.ready + stats.reserved:
        jobs = topic.pop_many(10)
        topic.finish_many(jobs)
        in_vain = 0 if jobs else in_vain + 1
        assert in_vain < 10, "a key is stuck"
        if not jobs:
            client.clock.advance("1h")
    assert topic.check().ok
    assert not server.exists(*(part(client, name) for name in ("turns", "by_key", "keyed")))


def call_of(topic: Any, verb: str, job: Any, delay: int = 0) -> Any:
    keys = topic.verbs.keys
    return {
        "finish": lambda: settle.FINISH.call(keys, settle.FINISH.encode([job])),
        "release": lambda: settle.RELEASE.call(keys, settle.RELEASE.encode([job], delay=delay)),
        "bury": lambda: settle.BURY.call(keys, settle.BURY.encode([job])),
    }[verb]()


class Race:
    """One order of the calls of two clients, who end the same job, or each one of a full key."""

    def __init__(self, client: TestClient, server: Any, verbs: tuple[str, str], *, same: bool) -> None:
        self.client, self.server, self.places = client, server, 1 if same else 2
        self.topic: Any = client.topic("t")
        self.topic.configure(key_concurrency=self.places)
        self.topic.add_many([NewJob(n, key="k") for n in range(4)])
        jobs = self.topic.pop_many(self.places)
        assert len(jobs) == self.places
        self.calls = {
            name: call_of(self.topic, verb, job, delay=5)
            for name, verb, job in zip("ab", verbs, cycle(jobs), strict=False)
        }
        self.told: dict[str, list[Any]] = {"a": [], "b": []}

    def step(self, name: str) -> None:
        if name[0] in self.calls:
            call = self.calls[name[0]]
            (refusal,) = self.client.engine.run(call.as_replay() if name.endswith("again") else call)
            assert refusal is None or isinstance(refusal, StaleReceipt)
            self.told[name[0]].append(refusal)
        elif name == "purge":
            self.topic.purge("reserved", key="k")
        elif name == "late":
            self.client.clock.advance("10m")
        else:
            self.topic.pop()

    def run(self, order: tuple[str, ...]) -> None:
        for name in order:
            self.step(name)
            check(self.client, self.server, self.places)
        won = [name for name, told in self.told.items() if told[0] is None]
        if order.index("purge") > max(order.index("a"), order.index("b")):
            assert len(won) == self.places, "of those who ended the same job one did"
        assert len(won) <= self.places
        drain(self.client, self.server, self.places, "k")
        self.topic.purge("dead")


@pytest.mark.parametrize("same", [True, False], ids=["same job", "same key"])
@pytest.mark.parametrize("all_orders", [False, pytest.param(True, marks=pytest.mark.long)], ids=["some", "all"])
def test_two_clients_end_jobs_of_a_full_key(client: TestClient, server: Any, same: bool, all_orders: bool) -> None:
    """Each order of two ends, their repetitions, a purge of the key and a pop, or some of the orders; each with the next pair of verbs."""
    pairs = cycle(product(VERBS, VERBS))
    between = (("purge", "late"), ("pop",)) if all_orders else (("purge",), ("pop",))
    every = orders(("a", "a again"), ("b", "b again"), *between)
    for order in every if all_orders else islice(every, 0, None, 11):
        Race(client, server, next(pairs), same=same).run(order)


@pytest.mark.parametrize("rounds", [8, pytest.param(500, marks=pytest.mark.long)])
def test_two_threads_end_jobs_of_full_keys_at_the_same_time(
    valkey_url: str, client: TestClient, server: Any, rounds: int
) -> None:
    """Each end is repeated at once, as if its answer were lost; in half of the rounds a third client purges what is reserved of a key."""
    topic: Any = client.topic("t")
    topic.configure(key_concurrency=2, fair=True, retry_holds_key=True)
    topic.add_many([NewJob(n, key=KEYS[n % 2]) for n in range(8)])
    ended, purged, barrier, is_purged = Counter[str](), Counter[str](), threading.Barrier(3), False
    between = 0

    def end(another: TestClient, jobs: list[Any], verb: str) -> None:
        barrier.wait()
        for job in jobs:
            call = call_of(another.topic("t"), verb, job)
            (refusal,) = another.engine.run(call)
            assert refusal is None or isinstance(refusal, StaleReceipt)
            ended[job.id] += refusal is None
            if refusal is None:
                (again,) = another.engine.run(call.as_replay())
                assert again is None or (is_purged and isinstance(again, StaleReceipt))

    def purge(another: TestClient) -> None:
        barrier.wait()
        purged["k"] = another.topic("t").purge("reserved", key="k") if is_purged else 0

    with ExitStack() as stack:
        others = [
            stack.enter_context(TestClient(valkey_url, client.clock, namespace=client.namespace)) for _ in range(3)
        ]
        threads = stack.enter_context(ThreadPoolExecutor(3))
        for number in range(rounds):
            jobs = topic.pop_many(8)
            assert Counter(job.key for job in jobs) == dict.fromkeys(KEYS, 2)
            ended.clear()
            is_purged = number // 2 % 2 == 1
            shares = (jobs, jobs[::-1]) if number % 2 else (jobs[:2], jobs[2:])
            verbs = (VERBS[number % 3], VERBS[number // 2 % 3])
            calls: list[Any] = [threads.submit(end, *args) for args in zip(others[:2], shares, verbs, strict=True)]
            for call in [*calls, threads.submit(purge, others[2])]:
                call.result()
            assert max(ended.values()) == 1, "none was ended twice"
            by_key = Counter(job.key for job in jobs if ended[job.id])
            assert by_key + purged == dict.fromkeys(KEYS, 2), "each was ended, or purged"
            between += purged["k"] == 1
            check(client, server, 2)
            topic.kick_many([job.id for job in topic.list("dead").jobs])
            topic.add_many([NewJob(0, key=key) for key in KEYS for _ in range(2)])
    assert between > 0 or rounds < 100, "sometimes the purge came between two ends"
    drain(client, server, 2)


@pytest.mark.parametrize("lives", [1, pytest.param(20, marks=pytest.mark.long)])
def test_consumers_that_are_killed_around_each_exchange_leave_no_key_stuck(
    valkey_url: str, client: TestClient, server: Any, tarry_command: WarmTarry, lives: int
) -> None:
    topic: Any = client.topic("t")
    with tarry_command.talk_to(PROGRAM, valkey_url, client.namespace) as (_, stdin, stdout):
        for life in range(lives):
            places = 1 + life % 2
            topic.configure(key_concurrency=places, fair=life % 3 != 1, retry_holds_key=life % 2 == 0)
            exchanges = 0
            for exchanges in range(100):
                print(client.clock.us, exchanges, file=stdin)
                code = int(stdout.readline())
                check(client, server, places)
                job = topic.pop()
                if job is not None:
                    topic.finish(job)
                client.clock.advance("20s" if exchanges % 2 else "61s")
                topic.pop()  # whoever has it is gone, too
                if code == 0:
                    break
                assert code == -9
            assert 15 < exchanges < 50
            drain(client, server, places)
