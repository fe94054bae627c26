"""Handlers that take many jobs in one call: ``@worker.on("n", batch=100, linger="1s")``."""

from __future__ import annotations

import asyncio
import pickle
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis

import tarry
from faults.proxy import LOST, Proxy
from tarry.clients.awaited.topic import AsyncTopic
from tarry.clients.testing import Clock, TestAsyncClient, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.values.durations import LAST_MOMENT_US, SECOND
from tarry.verbs.jobs import settle
from tarry.verbs.jobs.settle import BURY, FINISH, RELEASE, SettleVerb
from tarry.worker import heartbeat, renewal
from tarry.worker.batch_consumer import BatchConsumer
from tarry.worker.registry import Registry
from tarry.worker.renewal import Renewal
from tarry.worker.settler import Settler
from tarry.worker.topic_consumer import TopicConsumer
from until import LONGEST_S, until

KINDS = ["async", "plain"]
LONG = {"linger": "9h", "ttr": "10h"}
"""Nothing ends in the time of a test."""


def as_kind(kind: str, call: Callable[[list[Any]], Any]) -> Any:
    """A handler in the event loop or in a thread, which is given jobs."""
    if kind == "plain":

        def plain(jobs: list[tarry.Job[Any]]) -> Any:
            return call([*jobs])

        return plain

    async def awaited(jobs: list[tarry.AsyncJob[Any]]) -> Any:
        return call([*jobs])

    return awaited


def bodies(jobs: Sequence[Any]) -> list[Any]:
    return [job.body for job in jobs]


@pytest.fixture
def worker(client: tarry.Client) -> tarry.Worker:
    return tarry.Worker("shop", client=client)


async def until_so(is_so: Callable[[], Awaitable[Any]]) -> None:
    async with asyncio.timeout(LONGEST_S):
        while not await is_so():  # noqa: ASYNC110  # the server decides
            await asyncio.sleep(0.01)


def work(worker: tarry.Worker) -> None:
    assert asyncio.run(worker.run_until_idle()) == 0


# ── batches ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("thousands", [3, pytest.param(10, marks=pytest.mark.long)])
def test_thousands_of_due_jobs_are_as_many_calls_and_finishes(
    client: tarry.Client, worker: tarry.Worker, kind: str, monkeypatch: pytest.MonkeyPatch, thousands: int
) -> None:
    seen: list[list[Any]] = []
    finished: list[int] = []
    finish = Settler.finish

    def counted(self: Settler, jobs: Any, results: Any) -> Any:
        finished.append(len(jobs))
        return finish(self, jobs, results)

    monkeypatch.setattr(Settler, "finish", counted)
    client.topic("n").add_many(range(1000 * thousands))
    worker.on("n", batch=1000)(as_kind(kind, lambda jobs: seen.append(bodies(jobs))))
    work(worker)
    assert [len(batch) for batch in seen] == finished == [1000] * thousands
    assert [n for batch in seen for n in batch] == [*range(1000 * thousands)]
    stats = client.topic("n").stats()
    assert (stats.finished, stats.reserved, stats.popped) == (1000 * thousands, 0, 1000 * thousands)
    assert client.topic("n").check().ok


