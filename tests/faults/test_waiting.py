"""Waiting on a real server, in real time: one connection waits for all, in order, and no fault makes it deaf."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

import tarry
from faults.proxy import Proxy
from tarry.links import awaiting, blocking
from tarry.links.embedded.launch import Running
from tarry.links.embedded.wire import pauses

HANG_S = 30
"""No test needs so long; it is there so that a hang is told."""


@pytest.fixture
def client(running: Running) -> Iterator[tarry.Client]:
    with tarry.Client(running.url) as client:
        yield client


@pytest.fixture
def at(running: Running, name: str) -> Iterator[Any]:
    """The topic from the side."""
    with tarry.Client(running.url) as client:
        yield client.topic(name)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(120) as pool:
        yield pool


def blocked(running: Running) -> list[str]:
    """The ids of connections that wait."""
    listed = running.ask("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    rows = [dict(word.split("=", 1) for word in row.split()) for row in listed.decode().splitlines()]
    return [row["id"] for row in rows if "b" in row["flags"]]


def until(true: Callable[[], Any]) -> None:
    for _ in pauses(HANG_S):
        if true():
            return
    pytest.fail("it did not come to pass")


def async_story(url: str, story: Callable[[Any], Any]) -> Any:
    async def told() -> Any:
        async with tarry.AsyncClient(url) as client, asyncio.timeout(HANG_S):
            return await story(client)

    return asyncio.run(told())


async def until_blocked(running: Running) -> None:
    while not blocked(running):  # noqa: ASYNC110  # the server tells nobody when somebody waits
        await asyncio.sleep(0.002)


# ── many who wait ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_thousand_waiting_pops_are_one_blocked_connection(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        tasks = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(1000)]
        await until_blocked(running)
        assert len(blocked(running)) == 1
        for n in range(10):
            await topic.add_many(range(100 * n, 100 * n + 100))
        jobs = await asyncio.gather(*tasks)
        assert [job.body for job in jobs] == list(range(1000))  # first come, first served

    async_story(running.url, story)
    until(lambda: not blocked(running))
    assert at.stats().watching == 0


def test_a_hundred_threads_are_one_blocked_connection(
    running: Running, client: tarry.Client, at: Any, threads: ThreadPoolExecutor
) -> None:
    topic = client.topic(at.name)
    pops = [threads.submit(topic.pop, wait=None) for _ in range(100)]
    until(lambda: len(blocked(running)) == 1 and waiting(client) == 100)
    assert len(blocked(running)) == 1
    at.add_many(range(60))
    for n in range(60, 100):
        at.add(n)
    jobs = [pop.result(HANG_S) for pop in pops]
    assert sorted(job.body for job in jobs if job) == list(range(100))
    until(lambda: not blocked(running))
    assert at.stats().watching == 0


def waiting(client: Any) -> int:
    return sum(len(list(waiter._watch)) for waiter in client.engine._waiters.values())


def test_threads_are_served_in_the_order_in_which_they_came(
    running: Running, client: tarry.Client, at: Any, threads: ThreadPoolExecutor
) -> None:
    topic, pops = client.topic(at.name), []
    for n in range(8):
        pops.append(threads.submit(topic.pop, wait=None))
        until(lambda n=n: waiting(client) == n + 1)  # type: ignore[misc]
    for n in range(8):
        at.add(n)
        job = pops[n].result(HANG_S)
        assert job is not None
        assert job.body == n


def test_sixteen_threads_use_one_client(client: tarry.Client, at: Any, threads: ThreadPoolExecutor) -> None:
    topic = client.topic(at.name)

    def work(worker: int) -> list[Any]:
        done = []
        for n in range(40):
            topic.add([worker, n], delay=random.choice([0, 0, 0.002]))
            job = topic.pop(wait=HANG_S)
            assert job is not None
            done.append(tuple(job.body))
            topic.finish(job)
        return done

    done = [pair for work_done in threads.map(work, range(16)) for pair in work_done]
    assert sorted(done) == [(worker, n) for worker in range(16) for n in range(40)]
    stats = at.stats()
    assert (stats.finished, stats.ready, stats.reserved, stats.watching) == (640, 0, 0, 0)


# ── several topics, several posts ────────────────────────────────────────────────────────────────────────────────────


def test_a_wait_for_several_topics_takes_the_first_that_has_something(
    client: tarry.Client, at: Any, name: str, threads: ThreadPoolExecutor, running: Running
) -> None:
    names = [f"{name}-{n}" for n in range(3)]
    pop = threads.submit(client.pop, *names, wait=None)
    until(lambda: blocked(running))
    client.topic(names[1]).add("tea")
    job = pop.result(HANG_S)
    assert job is not None
    assert (job.topic, job.body) == (names[1], "tea")
    for n in (2, 0, 1):
        client.topic(names[n]).add(n)
    got = [client.pop(*names, wait=1) for _ in names]
    assert [job.body for job in got if job] == [0, 1, 2]
    assert [client.topic(one).stats().watching for one in names] == [0, 0, 0]


def test_a_topic_named_twice_is_waited_for_once(client: tarry.Client, at: Any) -> None:
    at.add_many(["tea", "milk"])
    job = client.pop(at.name, at.name, wait=1)
    assert job is not None
    assert (job.body, at.stats().ready, at.stats().reserved) == ("tea", 1, 1)


def test_two_who_wait_with_different_ttrs_get_a_job_each(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        for _ in range(10):
            one = asyncio.ensure_future(topic.pop(wait=None, ttr="1m"))
            two = asyncio.ensure_future(topic.pop(wait=None, ttr="2m"))
            await until_blocked(running)
            await topic.add("a", delay=0.003)
            await topic.add("b")
            jobs = await asyncio.gather(one, two)
            assert [job.ttr.total_seconds() for job in jobs] == [60, 120]
            await topic.finish_many(jobs)

    async_story(running.url, story)
    assert at.stats().watching == 0


def test_a_job_of_another_process_wakes_who_waits(running: Running, at: Any, threads: ThreadPoolExecutor) -> None:
    with tarry.Client(running.url) as client:
        pop = threads.submit(client.topic(at.name).pop, wait=None)
        until(lambda: blocked(running))
        script = f"import tarry; tarry.Client({running.url!r}).topic({at.name!r}).add('tea', delay=0.05)"
        subprocess.run([sys.executable, "-c", script], check=True, timeout=HANG_S)
        job = pop.result(HANG_S)
        assert job is not None
        assert job.body == "tea"
        assert job.lateness.total_seconds() >= 0


# ── the end of a wait ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pop_never_answers_nothing_when_something_is_ready(client: tarry.Client, at: Any) -> None:
    """The job is due exactly when, or a moment before, the wait is over."""
    topic = client.topic(at.name)
    for n in range(60):
        wait = n / 5000
        at.add(n, delay=wait)
        job = topic.pop(wait=wait or 0.0001)
        assert job is not None
        assert job.body == n
        topic.finish(job)


def test_an_awaited_pop_never_answers_nothing_when_something_is_ready(running: Running, at: Any) -> None:
    async def story(client: Any) -> None:
        topic = client.topic(at.name)

        async def add_and_pop(n: int) -> None:
            wait = n / 2000
            await topic.add(n, delay=wait)
            job = await topic.pop(wait=wait or 0.0001)
            assert job is not None
            await topic.finish(job)

        for n in range(40):
            await add_and_pop(n)
        await asyncio.gather(*[add_and_pop(n) for n in range(40)])

    async_story(running.url, story)
    assert at.stats().finished == 80


def test_a_token_that_comes_as_the_wait_ends_calls_somebody_else(
    running: Running, client: tarry.Client, at: Any, threads: ThreadPoolExecutor
) -> None:
    """Short waits that end while jobs come: whatever they do not take, one who waits for ever gets at once."""
    patient = threads.submit(lambda: [client.topic(at.name).pop(wait=None) for _ in range(60)])
    with tarry.Client(running.url) as other:

        def hasty() -> int:
            got = 0
            while not patient.done() and got < 60:
                job = other.topic(at.name).pop(wait=random.uniform(0.0005, 0.003))
                if job is not None:
                    other.topic(at.name).release(job, 0, count=False)
                    got += 1
            return got

        hurrying = threads.submit(hasty)
        for n in range(60):
            at.add(n, delay=random.uniform(0, 0.004))
        assert len({job.id for job in patient.result(HANG_S) if job}) == 60
        hurrying.result(HANG_S)
    assert at.stats().reserved == 60


def test_seats_are_handed_back_when_nobody_waits_any_more(running: Running, client: tarry.Client, at: Any) -> None:
    at.add("tea", delay="5s")
    assert client.topic(at.name).pop(wait=0.02) is None
    assert (at.stats().watching, blocked(running)) == (0, [])

    async def story(client: Any) -> None:
        assert await client.topic(at.name).pop(wait=0.02) is None

    async_story(running.url, story)
    assert at.stats().watching == 0


def test_who_waits_does_not_poll(running: Running, at: Any) -> None:
    at.add("tea", delay="1d")
    before = calls(running)

    async def story(client: Any) -> None:
        topic = client.topic(at.name)
        await asyncio.gather(*[topic.pop(wait=0.4) for _ in range(50)])

    async_story(running.url, story)
    assert calls(running) - before <= 25  # a first look, a last look, the way in and out; not one a moment


def calls(running: Running) -> int:
    told = running.ask("INFO", "commandstats")
    assert isinstance(told, bytes)
    rows = [
        row
        for row in told.decode().splitlines()
        if row.startswith(("cmdstat_evalsha", "cmdstat_eval:", "cmdstat_blpop"))
    ]
    return sum(int(row.split("calls=")[1].split(",")[0]) for row in rows)


# ── the waiting connection breaks ────────────────────────────────────────────────────────────────────────────────────


def test_a_killed_waiting_connection_is_replaced(running: Running, at: Any, kind: str, ways: Any) -> None:
    async def awaited(client: Any) -> None:
        topic = client.topic(at.name)
        pops = [asyncio.ensure_future(topic.pop(wait=None)) for _ in range(5)]
        for _ in range(5):
            await until_blocked(running)
            running.ask("CLIENT", "KILL", "ID", blocked(running)[0])
        await until_blocked(running)
        at.add_many(range(5))
        assert [job.body for job in await asyncio.gather(*pops)] == list(range(5))

    if kind == "async":
        async_story(running.url, awaited)
        return
    with tarry.Client(running.url) as client, ThreadPoolExecutor(5) as pool:
        pops = [pool.submit(client.topic(at.name).pop, wait=None) for _ in range(5)]
        for _ in range(5):
            until(lambda: blocked(running))
            running.ask("CLIENT", "KILL", "ID", blocked(running)[0])
        until(lambda: blocked(running))
        at.add_many(range(5))
        assert sorted(pop.result(HANG_S).body for pop in pops) == list(range(5))  # type: ignore[union-attr]


def test_an_unblock_that_races_a_token_loses_nothing(running: Running, client: tarry.Client, at: Any) -> None:
    topic, stop = client.topic(at.name), threading.Event()

    def meddle() -> None:
        while not stop.is_set():
            for id in blocked(running):
                running.ask("CLIENT", "UNBLOCK", id, random.choice(["TIMEOUT", "ERROR"]))

    meddler = threading.Thread(target=meddle)
    meddler.start()
    try:
        for n in range(60):
            at.add(n, delay=random.uniform(0, 0.004))
            job = topic.pop(wait=HANG_S)
            assert job is not None
            assert job.body == n
            topic.finish(job)
    finally:
        stop.set()
        meddler.join()


def test_a_waiting_line_that_went_silent_is_replaced(
    line: Proxy, at: Any, kind: str, ways: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection looks open, and the server's answers do not come: it is not trusted for ever."""
    monkeypatch.setattr(blocking.WaitingLine, "wait_s", 1)
    monkeypatch.setattr(awaiting.WaitingLine, "wait_s", 1)
    way = ways(kind, line.url(socket_timeout=0.2), imaginary=False)
    line.arm("ignored", at=b"BLPOP")
    with ThreadPoolExecutor(1) as pool:
        pop = pool.submit(way.do, way.topic(at.name), "pop", wait=None)
        until(lambda: line.struck)
        at.add("tea", delay=0.01)
        assert pop.result(HANG_S).body == "tea"


