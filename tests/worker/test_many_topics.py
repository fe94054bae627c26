"""A worker with thousands of topics: each costs the same at the start, and nothing while it is empty. Counted, not timed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

import tarry
from tarry.clients.awaited.engine import TOPICS_PER_WAITER
from tarry.clients.awaited.waiter import Waiter
from tarry.clients.testing import Clock, TestClient
from tarry.core.requests import Batch
from tarry.core.watch import BlockStep, Caller, LookStep, PopStep, WaitStep, Watch
from tarry.values.keys import TopicKeys, topic_keys
from tarry.verbs.jobs import pop, watch_steps
from tarry.verbs.jobs.watch_steps import perform_step
from tarry.worker import worker_process as process
from until import until

FEW, MANY = 50, 200


async def handle(job: tarry.AsyncJob[Any]) -> None: ...


def worker_for(topics: int, url: str, namespace: str, **options: Any) -> tarry.Worker:
    worker = tarry.Worker(url=url, namespace=namespace, **options)
    for number in range(topics):
        worker.on(f"t{number}")(handle)
    return worker


@contextmanager
def calls_counted() -> Generator[Callable[[], int]]:
    """Counts the calls of functions in this thread."""
    count = 0

    def note(_frame: Any, event: str, _arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        yield lambda: count
    finally:
        sys.setprofile(None)


def test_a_topic_costs_the_same_to_register_however_many_there_are(valkey_url: str, namespace: str) -> None:
    counts = []
    for topics in (FEW, MANY):
        with calls_counted() as counted:
            worker_for(topics, valkey_url, namespace)
            counts.append(counted())
    assert counts[1] < 1.5 * counts[0] * MANY / FEW


def test_a_start_costs_each_topic_the_same_however_many_there_are(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    async def start(topics: int) -> int:
        worker = worker_for(topics, valkey_url, namespace)
        done = asyncio.Event()

        @worker.on("last")
        async def end(job: tarry.AsyncJob[Any]) -> None:
            done.set()

        client.topic("last").add(topics)
        with calls_counted() as counted:
            async with worker:
                await done.wait()
        return counted()

    counts = [asyncio.run(start(topics)) for topics in (FEW, MANY)]
    assert counts[1] < 1.5 * counts[0] * MANY / FEW


def waiters(client: tarry.AsyncClient) -> list[Waiter]:
    return [waiter for _, waiter in client.engine._waiters.items()]


def callers_of(waiter: Waiter) -> int:
    return len(list(waiter._watch))


def test_so_many_topics_share_a_waiting_connection(valkey_url: str, namespace: str) -> None:
    async def story() -> None:
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            topics = [client.topic(f"t{number}") for number in range(2 * TOPICS_PER_WAITER + 1)]
            waits = [asyncio.ensure_future(topic.pop(wait=None)) for topic in topics]
            await asyncio.to_thread(until, lambda: sum(map(callers_of, waiters(client))) == len(topics))
            assert sorted(map(callers_of, waiters(client))) == [
                1, TOPICS_PER_WAITER, TOPICS_PER_WAITER,
            ]  # fmt: skip
            both = asyncio.ensure_future(client.pop(topics[0], topics[-1], wait=None))
            await topics[-1].add("x")
            [popped], _ = await asyncio.wait([waits[-1], both], return_when=asyncio.FIRST_COMPLETED)
            assert (await popped).body == "x", "one of two callers that wait in different connections"

    asyncio.run(story())


class WaitedTopics:
    """Waits for topics by a clock of its own, on a real server, and notes what is sent."""

    def __init__(self, client: tarry.Client, topics: int) -> None:
        self.client, self.now_s, self.sent = client, 0.0, list[str]()
        self.watch = Watch(b"many")
        self.callers = []
        for number in range(topics):
            caller = Caller(1, 1e9, lambda: None)
            [partition] = client.engine._partitions(client.topic(f"t{number}").verbs)
            self.watch.enter(caller, [partition.wait_queue_key(None)])
            self.callers.append(caller)

    def pass_until_blocked(self) -> list[WaitStep]:
        """Performs what is due, and returns it."""
        performed: list[WaitStep] = []
        while not isinstance(step := self.watch.next_step(self.now_s), BlockStep):
            assert step is not None
            flow: Any = perform_step(self.watch, step, lambda: self.now_s)
            request = next(flow)
            try:
                while True:
                    self.sent += ["EXISTS"] * len(request.requests) if isinstance(request, Batch) else ["EVALSHA"]
                    request = flow.send(self.client.engine.runner.perform_step(request))
            except StopIteration:
                performed.append(step)
        self.watch.token_received(None)
        self.now_s = step.until
        return performed


def test_empty_topics_are_looked_at_together_with_one_command(client: tarry.Client) -> None:
    waited = WaitedTopics(client, 50)
    assert all(isinstance(step, PopStep) for step in waited.pass_until_blocked())
    for _ in range(3):
        waited.sent.clear()
        [step] = waited.pass_until_blocked()
        assert isinstance(step, LookStep)
        assert (len(step.queues), waited.sent) == (50, ["EXISTS"])


def keys_of(topic: tarry.Topic[Any]) -> TopicKeys:
    return topic_keys(topic.engine.config.namespace, topic.name)


def test_a_look_finds_a_job_whose_token_was_lost(valkey_url: str, client: tarry.Client) -> None:
    waited = WaitedTopics(client, 50)
    waited.pass_until_blocked()
    topic = client.topic("t7")
    topic.add("x")
    assert redis.Redis.from_url(valkey_url).delete(keys_of(topic).wake)
    waited.sent.clear()
    look, found = waited.pass_until_blocked()
    assert isinstance(look, LookStep)
    assert isinstance(found, PopStep)
    assert found.queue.keys == keys_of(topic)
    assert waited.callers[7].result is not None
    assert len(waited.sent) < 16, "it asks for halves of what has any"


@pytest.mark.parametrize("used", ["delayed", "schedule", "reserved"])
def test_topics_where_something_falls_due_before_the_next_look_are_popped_from(
    client: tarry.Client, valkey_url: str, used: str
) -> None:
    waited = WaitedTopics(client, 50)
    waited.pass_until_blocked()
    topic = client.topic("t3")
    if used == "delayed":
        topic.add("x", delay="10s")
    elif used == "reserved":
        topic.add("x", ttr="9s")
        topic.pop()
    else:
        client.schedules.put("t3", "often", every="10s", body="x")
    redis.Redis.from_url(valkey_url).delete(keys_of(topic).wake, keys_of(topic).relay)
    performed = [step for step in waited.pass_until_blocked() if isinstance(step, PopStep)]
    assert [step.queue.keys for step in performed] == [keys_of(topic)]


def test_topics_whose_jobs_are_due_tomorrow_cost_two_calls_a_round_however_many_there_are(client: tarry.Client) -> None:
    """Promise: Idle costs nothing."""
    for number in range(20):
        client.topic(f"t{number}").add_many(range(3), delay="1d")
    waited = WaitedTopics(client, 20)
    waited.pass_until_blocked()
    for _ in range(3):
        waited.sent.clear()
        [step] = waited.pass_until_blocked()
        assert isinstance(step, LookStep)
        assert waited.sent == ["EXISTS", "EVALSHA"]


def test_a_script_looks_at_so_many_topics_at_most(client: tarry.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        client.topic(f"t{number}").add("x", delay="1d")
    monkeypatch.setattr(watch_steps, "MOST_LOOKED_AT", 8)
    waited = WaitedTopics(client, 20)
    waited.pass_until_blocked()
    for number in (3, 11, 19):
        client.topic(f"t{number}").add("x", delay="10s")
    waited.sent.clear()
    _, *found = waited.pass_until_blocked()
    assert waited.sent[:4] == ["EXISTS", "EVALSHA", "EVALSHA", "EVALSHA"]
    popped = [step.queue.keys for step in found if isinstance(step, PopStep)]
    assert popped == [keys_of(client.topic(f"t{number}")) for number in (3, 11, 19)]


def test_a_topic_whose_keys_are_damaged_or_partitioned_is_popped_from(client: tarry.Client, valkey_url: str) -> None:
    """The pop tells."""
    topics = [keys_of(client.topic(f"t{number}")) for number in range(4)]
    with redis.Redis.from_url(valkey_url) as raw:
        raw.set(topics[1].meta, "partitions")
        raw.set(topics[2].due, "damaged")
        raw.set(topics[3].reserved, "damaged")
    assert client.engine.run(pop.look(topics)) == [2, 3, 4]


def test_topics_that_keep_totals_are_popped_from_once_a_minute(valkey_url: str, namespace: str, clock: Clock) -> None:
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        for number in range(10):
            topic = client.topic(f"t{number}")
            topic.add("done")
            topic.finish_many(topic.pop_many(1))
            topic.add("x", delay="1d")
        waited = WaitedTopics(client, 10)
        pops = []
        for _ in range(13):
            pops.append(sum(isinstance(step, PopStep) for step in waited.pass_until_blocked()))
            clock.advance("10s")
        assert pops[0] == 10, "at the start"
        assert sorted(pops[1:]) == [0] * 10 + [10] * 2


def test_few_topics_are_popped_from_one_by_one(client: tarry.Client) -> None:
    """A pop does more than to look: it writes down the minute's totals, and deletes old dead jobs."""
    waited = WaitedTopics(client, 3)
    waited.pass_until_blocked()
    assert all(isinstance(step, PopStep) for step in waited.pass_until_blocked())