def test_the_first_job_waits_for_others_until_its_linger_is_over(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    worker = tarry.Worker(client=TestAsyncClient(valkey_url, clock, namespace=namespace))
    calls: list[tuple[float, list[Any]]] = []

    @worker.on("n", batch=4, linger="1s")
    async def handle(jobs: list[tarry.AsyncJob[float]]) -> None:
        calls.append((round(clock.seconds(), 3), bodies(jobs)))
        if len(calls) == 3:
            worker.stop()

    with TestClient(valkey_url, clock, namespace=namespace) as client:
        client.topic("n").add_many(
            [tarry.NewJob(at, delay=at) for at in (10.0, 10.4, 10.9, 11.5, 30.0, 30.1, 30.2, 30.3, 30.4)]
        )
        asyncio.run(worker.run(signals=False))
    assert calls == [(11, [10.0, 10.4, 10.9]), (12.5, [11.5]), (30.3, [30.0, 30.1, 30.2, 30.3])], "a full one at once"


def test_without_linger_a_batch_is_what_is_due(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    worker = tarry.Worker(client=TestAsyncClient(valkey_url, clock, namespace=namespace))
    calls: list[tuple[float, list[Any]]] = []

    @worker.on("n", batch=100)
    async def handle(jobs: list[float]) -> None:
        calls.append((round(clock.seconds(), 3), jobs))
        if len(calls) == 2:
            worker.stop()

    with TestClient(valkey_url, clock, namespace=namespace) as client:
        client.topic("n").add_many([tarry.NewJob(at, delay=at) for at in (10.0, 10.5)])
        asyncio.run(worker.run(signals=False))
    assert calls == [(10, [10.0]), (10.5, [10.5])]


@pytest.mark.slow
def test_an_idle_topic_of_a_batch_costs_no_more_than_another(
    valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour of imaginary time until the one job is due. ``linger`` begins with it, and no sooner.

    Promise: Idle costs nothing.
    """
    monkeypatch.setattr(heartbeat.WorkerReports, "report_if_due", lambda self, now: None)  # by the real clock

    def calls_of(batch: int | None, linger: str | None) -> int:
        clock, own, calls = Clock(), f"{namespace}-{batch}", list[int]()
        worker = tarry.Worker(client=TestAsyncClient(valkey_url, clock, namespace=own))
        with redis.Redis.from_url(valkey_url) as server, TestClient(valkey_url, clock, namespace=own) as client:

            def note() -> None:
                calls.append(int(server.info("commandstats")["cmdstat_evalsha"]["calls"]))

            async def handle(_: Any) -> None:
                note()
                worker.stop()

            worker.on("n", batch=batch, linger=linger, concurrency=1)(handle)
            client.topic("n").add("x", delay="1h")
            note()
            asyncio.run(worker.run(signals=False))
        return calls[1] - calls[0]

    usual = calls_of(None, None)
    assert usual > 10, "it waits for an hour"
    assert calls_of(100, "1s") <= 1.2 * usual, "the watch draws its pauses"


def test_run_until_idle_does_not_linger_when_nothing_else_runs(client: tarry.Client, worker: tarry.Worker) -> None:
    seen: list[Any] = []

    @worker.on("n", batch=10, **LONG)
    async def handle(numbers: list[int]) -> None:
        seen.append(sorted(numbers))

    @worker.on("first")
    async def first(_: tarry.AsyncJob[Any]) -> None:
        topic = worker.async_client.topic("n")
        for n in range(3):
            await topic.add(n)
            await until_so(partial(_is_reserved, topic, n + 1))

    client.topic("first").add("x")
    work(worker)
    assert seen == [[0, 1, 2]], "as long as something runs that may add more, it waits"


def test_in_imaginary_time_no_time_passes_while_a_batch_waits(valkey_url: str, namespace: str) -> None:
    clock = Clock()
    seen: list[Any] = []
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        worker = tarry.Worker(client=client)
        worker.on("n", batch=10, linger="10s")(as_kind("async", lambda jobs: seen.append(bodies(jobs))))
        client.topic("n").add_many([1, 2, tarry.NewJob(3, delay="5s")])
        work(worker)
        assert (seen, clock.elapsed_us) == ([[1, 2]], 0)


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_is_given_jobs_or_bodies(client: tarry.Client, worker: tarry.Worker, is_async: bool) -> None:
    seen: dict[str, Any] = {}

    def note(topic: str) -> Callable[[Any], None]:
        return lambda given: seen.update({topic: (type(given), [type(one) for one in given])})

    if is_async:

        @worker.on("jobs", batch=2)
        async def jobs(given: list[tarry.AsyncJob[int]]) -> None:
            note("jobs")(given)

        @worker.on("bodies", batch=2)
        async def of_bodies(given: Sequence[int]) -> None:
            note("bodies")(given)

        @worker.on("untyped", batch=2)
        async def untyped(given) -> None:  # type: ignore[no-untyped-def]
            note("untyped")(given)

    else:

        @worker.on("jobs", batch=2)
        def plain_jobs(given: list[tarry.Job[int]]) -> None:
            note("jobs")(given)

        @worker.on("bodies", batch=2)
        def of_plain_bodies(given: Sequence[int]) -> None:
            note("bodies")(given)

        @worker.on("untyped", batch=2)
        def plain_untyped(given: list) -> None:  # type: ignore[type-arg]
            note("untyped")(given)

    for topic in ("jobs", "bodies", "untyped"):
        client.topic(topic).add_many([1, 2])
    work(worker)
    job = tarry.AsyncJob if is_async else tarry.Job
    assert seen == {"jobs": (list, [job, job]), "bodies": (list, [int, int]), "untyped": (list, [job, job])}


@pytest.mark.parametrize("is_async", [True, False])
def test_an_unreadable_body_fails_alone(client: tarry.Client, worker: tarry.Worker, is_async: bool) -> None:
    seen: list[list[int]] = []

    @worker.on("plain", batch=10)
    def plain(numbers: list[int]) -> None:
        seen.append(numbers)

    @worker.on("async", batch=10)
    async def awaited(numbers: list[int]) -> None:
        seen.append(numbers)

    topic = client.topic("async" if is_async else "plain")
    topic.add_many([1, tarry.NewJob("two", id="two"), 3])
    work(worker)
    found = topic.get("two")
    assert seen == [[1, 3]]
    assert found is not None
    assert (found.state, found.attempts, str(found.reason)[:9]) == ("delayed", 1, "BodyError")
    assert topic.stats().finished == 2
    topic.add("four", id="four")
    work(worker)
    assert seen == [[1, 3]], "without a body there is no call"
    assert topic.stats().finished == 2


@pytest.mark.parametrize("kind", KINDS)
def test_finished_jobs_of_a_batch_are_kept_without_a_result(
    client: tarry.Client, worker: tarry.Worker, kind: str
) -> None:
    client.topic("topic").configure(keep_finished="1h")
    for name, keep in {"topic": None, "handler": "1h"}.items():
        client.topic(name).add(1, id="x")
        worker.on(name, batch=10, keep_finished=keep)(as_kind(kind, len))
    work(worker)
    for name in ("topic", "handler"):
        found = client.topic(name).get("x")
        assert found is not None
        assert (found.state, found.result) == ("finished", None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_is_unfinished_work_fails_the_batch(
    client: tarry.Client, worker: tarry.Worker, kind: str
) -> None:
    client.topic("n").add_many([tarry.NewJob(n, id=str(n)) for n in range(2)])
    worker.on("n", batch=10)(as_kind(kind, lambda jobs: map(print, jobs)))
    work(worker)
    reasons = [job.reason for job in client.topic("n").list("delayed")]
    assert [str(reason)[:40] for reason in reasons] == ["TypeError: the handler returned a map, w"] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_errors_that_are_returned_finish_nothing(client: tarry.Client, worker: tarry.Worker, kind: str) -> None:
    client.topic("n").add_many([1, 2])
    worker.on("n", batch=10)(as_kind(kind, lambda jobs: tarry.Failed({jobs[0]: "no answer"})))
    work(worker)
    reason = "TypeError: the handler returned a Failed, which says that jobs have failed; raise it"
    assert [job.reason for job in client.topic("n").list("delayed")] == [reason] * 2


def test_failed_by_a_handler_of_one_job_says_what_to_raise(client: tarry.Client, worker: tarry.Worker) -> None:
    @worker.on("n")
    async def handle(job: tarry.AsyncJob[int]) -> None:
        raise tarry.Failed({job: "no answer"})

    client.topic("n").add(1, id="1")
    work(worker)
    found = client.topic("n").get("1")
    assert found is not None
    assert str(found.reason).startswith("Failed: it is for a handler with batch=")
    assert str(found.reason).endswith("for one job raise the error itself")


# ── failures ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
def test_when_the_call_raises_all_have_failed_each_with_its_own_attempt(
    client: tarry.Client, worker: tarry.Worker, kind: str
) -> None:
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(n, id=str(n), max_attempts=n) for n in (1, 2, 3)])
    seen: list[list[int]] = []

    def broken(jobs: list[Any]) -> None:
        seen.append([job.attempt for job in jobs])
        raise ValueError("broken")

    worker.on("n", batch=10, retry=0)(as_kind(kind, broken))
    work(worker)
    assert seen == [[1, 1, 1], [2, 2], [3]]
    found = [topic.get(id) for id in "123"]
    assert [(job.state, job.attempts, job.failure) for job in found if job] == [
        ("dead", n, "ValueError: broken") for n in (1, 2, 3)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_failed_fails_those_that_it_names(client: tarry.Client, worker: tarry.Worker, kind: str) -> None:
    topic = client.topic("n")
    errors: dict[str, BaseException | str] = {
        "error": ValueError("broken"),
        "text": "no answer",
        "snooze": tarry.Snooze("1h"),
        "bury": tarry.Bury("no such user"),
    }
    topic.add_many([tarry.NewJob(id, id=id) for id in ("first", *errors, "last")])

    def some(jobs: list[Any]) -> None:
        raise tarry.Failed({job: errors[job.id] for job in jobs if job.id in errors})

    worker.on("n", batch=10)(as_kind(kind, some))
    work(worker)
    found = {id: topic.get(id) for id in ("first", *errors, "last")}
    assert {id: job and (job.state, job.attempts, job.reason) for id, job in found.items()} == {
        "first": None,
        "error": ("delayed", 1, "ValueError: broken"),
        "text": ("delayed", 1, "Retry: no answer"),
        "snooze": ("delayed", 0, "Snooze"),
        "bury": ("dead", 1, "no such user"),
        "last": None,
    }
    stats = topic.stats()
    assert (stats.finished, stats.refused) == (2, 0)
    assert topic.check().ok


def test_failed_without_a_job_fails_none(client: tarry.Client, worker: tarry.Worker) -> None:
    @worker.on("n", batch=10)
    async def handle(_: list[int]) -> None:
        raise tarry.Failed({})

    client.topic("n").add_many([1, 2])
    work(worker)
    assert client.topic("n").stats().finished == 2


@pytest.mark.parametrize("kind", KINDS)
def test_failed_with_something_else_loses_nothing_and_says_so(
    client: tarry.Client, worker: tarry.Worker, kind: str
) -> None:
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abc"])

    def by_id(jobs: list[Any]) -> None:
        raise tarry.Failed({jobs[0]: "no answer", "b": "no answer"})

    worker.on("n", batch=10)(as_kind(kind, by_id))
    work(worker)
    found = [topic.get(id) for id in "abc"]
    assert [job and (job.state, job.attempts) for job in found] == [("delayed", 1)] * 3
    reason = (
        "BadInput: Failed: a str among its keys is no job of this batch, so all of its jobs failed; its keys are jobs that the handler was "
        "given, which has a parameter such as jobs: list[tarry.Job]."
    )
    assert [job.reason for job in found if job] == [reason] * 3


class Detached:
    """A row that cannot be shown, as one of an ORM whose session is over."""

    def __repr__(self) -> str:
        raise RuntimeError("detached")


@pytest.mark.parametrize("kind", KINDS)
def test_failed_with_keys_that_cannot_be_shown_keeps_no_slot(
    client: tarry.Client, worker: tarry.Worker, kind: str
) -> None:
    topic = client.topic("n")
    topic.add_many([1, 2])

    def by_row(_: list[Any]) -> None:
        raise tarry.Failed({Detached(): "no answer"})

    worker.on("n", batch=10)(as_kind(kind, by_row))
    work(worker)
    assert [str(job.reason)[:27] for job in topic.list("delayed")] == ["BadInput: Failed: a Detached"[:27]] * 2


def test_failed_travels_and_its_jobs_say_what_does(client: tarry.Client) -> None:
    again = pickle.loads(pickle.dumps(tarry.Failed({"a": tarry.Snooze("1h"), "b": "no answer"})))
    assert (again.errors["a"].delay_us, again.errors["b"]) == (3600 * SECOND, "no answer")
    client.topic("n").add(1, id="x")
    job = client.topic("n").pop()
    with pytest.raises(TypeError, match=r"job x: it is not pickled, .* tarry.Reservation\(job.id, job.receipt\)"):
        pickle.dumps(tarry.Failed({job: "no answer"}))


def test_failed_of_a_task_group_fails_those_that_it_names(client: tarry.Client, worker: tarry.Worker) -> None:
    seen: list[Any] = []

    @worker.around
    async def note(jobs: list[tarry.AsyncJob[int]], handle: Any) -> Any:
        try:
            await handle(jobs)
        except Exception as fault:
            seen.append(type(fault))
            raise

    @worker.on("n", batch=10)
    async def handle(jobs: list[tarry.AsyncJob[int]]) -> None:
        raise ExceptionGroup("of tasks", [tarry.Failed({jobs[0]: ExceptionGroup("", [tarry.Snooze("1h")])})])

    client.topic("n").add_many([1, 2])
    work(worker)
    stats = client.topic("n").stats()
    assert (stats.finished, stats.delayed, seen) == (1, 1, [tarry.Failed])
    assert client.topic("n").list().jobs[0].attempts == 0


class Mute(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("kind", KINDS)
def test_one_error_that_cannot_be_shown_keeps_no_other_job(
    client: tarry.Client, worker: tarry.Worker, kind: str
) -> None:
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abcd"])

    def fail(jobs: list[Any]) -> None:
        raise tarry.Failed(dict(zip(jobs, [tarry.Bury("bad"), Mute(), "no answer"], strict=False)))

    worker.on("n", batch=10)(as_kind(kind, fail))
    work(worker)
    assert {job.id: job.state for job in topic.list()} == {"a": "dead", "b": "delayed", "c": "delayed"}
    assert topic.stats().finished == 1


@pytest.mark.parametrize("given", [["a"], {"a": 7}, None])
def test_failed_takes_a_map_of_errors(given: Any) -> None:
    with pytest.raises(tarry.BadInput, match="give a map from jobs to exceptions or text"):
        tarry.Failed(given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_the_handler_settled_is_left_alone(client: tarry.Client, worker: tarry.Worker, kind: str) -> None:
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abc"])

    if kind == "async":

        @worker.on("n", batch=10)
        async def handle(jobs: list[tarry.AsyncJob[str]]) -> None:
            await jobs[1].bury(reason="by hand")

    else:

        @worker.on("n", batch=10)
        def plain(jobs: list[tarry.Job[str]]) -> None:
            jobs[1].bury(reason="by hand")

    work(worker)
    found = topic.get("b")
    assert found is not None
    assert (found.state, found.reason) == ("dead", "by hand")
    stats = topic.stats()
    assert (stats.finished, stats.refused) == (2, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_takes_too_long_fails_all(
    client: tarry.Client, worker: tarry.Worker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abc"])

    if kind == "async":

        @worker.on("n", batch=10, timeout="10ms")
        async def close(jobs: list[tarry.AsyncJob[str]]) -> None:
            await asyncio.Event().wait()

    else:

        @worker.on("n", batch=10, timeout="10ms")
        def close(jobs: list[tarry.Job[str]]) -> None:
            until(lambda: all(job.lost for job in jobs), "it overran")

    work(worker)
    reasons = [job.reason for job in topic.list("delayed")]
    assert {str(reason).replace(kind, "") for reason in reasons} == {
        "TimeoutError: close took longer than its timeout of 0.01 s"
    }
    assert len(reasons) == 3
    assert topic.stats().refused == 0
    told = [line for line in caplog.messages if line.startswith("⧗")]
    assert len(told) == (kind == "plain"), "one line for all"
    assert all("the 3 jobs of its batch stay reserved" in line and "process" not in line for line in told)


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_whose_finish_is_answered_to_nobody_is_finished_once(
    own_server: Any, tmp_path: Path, kind: str
) -> None:
    running: ServerProcess = own_server()
    proxy = Proxy(tmp_path, running.address)
    worker = tarry.Worker(url=proxy.url())
    calls: list[int] = []

    def handle(jobs: list[Any]) -> None:
        calls.append(len(jobs))
        if not proxy.struck:
            proxy.arm(LOST, at=FINISH.script.sha)

    worker.on("n", batch=100)(as_kind(kind, handle))
    try:
        with tarry.Client(running.url) as client:
            client.topic("n").add_many(range(150))
            work(worker)
            stats = client.topic("n").stats()
            assert (calls, stats.finished, stats.refused, proxy.struck) == ([100, 50], 150, 0, 1)
            assert client.topic("n").check().ok
    finally:
        proxy.close()


# ── a whole batch fails ────────────────────────────────────────────────────────────────────────────────────────────────


MANY = 1000
FAILURES: dict[str, tuple[Callable[[int], BaseException], str, int, str]] = {
    "pause": (lambda n: tarry.Pause(1 + n % 3600, "429"), "ready", 0, "‖ n is paused until …: 1000 jobs (…) raised Pause: 429; they do not count"),
    "snooze": (lambda n: tarry.Snooze("1h"), "delayed", 0, ""),
    "retry": (
        lambda n: tarry.Retry("no answer", after="1h"), "delayed", 1, "↻ n: 1000 jobs (…) failed: Retry: no answer; again in 1h",
    ),
    "bury": (lambda n: tarry.Bury(f"no user {n % 3}"), "dead", 1, "✗ n: 1000 jobs (…) are dead: no user … (and 2 other reasons)"),
}  # fmt: skip
"""By name: the error of a job, its state and attempts then, and the line that the log has for all."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "partitions", "together"),
    [("pause", 1, True), ("pause", 3, False), ("snooze", 1, True), ("retry", 3, True), ("bury", 1, False)],
)
def test_a_thousand_jobs_that_fail_together_need_few_scripts_and_one_line(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture, name: str, partitions: int, together: bool
) -> None:
    error, state, attempts, line = FAILURES[name]
    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    @worker.on("n", batch=MANY)
    async def handle(jobs: list[tarry.AsyncJob[int]]) -> None:
        assert len(jobs) == MANY
        if together:
            raise error(MANY - 1)
        raise tarry.Failed({job: error(job.body) for job in jobs})

    with tarry.Client(valkey_url, namespace=namespace) as client, redis.Redis.from_url(valkey_url) as server:
        topic = client.topic("n", type=int, partitions=partitions)
        topic.add_many([tarry.NewJob(n, id=f"{n:04}") for n in range(MANY)])
        before = int(server.info("commandstats")["cmdstat_evalsha"]["calls"])
        work(worker)
        calls = int(server.info("commandstats")["cmdstat_evalsha"]["calls"]) - before
        found = topic.list(state, limit=MANY).jobs
        assert (len(found), {job.attempts for job in found}) == (MANY, {attempts})
        assert calls < 30 + 20 * partitions, "some of the worker's own, and a few for the call"
        stats = topic.stats()
        assert (stats.reserved, stats.refused, stats.paused_until is not None) == (0, 0, name == "pause")
        assert stats.paused_until is None or stats.paused_until - stats.now > timedelta(minutes=15), (
            "the longest counts"
        )
        assert topic.check().ok
    told = [record for record in caplog.records if record.levelno >= 30]
    shown = [re.sub(r"\(\d.*?, …\)|(?<=until )\S+(?=:)|(?<=user )\d", "…", record.getMessage()) for record in told]
    assert [re.sub(r"jobs …", "jobs (…)", text) for text in shown] == [line] * bool(line)
    assert all(record.__dict__["tarry"]["jobs"] == MANY for record in told)


def test_at_debug_each_job_of_a_batch_that_fails_has_a_line(
    client: tarry.Client, worker: tarry.Worker, caplog: pytest.LogCaptureFixture
) -> None:
    client.topic("n").add_many([tarry.NewJob(n, id=str(n)) for n in range(3)])

    @worker.on("n", batch=10, max_attempts=1)
    async def handle(jobs: list[tarry.AsyncJob[int]]) -> None:
        raise tarry.Failed({job: ValueError(job.id) for job in jobs})

    with caplog.at_level("DEBUG", "tarry.worker"):
        work(worker)
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert record.getMessage() == "✗ n: 3 jobs (0, 1, 2) are dead: ValueError: 0 (and 2 other reasons)"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "0"
    assert record.__dict__["tarry"]["id"] == "0"
    lines = [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]
    assert [line for line in lines if line.startswith("✗")] == [
        f"✗ n/{id} attempt 1 is dead: ValueError: {id}" for id in "012"
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_batch_that_fails_a_job_that_is_gone_is_named_and_the_others_are_settled(
    client: tarry.Client, worker: tarry.Worker, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abcd"])

    def fail(jobs: list[Any]) -> None:
        topic.delete_many(["b", "c"], running=True)
        raise tarry.Failed(
            {jobs[0]: tarry.Bury("bad"), jobs[1]: tarry.Snooze("1h"), jobs[2]: "again", jobs[3]: "again"}
        )

    worker.on("n", batch=10)(as_kind(kind, fail))
    work(worker)
    found = {id: topic.get(id) for id in "abcd"}
    assert {id: job and job.state for id, job in found.items()} == {"a": "dead", "b": None, "c": None, "d": "delayed"}
    [told] = [line for line in caplog.messages if line.startswith("✗ n: ")]
    assert "b was finished or deleted" in told
    assert "c was finished or deleted" in told


def test_of_a_batch_that_fails_a_job_that_cannot_be_put_off_so_long_is_refused_alone(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The clock of this server is ahead of the process's, which has checked the time."""
    clock = Clock()
    clock.advance("365d")
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        worker = tarry.Worker(client=TestAsyncClient(valkey_url, clock, namespace=namespace))
        client.topic("n").add_many([tarry.NewJob(id, id=id) for id in "abc"])
        too_long = LAST_MOMENT_US / SECOND - time.time() - 3600

        @worker.on("n", batch=10)
        async def handle(jobs: list[tarry.AsyncJob[str]]) -> None:
            raise tarry.Failed({job: tarry.Retry(after=too_long if job.id == "b" else "1h") for job in jobs})

        work(worker)
        found = {job.id: job.state for job in client.topic("n").list()}
        assert found == {"a": "delayed", "b": "reserved", "c": "delayed"}
        assert [line for line in caplog.messages if line.startswith("✗ n/b attempt 1: delay: ")]


def test_a_batch_that_fails_goes_on_where_it_was_interrupted(
    client: tarry.Client, worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Between the jobs that are put back and those that are dead the server is away."""
    fail_many, interrupted = settle.fail_many, list[int]()

    def twice(keys: Any, failures: Any, dead: Any) -> Any:
        flow = fail_many(keys, failures, dead)
        if not interrupted:
            step: Any = flow.send((yield next(flow)))
            interrupted.append(len(dead))
            assert step.script == BURY.script
            raise tarry.Unavailable("away")
        yield from flow

    monkeypatch.setattr(settle, "fail_many", twice)
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abc"])

    @worker.on("n", batch=10)
    async def handle(jobs: list[tarry.AsyncJob[str]]) -> None:
        raise tarry.Failed({job: tarry.Bury("bad") if job.id == "b" else tarry.Snooze("1h") for job in jobs})

    work(worker)
    assert interrupted == [2]
    assert {job.id: job.state for job in topic.list()} == {"a": "delayed", "b": "dead", "c": "delayed"}
    assert topic.stats().refused == 0
    assert not [line for line in caplog.messages if "stop working" in line]


@pytest.mark.parametrize(
    "raised", [tarry.Pause("1h"), tarry.Snooze("1h"), tarry.Bury("no")], ids=lambda one: type(one).__name__
)
def test_a_batch_whose_end_is_answered_to_nobody_has_ended_once(
    own_server: Any, tmp_path: Path, raised: Exception
) -> None:
    running: ServerProcess = own_server()
    proxy = Proxy(tmp_path, running.address)
    worker = tarry.Worker(url=proxy.url())
    script = BURY.script if isinstance(raised, tarry.Bury) else RELEASE.script

    @worker.on("n", batch=100)
    async def handle(_: list[int]) -> None:
        if not proxy.struck:
            proxy.arm(LOST, at=script.sha)
        raise raised

    try:
        with tarry.Client(running.url) as client:
            topic = client.topic("n")
            topic.add_many(range(100))
            work(worker)
            stats = topic.stats()
            attempts = {job.attempts for job in topic.list(limit=100)}
            assert (stats.refused, stats.reserved, proxy.struck) == (0, 0, 1)
            assert attempts == {1 if isinstance(raised, tarry.Bury) else 0}
            assert topic.check().ok
    finally:
        proxy.close()


@pytest.mark.parametrize("partitions", [1, 3])
def test_however_many_jobs_go_back_a_script_has_a_thousand_at_most(client: tarry.Client, partitions: int) -> None:
    topic = client.topic("n", partitions=partitions)
    topic.add_many(range(2500))
    popped: list[Any] = []
    while more := topic.pop_many(1000):
        popped += more
    topic.finish(popped[7])
    left = popped[:7] + popped[8:]
    sizes: list[int] = []
    call = SettleVerb.call

    def counted(verb: Any, keys: Any, items: Any) -> Any:
        sizes.append(len(items))
        return call(verb, keys, items)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SettleVerb, "call", counted)
        topic.engine.run(topic.verbs.give_back(popped, [job.due_us for job in popped]))
    assert max(sizes) <= 1000
    assert len(sizes) == 3
    stats = topic.stats()
    assert (stats.ready, stats.reserved, stats.popped) == (2499, 0, 2500)
    again = topic.pop_many(1000)
    assert {job.attempt for job in again} == {1}
    assert partitions > 1 or [job.id for job in again] == [job.id for job in left[:1000]]


# ── slots and limits ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("concurrency", [None, 1, 3])
def test_a_slot_is_free_when_the_finish_was_answered(
    valkey_url: str, namespace: str, concurrency: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a worker that is killed leaves no more than one batch of each slot unfinished."""
    slots, asked = concurrency or 1, 0
    finish = Settler.finish

    async def story() -> None:
        nonlocal asked
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace))
        all_asked, answered = asyncio.Event(), asyncio.Event()

        async def late(self: Settler, jobs: Any, results: Any) -> None:
            nonlocal asked
            asked += 1
            if asked >= slots:
                all_asked.set()
            await answered.wait()
            await finish(self, jobs, results)

        monkeypatch.setattr(Settler, "finish", late)
        worker.on("n", batch=10, concurrency=concurrency)(as_kind("async", lambda jobs: None))
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client, worker:
            topic = client.topic("n")
            await topic.add_many(range(100))
            await all_asked.wait()
            await topic.add("more")
            for _ in range(20):
                await asyncio.sleep(0)
            found = (await topic.stats()).reserved, asked
            answered.set()
            assert found == (10 * slots, slots)
            await until_so(lambda: _finished(topic, 101))

    asyncio.run(story())


async def _finished(topic: tarry.AsyncTopic[Any], wanted: int) -> bool:
    return (await topic.stats()).finished == wanted


@pytest.mark.parametrize("is_pattern", [False, True])
def test_a_batch_takes_one_slot_of_the_worker(valkey_url: str, namespace: str, is_pattern: bool) -> None:
    """Two slots, and three batches of ten that would all wait for each other: two run at a time."""
    running = most = 0
    seen: list[int] = []

    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), concurrency=2)
        both = asyncio.Event()

        async def handle(jobs: list[tarry.AsyncJob[int]]) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            seen.append(len(jobs))
            if running == 2:
                both.set()
            async with asyncio.timeout(LONGEST_S):
                await both.wait()
            for _ in range(20):
                await asyncio.sleep(0)
            running -= 1

        if is_pattern:
            worker.on("n-*", batch=10, concurrency=2)(handle)
        else:
            for topic in ("n-1", "n-2", "n-3"):
                worker.on(topic, batch=10)(handle)
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            for topic in ("n-1", "n-2", "n-3"):
                await client.topic(topic).add_many(range(10))
        assert await worker.run_until_idle() == 0

    asyncio.run(story())
    assert (most, sum(seen)) == (2, 30)
    assert len(seen) < 10, "batches, not jobs"


def test_while_a_batch_runs_the_other_slots_of_the_worker_are_free(valkey_url: str, namespace: str) -> None:
    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), concurrency=2)
        ran = asyncio.Event()

        @worker.on("many", batch=10)
        async def many(_: list[int]) -> None:
            await client.topic("other").add("x")
            async with asyncio.timeout(LONGEST_S):
                await ran.wait()

        @worker.on("other")
        async def other(_: str) -> None:
            ran.set()

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            await client.topic("many").add_many(range(10))
            assert await worker.run_until_idle() == 0

    asyncio.run(story())


