"""Workers keep themselves known while they live: real processes, told to stop or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis
from msgspec import structs

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.programs.cli.worker_commands import as_text
from tarry.values.durations import SECOND
from tarry.worker.heartbeat import WorkerReports
from until import until
from worker.conftest import WorkerProcess

Hire = Callable[..., WorkerProcess]
MOST_REPORTS = 3
"""Of a worker that runs for a moment: it comes, it stops with something running, and one more."""


def seconds_from_now(url: str, namespace: str, seconds: int) -> list[str]:
    """Who will be known then, if nothing more is heard."""
    clock = Clock(time.time_ns() // 1000 + seconds * SECOND)
    with TestClient(url, clock, namespace=namespace) as later:
        return [info.name for info in later.workers()]


def test_a_worker_reports_its_jobs_and_disappears_when_it_stops(
    client: tarry.Client, start_worker: Hire, valkey_url: str, namespace: str
) -> None:
    client.topic("orders").add_many([tarry.NewJob(n, id=f"order {n}") for n in range(3)])
    one = start_worker("stuck", grace="0s")
    until(one.taken, "it has taken a job")
    two = start_worker("quick")
    until(lambda: len(client.workers()) == 2, "both are known")
    pids = sorted(info.pid for info in client.workers())
    assert pids == sorted([one.process.pid, two.process.pid])
    [info] = [info for info in client.workers() if info.pid == one.process.pid]
    [topic] = info.topics
    assert (topic.name, topic.handlers, topic.slots) == ("orders", ("close",), 8)
    assert (info.slots, info.stopping, info.version) == (8, False, tarry.__version__)
    assert info.name in {job.holder for job in client.topic("orders").list("reserved")}
    two.process.send_signal(signal.SIGTERM)
    assert two.process.wait() == 0
    assert [info.pid for info in client.workers()] == [one.process.pid]


def test_a_killed_worker_disappears_after_half_a_minute(
    client: tarry.Client, start_worker: Hire, valkey_url: str, namespace: str
) -> None:
    started = start_worker("quick")
    until(client.workers, "it is known")
    started.process.kill()
    started.process.wait()
    [info] = client.workers()
    assert seconds_from_now(valkey_url, namespace, 0) == [info.name]
    assert seconds_from_now(valkey_url, namespace, 31) == []


def in_a_worker(url: str, namespace: str, look: Callable[[tarry.Worker], None], **options: Any) -> None:
    """Looks while a handler has a job in hand."""
    worker = tarry.Worker("shop", url=url, namespace=namespace, **options)

    @worker.on("orders", concurrency=5)
    async def close(job: tarry.AsyncJob[Any]) -> None:
        await asyncio.to_thread(look, worker)
        worker.stop()

    @worker.on("plain")
    def plain(job: tarry.Job[Any]) -> None: ...

    @worker.task(topic="mails")
    def mail() -> None: ...

    with tarry.Client(url, namespace=namespace) as client:
        client.topic("orders").add("x", id="7")
    asyncio.run(worker.run(signals=False))


def test_a_worker_says_that_its_server_may_drop_jobs_now(
    own_server: Callable[..., ServerProcess],
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next look is far away: here it is at each check."""
    monkeypatch.setattr("tarry.worker.renewal.LOOK_EVERY_S", 0.0)
    url = own_server(port=True).url

    def change(_worker: tarry.Worker) -> None:
        with redis.Redis.from_url(url) as raw:
            raw.config_set("maxmemory-policy", "allkeys-lru")
            until(lambda: "from noeviction to allkeys-lru" in caplog.text, "it is told")
            raw.config_set("maxmemory-policy", "noeviction")
            until(lambda: "its maxmemory_policy is noeviction again" in caplog.text, "it is told")

    in_a_worker(url, namespace, change, ttr="3s")


@pytest.mark.parametrize("shared", [None, 10])
def test_a_worker_reports_its_running_jobs(
    client: tarry.Client, valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch, shared: int | None
) -> None:
    """The next report is far away: here it is asked for at each look."""
    monkeypatch.setattr("tarry.worker.heartbeat.REPORT_EVERY_S", 0.0)
    seen: list[tarry.types.WorkerInfo] = []

    def busy() -> bool:
        seen[:] = client.workers()
        return bool(seen and seen[0].jobs)

    in_a_worker(valkey_url, namespace, lambda worker: until(busy, "the job is told"), ttr="3s", concurrency=shared)
    [info] = seen
    assert (info.busy, info.slots, info.free) == (1, shared or 45, (shared or 45) - 1)
    assert [(job.topic, job.id, job.attempt) for job in info.jobs] == [("orders", "7", 1)]
    text = as_text(info)
    assert text.startswith(f"{info.name}  busy 1 of "), "the name is whole, however narrow the window is"
    oldest = info.jobs[0]
    for running, age in ((info.jobs[0].taken + timedelta(seconds=2), "2s"), (oldest.taken, "0s")):
        later = structs.replace(info, reported_at=running, now=running + timedelta(seconds=9))
        assert f"reported 9s ago  longest orders/7 {age}" in as_text(later), "without the age of the report"
    assert [(topic.name, topic.handlers, topic.takes_any_body, topic.busy) for topic in info.topics] == [
        ("orders", ("close",), True, 1), ("plain", ("plain",), True, 0), ("mails", ("mail",), False, 0)
    ]  # fmt: skip
    assert client.workers() == []


