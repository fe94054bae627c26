"""Reports of workers: which are known, since when, and for how long after the last report."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import redis

from story.adapters import Adapter
from tarry.clients.testing import Clock
from tarry.values.durations import as_datetime
from tarry.values.keys import worker_keys
from tarry.verbs import workers
from tarry.verbs.workers import ReportedJob, WorkerReport, WorkerTopic


def worker_report(pid: int = 7, **more: Any) -> WorkerReport:
    topics = [WorkerTopic("orders", ("close",), 50, 2), WorkerTopic("测试", ("a", "b"), 20, 0)]
    usual: dict[str, Any] = {"slots": 70, "busy": 2, "stopping": False, "topics": topics, "jobs": []}
    return WorkerReport("host", pid, "1.0.0rc1", **{**usual, **more})


async def report(adapter: Adapter, name: str, since: int | None = None, *, what: WorkerReport | None = None) -> int:
    call = workers.report_worker(adapter.client.namespace, name.encode(), since, what or worker_report())
    answer: workers.ReportAnswer = await adapter.run(call)
    return answer.since


async def names(adapter: Adapter) -> list[str]:
    return [info.name for info in await adapter.workers()]


async def test_a_worker_is_listed_with_its_last_report(adapter: Adapter, clock: Clock) -> None:
    began = clock.us
    since = await report(adapter, "host:7:abc")
    clock.advance(10)
    held = ReportedJob("orders", "id", 3, began)
    await report(adapter, "host:7:abc", since, what=worker_report(jobs=[held]))
    clock.advance(5)
    [info] = await adapter.workers()
    assert (info.name, info.host, info.pid, info.version) == ("host:7:abc", "host", 7, "1.0.0rc1")
    assert (info.slots, info.busy, info.free, info.stopping) == (70, 2, 68, False)
    assert info.topics == tuple(worker_report().topics)
    assert (info.jobs[0].id, info.jobs[0].taken) == ("id", as_datetime(began))
    assert (info.since, info.reported_at - info.since, info.now - info.reported_at) == (
        as_datetime(began), timedelta(seconds=10), timedelta(seconds=5)
    )  # fmt: skip


async def test_a_worker_silent_for_half_a_minute_is_not_listed(adapter: Adapter, clock: Clock) -> None:
    await report(adapter, "dead")
    clock.advance(20)
    await report(adapter, "alive")
    assert await names(adapter) == ["alive", "dead"]
    clock.advance("9.999999s")
    assert await names(adapter) == ["alive", "dead"]
    clock.advance("0.000001s")
    assert await names(adapter) == ["alive"]


async def test_a_worker_that_reports_again_keeps_its_start_time(
    adapter: Adapter, clock: Clock, valkey_url: str
) -> None:
    began = clock.us
    since = await report(adapter, "slow")
    clock.advance("1h")
    await report(adapter, "other")
    with redis.Redis.from_url(valkey_url) as server:
        assert server.hkeys(worker_keys(adapter.client.namespace).workers) == [b"other"], "the silent one was swept"
    await report(adapter, "slow", since)
    assert [info.since for info in await adapter.workers() if info.name == "slow"] == [as_datetime(began)]


async def test_a_repeated_first_report_keeps_its_start_time(adapter: Adapter, clock: Clock) -> None:
    since = await report(adapter, "w")
    clock.advance(1)
    assert await report(adapter, "w") == since


async def test_a_stopped_worker_is_forgotten_at_once(adapter: Adapter) -> None:
    await report(adapter, "w")
    assert await adapter.run(workers.forget_worker(adapter.client.namespace, b"w")) is True
    assert await names(adapter) == []
    assert await adapter.run(workers.forget_worker(adapter.client.namespace, b"w")) is False


async def test_namespaces_do_not_see_workers_of_others(adapter: Adapter) -> None:
    await report(adapter, "w")
    assert await adapter.run(workers.list_workers(adapter.client.namespace + "2")) == []


async def test_many_workers_are_read_and_swept_in_steps(adapter: Adapter, clock: Clock, valkey_url: str) -> None:
    for number in range(450):
        await report(adapter, f"{number:03}")
    assert await names(adapter) == [f"{number:03}" for number in range(450)]
    clock.advance(31)
    keys = worker_keys(adapter.client.namespace)
    with redis.Redis.from_url(valkey_url) as server:
        for left in (351, 251):
            await report(adapter, "new")
            assert (server.hlen(keys.workers), server.zcard(keys.heard)) == (left, left)
        assert await names(adapter) == ["new"]


async def test_worker_keys_expire_without_reports(adapter: Adapter, valkey_url: str) -> None:
    await report(adapter, "w")
    with redis.Redis.from_url(valkey_url) as server:
        assert all(30_000 < server.pttl(key) <= 60_000 for key in worker_keys(adapter.client.namespace)[:2])


@pytest.mark.parametrize("wrote", [b"", b"no json", b"x {}", b'1 {"host": 7}', b"\xff\xfe", b"1 " + b"[" * 5000])
async def test_unreadable_worker_reports_are_skipped(
    adapter: Adapter, clock: Clock, valkey_url: str, wrote: bytes
) -> None:
    await report(adapter, "w")
    keys = worker_keys(adapter.client.namespace)
    with redis.Redis.from_url(valkey_url) as server:
        server.hset(keys.workers, "strange", wrote)
        server.zadd(keys.heard, {"strange": clock.us})
        server.hset(keys.workers, "never heard", b"1 {}")
    assert await names(adapter) == ["w"]