def test_a_batch_that_waits_for_jobs_has_its_slot(valkey_url: str, namespace: str) -> None:
    """The worker's only one. The other topic's job runs after the batch."""
    seen: list[str] = []

    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), concurrency=1)
        over = asyncio.Event()
        worker.on("many", batch=3, **LONG)(as_kind("async", lambda jobs: seen.append("many")))

        @worker.on("other")
        async def other(_: str) -> None:
            seen.append("other")
            over.set()

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client, worker:
            topic = client.topic("many")

            async def ask_often() -> None:
                """The worker could do what it may not."""
                for _ in range(50):
                    await topic.stats()

            await topic.add_many(["a", "b", "c"])
            await until_so(lambda: _finished(topic, 3))
            await ask_often()  # by now its pop waits
            await topic.add("x")
            await until_so(lambda: _is_reserved(topic, 1))
            await client.topic("other").add("x")
            await ask_often()
            await topic.add_many(["y", "z"])
            await over.wait()

    asyncio.run(story())
    assert seen == ["many", "many", "other"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_a_pattern_is_of_one_topic(client: tarry.Client, worker: tarry.Worker, kind: str) -> None:
    seen: list[set[str]] = []
    worker.on("n-*", batch=10)(as_kind(kind, lambda jobs: seen.append({f"{job.topic} {job.body}" for job in jobs})))
    for topic in ("n-1", "n-2"):
        client.topic(topic).add_many([1, 2])
    work(worker)
    assert sorted(map(sorted, seen)) == [["n-1 1", "n-1 2"], ["n-2 1", "n-2 2"]]
    assert [client.topic(topic).stats().finished for topic in ("n-1", "n-2")] == [2, 2]


@pytest.mark.parametrize("limit", [{"concurrency": 3}, {"rate": "3/1h", "burst": 3}])
def test_a_batch_is_never_larger_than_its_topic_allows(valkey_url: str, namespace: str, limit: dict[str, Any]) -> None:
    clock, seen = Clock(), list[int]()
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        topic = client.topic("n")
        topic.configure(**limit)
        clock.advance("1d")
        topic.add_many(range(9))
        worker = tarry.Worker(client=client)
        worker.on("n", batch=100)(as_kind("async", lambda jobs: seen.append(len(jobs))))
        work(worker)
    assert seen == ([3, 3, 3] if "concurrency" in limit else [3])


def report_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker reports fifty times a second, and learns what it is asked."""
    monkeypatch.setattr(renewal, "LONGEST_INTERVAL_S", 0.02)
    monkeypatch.setattr(heartbeat, "SECOND_REPORT_S", 0.02)
    monkeypatch.setattr(heartbeat, "REPORT_EVERY_S", 0.02)


def test_a_report_counts_a_batch_as_one_slot(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report_often(monkeypatch)

    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace))
        runs, ends = asyncio.Event(), asyncio.Event()

        @worker.on("n", batch=10)
        async def handle(_: list[int]) -> None:
            runs.set()
            await ends.wait()

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            await client.topic("n").add_many(range(10))
            async with worker:
                await runs.wait()
                await until_so(lambda: _reports(client, (1, 1, 10)))
                ends.set()

    asyncio.run(story())


async def _reports(client: tarry.AsyncClient, wanted: tuple[int, int, int]) -> bool:
    return [(info.busy, info.slots, len(info.jobs)) for info in await client.workers()] == [wanted]


# ── jobs that go away meanwhile ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_job_that_is_overtaken_is_left_out_of_the_finish_and_named(
    client: tarry.Client, worker: tarry.Worker, kind: str, known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """``known``: the renewal has found it, as after an outage; otherwise the finish itself is refused for this one."""
    topic = client.topic("n")
    topic.add_many([tarry.NewJob(id, id=id) for id in "abc"])
    taken: list[Any] = []

    def overtake(jobs: list[Any]) -> None:
        if taken:
            return
        [lost] = [job for job in jobs if job.id == "b"]
        topic.release(tarry.Reservation("b", lost.receipt), delay=0, counted=False)
        taken.append(topic.pop())
        lost.lost = known

    worker.on("n", batch=10, ttr="10h")(as_kind(kind, overtake))
    work(worker)
    found = topic.get("b")
    assert found is not None
    assert (found.state, found.receipt) == ("reserved", taken[0].receipt)
    stats = topic.stats()
    assert (stats.finished, stats.refused) == (2, 0 if known else 1)
    told = [line.getMessage() for line in caplog.records if "b was handed out again" in line.getMessage()]
    assert len(told) == (0 if known else 1), "it was logged when it was found lost"
    topic.finish(taken[0])


def test_the_renewal_names_a_job_that_is_overtaken(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        renewal, "CHECK_PARTS", 60_000
    )  # renewed after some tenths of a second, not after a third of an hour
    monkeypatch.setattr(renewal, "RENEW_PARTS", 30_000)

    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), ttr="1h")
        seen: list[list[str]] = []

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            topic = client.topic("n")

            @worker.on("n", batch=10)
            async def handle(jobs: list[tarry.AsyncJob[str]]) -> None:
                seen.append([job.id for job in jobs])
                if len(seen) > 1:
                    return
                await topic.delete("b", running=True)
                await until_so(lambda: _is_lost(jobs[1]))
                assert not jobs[0].lost
                assert not jobs[2].lost

            await topic.add_many([tarry.NewJob(id, id=id) for id in "abc"])
            assert await worker.run_until_idle() == 0
            stats = await topic.stats()
            assert (stats.finished, stats.reserved, stats.timed_out) == (2, 0, 0)
            assert seen == [["a", "b", "c"]], "the others of its batch went on"

    caplog.set_level("INFO", "tarry.worker")
    asyncio.run(story())
    told = [line.getMessage() for line in caplog.records if line.getMessage().startswith("■ n/b attempt 1")]
    assert told == ["■ n/b attempt 1 was cancelled: the rest of its batch goes on, job.lost is true"]


async def _is_lost(job: Any) -> bool:
    return bool(job.lost)


@pytest.mark.parametrize("lost", ["b", "abc"])
def test_a_job_that_is_lost_while_its_batch_waits_is_not_handled(
    client: tarry.Client, worker: tarry.Worker, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold, seen = TopicConsumer._take_in_hand, list[str]()

    def losing(self: TopicConsumer, jobs: Any, loop: Any) -> Any:
        held = hold(self, jobs, loop)
        for job in held:
            job.lost = job.id in lost  # as the renewal marks it
        return held

    monkeypatch.setattr(TopicConsumer, "_take_in_hand", losing)
    client.topic("n").add_many([tarry.NewJob(id, id=id) for id in "abc"])
    worker.on("n", batch=10, ttr="10h")(as_kind("async", lambda jobs: seen.extend(bodies(jobs))))
    work(worker)
    assert seen == [id for id in "abc" if id not in lost]
    stats = client.topic("n").stats()
    assert (stats.finished, stats.reserved, stats.refused) == (3 - len(lost), len(lost), 0)


def test_jobs_that_a_pause_has_put_back_take_no_place_in_a_batch(valkey_url: str, namespace: str) -> None:
    """Those of the slot that waits for more go back; when the pause ends, they come again, for a batch that is full."""
    sizes: list[int] = []

    async def story() -> None:
        worker = tarry.Worker(url=valkey_url, namespace=namespace)
        lingers, is_full = asyncio.Event(), asyncio.Event()

        @worker.on("n", batch=5, concurrency=2, **LONG)
        async def handle(jobs: list[tarry.AsyncJob[int]]) -> None:
            sizes.append(len(jobs))
            if len(sizes) == 1:
                await lingers.wait()
                raise tarry.Pause("10ms")
            is_full.set()

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client, worker:
            topic = client.topic("n")
            await topic.add_many(range(7))
            await until_so(lambda: _is_reserved(topic, 7))
            lingers.set()
            async with asyncio.timeout(LONGEST_S):
                await is_full.wait()

    asyncio.run(story())
    assert sizes[:2] == [5, 5]


async def _is_reserved(topic: tarry.AsyncTopic[Any], wanted: int) -> bool:
    stats = await topic.stats()
    return (stats.reserved, stats.ready) == (wanted, 0)


def test_the_reservations_of_a_batch_are_renewed_together(client: tarry.Client) -> None:
    """A second job comes five seconds after the first; both are touched when a third of the first one's time has passed."""

    async def story() -> list[list[str]]:
        parts = [(1, 0, (id, (b"", b""), 1, 0, 60_000_000)) for id in (b"a", b"b", b"c")]
        first, second, other = [tarry.Job(part, client.topic("n")) for part in parts]
        consumer: Any = SimpleNamespace(running={first: None}, firsts={first: first}, overruns={}, ttr="60s")
        reports: Any = SimpleNamespace(report_if_due=lambda now: None)
        outage: Any = SimpleNamespace(mark_idle=lambda health: None)
        renewal = Renewal(client, [consumer], outage, reports, 1.0)
        renewal._look_at = float("inf")
        touched: list[list[str]] = []

        def touch(_: Any, jobs: Any) -> bool:
            touched.append([job.id for job in jobs])
            return True

        renewal._touch = touch  # type: ignore[method-assign]
        renewal._renew_due(0.0)
        consumer.running |= {second: None, other: None}
        consumer.firsts |= {second: first}
        for now in (5.0, 15.0, 20.0):
            renewal._renew_due(now)
        return touched

    assert asyncio.run(story()) == [["a", "b"]]


# ── the end ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["stop", "quiet"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_worker_that_takes_no_more_jobs_puts_back_those_that_wait_for_a_batch(
    valkey_url: str,
    namespace: str,
    how: str,
    shared: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """SIGTERM calls ``stop``. No attempt counts."""
    report_often(monkeypatch)
    caplog.set_level("INFO", "tarry.worker")
    gather, gathered = BatchConsumer._gather, list[int]()

    def noted(*given: Any) -> list[Any]:
        batch = gather(*given)
        gathered.append(len(batch))
        return batch

    monkeypatch.setattr(BatchConsumer, "_gather", noted)

    async def has_them() -> bool:
        return 3 in gathered

    async def story() -> None:
        options: dict[str, Any] = {"concurrency": 4} if shared else {}
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), **options)
        seen: list[Any] = []
        worker.on("n", batch=10, **LONG)(as_kind("async", seen.extend))
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client, worker:
            topic = client.topic("n")
            await topic.add_many([tarry.NewJob(n, id=str(n)) for n in range(3)])
            await until_so(has_them)
            if how == "quiet":
                [info] = await _known(client)
                await client.set_worker_mode(info.name, "quiet")
            else:
                worker.stop()
            await until_so(lambda: _is_ready(topic, 3))
            found = [await topic.get(str(n)) for n in range(3)]
            assert [job and (job.state, job.attempts) for job in found] == [("ready", 0)] * 3
        assert seen == []

    asyncio.run(story())
    assert "■ stopped, 0 running jobs released, 3 not begun" in caplog.messages


