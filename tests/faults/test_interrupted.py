"""Waiting consumers are interrupted, closed, or forked: no job is lost, and the others continue."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

import tarry
from faults.blocked_clients import blocked, waiting
from tarry.clients.blocking.waiter import Waiter
from tarry.connections import connection_limit
from tarry.connections.embedded.plain_client import backoff_delays
from tarry.connections.embedded.server_process import ServerProcess
from until import LONGEST_S, until


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
    running: ServerProcess,
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
    conductor.result(LONGEST_S)
    at.add_many(range(followers))
    assert sorted(pop.result(LONGEST_S).body for pop in pops) == list(range(followers))
    until(lambda: not blocked(running))
    assert at.stats().watching == 0
    at.add("tea")
    job = topic.pop(wait=5)  # the client works as before
    assert job is not None
    assert job.body == "tea"


def test_a_leader_interrupted_just_after_it_was_served_gives_its_job_back(
    client: tarry.Client, at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = Waiter._lead

    def interrupted(waiter: Waiter, caller: Any, **options: Any) -> float:
        until = lead(waiter, caller, **options)
        if caller.done:
            monkeypatch.undo()
            raise Interrupted
        return until

    monkeypatch.setattr(Waiter, "_lead", interrupted)
    at.add("tea", delay=0.05)
    with pytest.raises(Interrupted):
        client.topic(at.name).pop(wait=LONGEST_S)
    [job] = at.list()
    assert (job.state, job.attempts) == ("ready", 0)


@pytest.mark.slow
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
                    for _ in backoff_delays(2):
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
            worker.result(LONGEST_S)
    while (job := at.pop(wait=1.2)) is not None:  # what was in the very hand that was struck comes after its TTR
        at.finish(job)
    stats = at.stats()
    assert (stats.finished, stats.ready, stats.reserved, stats.delayed) == (added, 0, 0, 0)
    assert at.check().ok
    assert at.stats().watching == 0


def test_closing_the_client_ends_the_pops_of_waiting_threads(
    running: ServerProcess, at: Any, threads: ThreadPoolExecutor
) -> None:
    client = tarry.Client(running.url)
    pops = [threads.submit(client.topic(at.name).pop, wait=None) for _ in range(8)]
    until(lambda: waiting(client) == 8 and blocked(running))
    client.close()
    for pop in pops:
        with pytest.raises(tarry.Unavailable, match="closed"):
            pop.result(LONGEST_S)
    until(lambda: not blocked(running))
    assert at.stats().watching == 0
    with pytest.raises(tarry.BadInput, match="closed"):
        client.topic(at.name).pop()


@pytest.mark.slow
@pytest.mark.parametrize("most", [connection_limit.MOST_BLOCKED, 0])
def test_a_forked_process_waits_on_its_own_connections(
    most: int, running: ServerProcess, at: Any, python_command: Path
) -> None:
    """A thread of the parent waits while it forks; parent and child get a job each, on connections of their own."""
    script = Path(__file__).with_name("forks.py")
    told = subprocess.run(
        [python_command, script, running.url, at.name, str(most)],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert told.stderr == ""
    assert sorted(told.stdout.split()) == ["child:closed", "child:job", "child:job", "parent:job"]
    assert at.stats().finished == 3