def test_who_waits_can_be_poked_while_the_waiting_line_is_refused(line: Proxy, running: Running, at: Any) -> None:
    """Every BLPOP is cut: jobs are handed out all the same, and nobody spins."""
    before = calls(running)
    line.arm(*["unsent"] * 500, at=b"BLPOP")
    at.add("tea", delay=0.3)
    with tarry.Client(line.url()) as client:
        job = client.topic(at.name).pop(wait=HANG_S)
    assert job is not None
    assert job.body == "tea"
    assert calls(running) - before < 40


# ── a leader is interrupted ──────────────────────────────────────────────────────────────────────────────────────────


class Interrupted(BaseException):
    """What a signal's handler raises here: like Ctrl-C, and harmless to the test run."""


class SoftLimit(Exception):
    """The same, as an ordinary exception: time limits of task runners come like this."""


@pytest.fixture
def interrupt() -> Iterator[Callable[..., None]]:
    """Interrupts the main thread, which runs the tests."""
    kind: list[type[BaseException]] = [Interrupted]

    def strike(number: int, frame: Any) -> None:
        raise kind[0]

    def interrupt(what: type[BaseException] = Interrupted) -> None:
        kind[0] = what
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, strike)
    yield interrupt
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("followers", [0, 1, 5])
@pytest.mark.parametrize("what", [Interrupted, SoftLimit])
def test_when_the_leader_is_interrupted_followers_take_over(
    what: type[BaseException],
    followers: int,
    interrupt: Any,
    running: Running,
    client: tarry.Client,
    at: Any,
    threads: ThreadPoolExecutor,
) -> None:
    topic, pops = client.topic(at.name), []

    def conduct() -> None:
        until(lambda: waiting(client) == 1 and blocked(running))
        pops.extend(threads.submit(topic.pop, wait=None) for _ in range(followers))
        until(lambda: waiting(client) == 1 + followers)
        interrupt(what)

    conductor = threads.submit(conduct)
    with pytest.raises(what):
        topic.pop(wait=None)
    conductor.result(HANG_S)
    at.add_many(range(followers))
    assert sorted(pop.result(HANG_S).body for pop in pops) == list(range(followers))
    until(lambda: not blocked(running))
    assert at.stats().watching == 0
    at.add("tea")
    job = topic.pop(wait=5)  # the client works as before
    assert job is not None
    assert job.body == "tea"