@pytest.mark.parametrize("kind", [*KINDS, "lingers"])
def test_a_run_that_is_cancelled_gives_its_jobs_back_uncounted(valkey_url: str, namespace: str, kind: str) -> None:
    """As after SIGTERM, but without a period of grace."""

    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), ttr="1h", grace="1h")
        begun, ended = threading.Event(), threading.Event()
        if kind == "async":

            @worker.on("n", concurrency=1)
            async def handle(_: int) -> None:
                begun.set()
                await asyncio.Event().wait()

        elif kind == "plain":

            @worker.on("n", concurrency=1)
            def handle(_: int) -> None:
                begun.set()
                ended.wait(LONGEST_S)

        else:
            worker.on("n", batch=10, **LONG)(many)

            @worker.on("busy")
            async def busy(_: int) -> None:
                begun.set()
                await asyncio.Event().wait()

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            topic = client.topic("n")
            await (client.topic("busy") if kind == "lingers" else topic).add_many(range(3))
            run = asyncio.ensure_future(worker.run_until_idle())
            await asyncio.to_thread(begun.wait, LONGEST_S)
            if kind == "lingers":  # as long as another handler runs
                await topic.add_many(range(3))
                await until_so(lambda: _is_reserved(topic, 3))
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            ended.set()
            for one in ("n", "busy") if kind == "lingers" else ("n",):
                assert [(job.state, job.attempts) for job in await client.topic(one).list()] == [("ready", 0)] * 3

    asyncio.run(story())