# ── more topics than slots ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("backlog", [1, 5])
def test_concurrency_bounds_what_runs_and_not_how_many_topics_are_listened_to(
    valkey_url: str, namespace: str, client: tarry.Client, backlog: int
) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace, concurrency=3)
    running = most = 0
    done: list[str] = []

    async def work(job: tarry.AsyncJob[Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await job.touch()
        running -= 1
        done.append(job.topic)
        if len(done) == 40 * backlog:
            worker.stop()

    for number in range(40):
        worker.on(f"t{number}")(work)
        client.topic(f"t{number}").add_many(range(backlog))
    asyncio.run(worker.run(signals=False))
    assert most == 3
    assert len(set(done[: 40 + 3])) > 30, "a topic that had its turn stands behind those that had none"
    assert all(client.topic(f"t{number}").stats().ready == 0 for number in range(40))


def test_a_flood_of_one_topic_leaves_slots_to_the_many_others(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    """They are kept for them, so their jobs start though no job of the flood ever ends."""
    worker = tarry.Worker(url=valkey_url, namespace=namespace, concurrency=4)
    flood = running = 0

    @worker.on("flood")
    async def hold(job: tarry.AsyncJob[Any]) -> None:
        nonlocal flood
        flood += 1
        await asyncio.Event().wait()

    async def work(job: tarry.AsyncJob[Any]) -> None:
        nonlocal running
        running += 1
        if running == 20:
            worker.stop()
            worker.stop()

    for number in range(20):
        worker.on(f"t{number}")(work)

    async def story() -> None:
        client.topic("flood").add_many(range(50))
        run = asyncio.ensure_future(worker.run(signals=False))
        await asyncio.to_thread(until, lambda: flood == 2)
        for number in range(20):
            await asyncio.to_thread(client.topic(f"t{number}").add, number)
        await run

    asyncio.run(story())
    assert (flood, running) == (2, 20)


def test_another_worker_gets_the_jobs_for_which_this_one_has_no_slot(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    """A worker without a free slot gives back the token of a job, and its seat."""
    full, free = (tarry.Worker(url=valkey_url, namespace=namespace, concurrency=1) for _ in range(2))
    held, got = asyncio.Event(), list[str]()

    async def hold(job: tarry.AsyncJob[Any]) -> None:
        held.set()
        await asyncio.Event().wait()

    async def work(job: tarry.AsyncJob[Any]) -> None:
        got.append(job.topic)

    for number in range(12):
        full.on(f"t{number}")(hold)
        free.on(f"t{number}")(work)

    async def story() -> None:
        async with full:
            client.topic("t0").add("x")
            await held.wait()
            async with free:
                for number in range(1, 12):
                    await asyncio.to_thread(client.topic(f"t{number}").add, "x", delay="50ms" if number % 2 else 0)
                await asyncio.to_thread(until, lambda: len(got) == 11)
            full.stop()
            full.stop()

    asyncio.run(story())


@pytest.mark.parametrize("topics", [1, 30])
def test_until_idle_works_off_all_topics_with_one_slot(
    valkey_url: str, namespace: str, client: tarry.Client, topics: int
) -> None:
    worker = worker_for(topics, valkey_url, namespace, concurrency=1)
    for number in range(topics):
        client.topic(f"t{number}").add_many(["a", "b", "c"])
    asyncio.run(worker.run_until_idle())
    assert sum(client.topic(f"t{number}").stats().finished for number in range(topics)) == 3 * topics


@pytest.mark.parametrize(("topics", "lines"), [(3, 3), (30, 1)])
def test_many_topics_have_one_line_in_the_log(
    valkey_url: str, namespace: str, client: tarry.Client, caplog: pytest.LogCaptureFixture, topics: int, lines: int
) -> None:
    caplog.set_level("INFO", "tarry.worker")
    worker = worker_for(topics, valkey_url, namespace, concurrency=4)
    for number in range(topics):
        client.topic(f"t{number}").add("x")
    asyncio.run(worker.run_until_idle())
    begun, summed = ([line.message for line in caplog.records if line.message.startswith(sign)] for sign in ("▶", "∑"))
    assert (len(begun), len(summed)) == (lines, lines)
    if topics == 30:
        assert begun == ["▶ 30 topics (t0, t1, t2, …), 4 slots together"]
        assert summed[0].startswith("∑ 30 topics (t0, t1, t2, …): 30 taken, 30 done, 0 retried, 0 dead, 0 running,")


def test_the_banner_names_a_few_of_many_topics(valkey_url: str, namespace: str) -> None:
    shown = process.banner(worker_for(30, valkey_url, namespace), 1).splitlines()
    assert sum(line.startswith("  topic    ") for line in shown) == 3
    assert "           … and 27 more topics" in shown


class OneSlot:
    """A gate with a slot for one job at a time."""

    def take_slots(self) -> int:
        return 1

    def give_slots_back(self) -> None: ...


def test_a_wait_at_many_partitions_takes_no_more_than_its_gate_allows(valkey_url: str, namespace: str) -> None:
    async def story() -> None:
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            topic = client.topic("orders", partitions=3)
            await topic.add_many(range(20))
            [(_, _, jobs)] = await client.engine.take([topic.verbs], 5, "1m", None, OneSlot())
            assert len(jobs) == 1

    asyncio.run(story())