# a socket that the driver was just opening is closed by the collector, with a warning
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("what", [Interrupted, SoftLimit])
@pytest.mark.parametrize("followers", [0, 3])
def test_a_leader_interrupted_at_any_moment_loses_no_job(  # noqa: C901  # three parties in one story
    followers: int,
    what: type[BaseException],
    interrupt: Any,
    client: tarry.Client,
    at: Any,
    threads: ThreadPoolExecutor,
) -> None:
    topic, over = client.topic(at.name), threading.Event()
    felt: list[int] = []
    mine: SimpleQueue[None] = SimpleQueue()  # not an Event: one that is struck while it is set stays locked
    added = finished = 0

    def follow() -> int:
        done = 0
        while not over.is_set():
            job = topic.pop(wait=0.05, ttr=1)
            if job is not None:
                topic.finish(job)
                done += 1
        return done

    def strike() -> None:
        while not over.is_set():
            with contextlib.suppress(Empty):
                mine.get(timeout=0.01)
                threading.Event().wait(random.uniform(0, 0.003))
                felt.clear()
                while not felt and not over.is_set():  # what strikes a finalizer is swallowed by Python: then once more
                    interrupt(what)
                    for _ in pauses(2):
                        if felt:
                            break

    crew = [threads.submit(follow) for _ in range(followers)]
    striker = threads.submit(strike)
    try:
        for n in range(40):
            at.add(n, delay=random.choice([0, 0.001, 0.002]))
            added += 1
            try:
                mine.put(None)
                while True:
                    job = topic.pop(wait=5, ttr=1)
                    if job is not None:
                        at.finish(job)
                        finished += 1
                    topic.pop(wait=0.001, ttr=1)
            except what:
                felt.append(n)
    finally:
        over.set()
        for worker in [*crew, striker]:
            worker.result(HANG_S)
    while (job := at.pop(wait=1.2)) is not None:  # what was in the very hand that was struck comes after its TTR
        at.finish(job)
    stats = at.stats()
    assert (stats.finished, stats.ready, stats.reserved, stats.delayed) == (added, 0, 0, 0)
    assert at.check().ok
    assert at.stats().watching == 0


def test_closing_the_client_tells_the_threads_that_wait(running: Running, at: Any, threads: ThreadPoolExecutor) -> None:
    client = tarry.Client(running.url)
    pops = [threads.submit(client.topic(at.name).pop, wait=None) for _ in range(8)]
    until(lambda: waiting(client) == 8 and blocked(running))
    client.close()
    for pop in pops:
        with pytest.raises(tarry.Unavailable, match="closed"):
            pop.result(HANG_S)
    until(lambda: not blocked(running))
    assert at.stats().watching == 0
    assert client.topic(at.name).pop() is None  # the next verb opens it again
    client.close()


def test_a_forked_process_waits_for_itself(running: Running, at: Any) -> None:
    """A thread of the parent waits while it forks; parent and child get a job each, on connections of their own."""
    script = Path(__file__).with_name("forking.py")
    told = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(script), running.url, at.name],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert told.stderr == ""
    assert sorted(told.stdout.split()) == ["child:closed", "child:job", "child:job", "parent:job"]
    assert at.stats().finished == 3