async def _known(client: tarry.AsyncClient) -> Any:
    await until_so(client.workers)
    return await client.workers()


async def _is_ready(topic: tarry.AsyncTopic[Any], wanted: int) -> bool:
    return (await topic.stats()).ready == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_still_runs_after_the_grace_period_is_released_uncounted(
    valkey_url: str, namespace: str, kind: str
) -> None:
    async def story() -> None:
        worker = tarry.Worker(client=tarry.AsyncClient(valkey_url, namespace=namespace), grace=0)
        runs, ends, cleaned = asyncio.Event(), threading.Event(), 0
        loop = asyncio.get_running_loop()

        if kind == "async":

            @worker.on("n", batch=10)
            async def handle(_: list[int]) -> None:
                nonlocal cleaned
                runs.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(0)  # it is cancelled once, not once for each job
                    cleaned += 1

        else:

            @worker.on("n", batch=10)
            def plain(_: list[int]) -> None:
                loop.call_soon_threadsafe(runs.set)
                ends.wait()

        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            topic = client.topic("n")
            await topic.add_many([tarry.NewJob(n, id=str(n)) for n in range(3)])
            running = asyncio.create_task(worker.run(signals=False))
            await runs.wait()
            worker.stop()
            assert await running == 3
            ends.set()
            found = [await topic.get(str(n)) for n in range(3)]
            assert [job and (job.state, job.attempts) for job in found] == [("ready", 0)] * 3
        assert cleaned == (kind == "async")

    asyncio.run(story())