def test_a_stopping_worker_reports_it_while_a_job_runs(client: tarry.Client, start_worker: Hire) -> None:
    client.topic("orders").add("x")
    started = start_worker("stuck", grace="1m")
    until(started.taken, "it has taken the job")
    until(client.workers, "it is known")
    started.process.send_signal(signal.SIGTERM)
    until(lambda: any(info.stopping and info.busy == 1 for info in client.workers()), "it tells that it stops")
    started.process.send_signal(signal.SIGINT)
    started.process.wait()
    assert client.workers() == []


def test_worker_reports_are_rare(valkey_url: str, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tarry.verbs import workers

    made = []
    report = workers.report_worker
    monkeypatch.setattr(workers, "report_worker", lambda *given: made.append(given) or report(*given))

    def several_looks(worker: tarry.Worker) -> None:
        time.sleep(0.2)

    in_a_worker(valkey_url, namespace, several_looks, ttr="120ms")
    assert 1 <= len(made) <= MOST_REPORTS


def test_an_idle_worker_sends_a_command_every_two_seconds_at_most(valkey_url: str, namespace: str) -> None:
    """One topic, ten minutes of imaginary time. After each pop a worker blocks in one BLPOP; the watch and the reports set its pace.

    Promise: Idle costs nothing.
    """
    seconds = 600
    with redis.Redis.from_url(valkey_url) as server, TestClient(valkey_url, Clock(), namespace=namespace) as client:
        client.topic("orders").add("tomorrow", delay="1d")

        def calls(perform: Callable[[], object]) -> int:
            def sent() -> int:
                return int(server.info("commandstats")["cmdstat_evalsha"]["calls"])

            before = sent()
            perform()
            return sent() - before

        pops = calls(lambda: client.topic("orders").pop(wait=seconds))
        reports = WorkerReports(client, b"worker", [], {}, 0)
        reported = calls(lambda: [reports.report_if_due(float(now)) for now in range(seconds)])
    assert pops >= seconds / 30, "it keeps its seat"
    assert reported >= seconds / 30, "a silent worker is forgotten after half a minute"
    assert (2 * pops + reported) / seconds <= 0.5


def test_a_worker_without_report_permission_works_and_logs_it_once(
    own_server: Callable[..., ServerProcess], namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A user of an older rule, which knows the keys of topics only."""
    url = own_server(port=True).url
    keys = (f"~tarry:{{{namespace}/*", f"~tarry:{namespace}:topics")
    with redis.Redis.from_url(url) as server:
        server.execute_command("ACL", "SETUSER", "app", "on", ">secret", *keys, "+@all")
    limited = url.replace("redis://", "redis://app:secret@")
    in_a_worker(limited, namespace, lambda worker: None)
    with tarry.Client(limited, namespace=namespace) as client:
        assert client.topic("orders").stats().finished == 1
    told = [line.getMessage() for line in caplog.records if "tarry workers does not show" in line.getMessage()]
    assert len(told) == 1
    assert "permission" in told[0]


def test_workers_are_listed_on_the_command_line(
    client: tarry.Client, start_worker: Hire, cli: Any, answers: Any
) -> None:
    client.topic("orders").add("x", id="7")
    started = start_worker("stuck")
    until(started.taken, "it has taken the job")
    until(client.workers, "it is known")
    [told] = answers("workers")
    assert (told["pid"], told["slots"], told["host"]) == (started.process.pid, 8, os.uname().nodename[:60])
    assert [topic["name"] for topic in told["topics"]] == ["orders"]
    assert told["since"].endswith("Z")
    shown = cli("workers").stdout
    assert shown.startswith(f"{told['name']}  busy ")
    assert told["name"].startswith(f"{told['host']}:{told['pid']}:")
    assert cli("workers", "mail").stderr == "no worker is known for mail\n"
    [seen] = answers("top", "orders")
    assert (seen["workers"], seen["slots"]) == (1, 8)
    assert f"\n{told['name']}  busy " in cli("top", "--once").stdout