def test_a_batch_begins_with_what_it_has_when_the_server_stops_answering(
    client: tarry.Client, worker: tarry.Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    pop_many = AsyncTopic.pop_many

    async def broken(self: Any, limit: int, **options: Any) -> Any:
        if limit != 10:
            raise tarry.Unavailable("no answer")
        return await pop_many(self, limit, **options)

    monkeypatch.setattr(AsyncTopic, "pop_many", broken)
    client.topic("n").add_many(range(3))
    worker.on("n", batch=10, linger="1s")(as_kind("async", lambda jobs: seen.append(len(jobs))))
    work(worker)
    assert seen == [3]


# ── used wrongly ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def many(jobs: list[tarry.AsyncJob[int]]) -> None: ...
def many_plain(jobs: list[tarry.Job[int]]) -> None: ...
async def one_job(job: tarry.AsyncJob[int]) -> None: ...
async def one_body(order: dict[str, int]) -> None: ...
async def wrong_world(jobs: list[tarry.Job[int]]) -> None: ...
async def pairs(jobs: list[list[tarry.AsyncJob[int]]]) -> None: ...


@pytest.mark.parametrize(
    ("options", "handler", "told"),
    [
        ({"batch": 0}, many, "batch: 0; it is a whole number from 1 to 1000"),
        ({"batch": 1001}, many, "batch: 1001; it is a whole number from 1 to 1000"),
        ({"batch": True}, many, "batch: True"),
        ({"batch": "100"}, many, "batch: '100'"),
        ({"linger": "1s"}, many, "linger: .*give batch=, too"),
        ({"batch": 10, "linger": "soon"}, many, "linger"),
        ({"batch": 10, "linger": -1}, many, "linger"),
        ({"batch": 10, "run": "process"}, many_plain, "batch: a child process runs one job at a time"),
        (
            {"batch": 10, "linger": "15s", "ttr": "15s"},
            many,
            'linger: 15 s, .* reserved for 15 s; write linger="7.5s" .* or ttr="30s"',
        ),
        ({"batch": 10, "max_lateness": "1h"}, many, "batch: max_lateness= is for a handler of one job; give it to"),
        ({"batch": 10, "cancel_when_lost": True}, many, "batch: cancel_when_lost= is for a handler of one job"),
        ({"batch": 10}, one_job, r"annotated as .*AsyncJob.*; with batch= .* a list: write list\[tarry.AsyncJob\]"),
        ({"batch": 10}, one_body, r"annotated as dict\[str, int\]; with batch="),
        ({"batch": 10}, wrong_world, "annotated as tarry.Job, whose verbs would block the event loop"),
        ({"batch": 10}, pairs, "one job at a time"),
    ],
)
def test_what_cannot_work_is_refused_at_registration(
    valkey_url: str, options: dict[str, Any], handler: Any, told: str
) -> None:
    with pytest.raises(tarry.BadInput, match=told):
        tarry.Worker("shop", url=valkey_url).on("n", **options)(handler)


@pytest.mark.parametrize("topic", ["n", "n-*"])
def test_a_linger_as_long_as_the_workers_ttr_is_refused_where_both_are_known(valkey_url: str, topic: str) -> None:
    told = r'linger: 60 s, and the first job of a batch is reserved for 60 s; write linger="30s" .* or ttr="2m"'
    worker, outer, inner = tarry.Worker(url=valkey_url, ttr="1m"), Registry(), Registry()
    with pytest.raises(tarry.BadInput, match=told):
        worker.on(topic, batch=10, linger="1m")
    inner.on(topic, batch=10, linger="1m")(many)
    outer.include(inner)
    with pytest.raises(tarry.BadInput, match=told):
        worker.include(outer)
    outer.registered.included.clear()
    worker.include(outer)
    with pytest.raises(tarry.BadInput, match=told):
        outer.on(topic, batch=10, linger="1m")
    outer.on(topic, batch=10, linger="1m", ttr="2m")(many)


@pytest.mark.parametrize("option", ["batch", "linger"])
def test_a_task_takes_no_batch(valkey_url: str, option: str) -> None:
    options: dict[str, Any] = {option: 10}
    with pytest.raises(TypeError, match=rf"task\(\) has no argument '{option}'; .*@worker.on\(.*batch=100"):
        tarry.Worker("shop", url=valkey_url).task(**options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wants_bodies", [False, True])
def test_middleware_that_takes_a_list_is_called_around_a_batch(
    client: tarry.Client, worker: tarry.Worker, kind: str, wants_bodies: bool
) -> None:
    seen: list[Any] = []

    @worker.around
    async def both(one: tarry.AsyncJob[Any] | list[tarry.AsyncJob[Any]], handle: Any) -> Any:
        seen.append(len(one) if isinstance(one, list) else one.body)
        return await handle(one)

    @worker.around
    def both_plain(one: tarry.Job[Any] | list[tarry.Job[Any]], handle: Any) -> Any:
        seen.append(len(one) if isinstance(one, list) else one.body)
        return handle(one)

    @worker.around
    async def many(jobs: list[tarry.Job[Any]], handle: Any) -> Any:
        return await _failing_is_seen(jobs, handle)

    @worker.around
    def many_plain(jobs: list[tarry.Job[Any]], handle: Any) -> Any:
        try:
            handle(jobs)
        except tarry.Failed as fault:
            seen.append(sorted(job.body for job in fault.errors))
            raise

    async def _failing_is_seen(jobs: Any, handle: Any) -> Any:
        try:
            await handle(jobs)
        except tarry.Failed as fault:
            seen.append(sorted(job.body for job in fault.errors))
            raise

    def failing(jobs: list[Any]) -> None:
        seen.append("handler")
        raise tarry.Failed({job: "no answer" for job in jobs if job.body == 2})

    if wants_bodies:

        @worker.on("bodies", batch=10)
        async def numbers(bodies: list[int]) -> None:
            seen.append(bodies)

        @worker.on("bodies-plain", batch=10)
        def numbers_plain(bodies: list[int]) -> None:
            seen.append(bodies)

        topic = client.topic("bodies" if kind == "async" else "bodies-plain")
    else:
        worker.on("n", batch=10)(as_kind(kind, failing))
        topic = client.topic("n")
    topic.add_many([1, 2, 3])
    work(worker)
    assert seen == ([3, [1, 2, 3]] if wants_bodies else [3, "handler", [2]])
    assert topic.stats().finished == (3 if wants_bodies else 2)
    assert topic.stats().delayed == (0 if wants_bodies else 1)


def test_middleware_may_fail_a_batch_and_hides_no_unfinished_work(client: tarry.Client, worker: tarry.Worker) -> None:
    @worker.around
    async def swallowing(jobs: list[tarry.AsyncJob[Any]], handle: Any) -> None:
        await handle(jobs)
        if jobs[0].topic == "refused":
            raise ValueError("not today")

    for name in ("refused", "unfinished"):
        worker.on(name, batch=10)(as_kind("async", lambda jobs: map(print, jobs) if jobs[0].body == 7 else None))
    client.topic("refused").add(1)
    client.topic("unfinished").add(7)
    work(worker)
    reasons = [str(client.topic(name).list("delayed").jobs[0].reason)[:40] for name in ("refused", "unfinished")]
    assert reasons == ["ValueError: not today", "TypeError: the handler returned a map, w"]


@pytest.mark.parametrize("said", [False, True])
def test_a_worker_says_which_middleware_its_batches_skip(
    client: tarry.Client, worker: tarry.Worker, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It warns of middleware that does not say what it takes."""
    caplog.set_level("INFO", "tarry.worker")
    seen: list[str] = []

    async def note(job, handle):  # type: ignore[no-untyped-def]
        seen.append(job.topic)
        return await handle(job)

    if said:
        note.__annotations__ = {"job": tarry.AsyncJob[Any]}
    worker.around(note)

    @worker.around
    def of_plain_handlers(job: Any, handle: Any) -> Any:
        return handle(job)

    @worker.around
    async def note_many(jobs: list[tarry.AsyncJob[Any]], handle: Any) -> Any:
        seen.append(f"{len(jobs)} of {jobs[0].topic}")
        return await handle(jobs)

    worker.on("many", batch=10)(as_kind("async", lambda jobs: None))

    @worker.on("one")
    async def one(_: int) -> None: ...

    client.topic("many").add(1)
    client.topic("one").add(1)
    work(worker)
    assert sorted(seen) == ["1 of many", "one"]
    assert client.topic("many").stats().finished == 1
    [told] = [record for record in caplog.records if "middleware" in record.getMessage()]
    text = "many: awaited takes many jobs, and middleware that takes one is not called: note."
    assert (told.levelname, told.getMessage().partition(" Annotate")[0]) == (
        ("INFO", f"▶ {text}") if said else ("WARNING", f"✗ {text}")
    )
