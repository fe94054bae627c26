"""Middleware, log lines, and slots that topics share."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import tarry
from tarry.values import printable
from tarry.worker.slots import SlotGroup, SlotPool


@contextmanager
def noted(name: str, job: Any, seen: list[Any]) -> Iterator[None]:
    seen.append((name, "start", job.id))
    try:
        yield
    except tarry.JobDied as dead:
        seen.append((name, "dead", str(dead.error)))
        raise
    except Exception as fault:
        seen.append((name, "error", str(fault)))
        raise


def plain_layer(name: str, seen: list[Any]) -> Any:
    def layer(job: Any, handle: Callable[[Any], Any]) -> Any:
        with noted(name, job, seen):
            result = handle(job)
        seen.append((name, "result", result))
        return result

    return layer


def async_layer(name: str, seen: list[Any]) -> Any:
    async def layer(job: Any, handle: Callable[[Any], Any]) -> Any:
        with noted(name, job, seen):
            result = await handle(job)
        seen.append((name, "result", result))
        return result

    return layer


@pytest.mark.parametrize("plain", [False, True])
def test_middleware_sees_start_result_error_and_dead(valkey_url: str, namespace: str, plain: bool) -> None:
    seen: list[Any] = []
    worker, part = tarry.Worker(url=valkey_url, namespace=namespace), tarry.Registry()

    for name, registry in (("outer", worker), ("inner", part)):
        registry.around(plain_layer(name, seen))
        registry.around(async_layer(name, seen))

    def handle(job: Any) -> int:
        if job.id == "good":
            return 42
        raise ValueError(job.id)

    async def awaited(job: Any) -> int:
        return handle(job)

    part.on("n", retry="1h")(handle if plain else awaited)  # the next job's run is not to be its second attempt
    worker.include(part)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        for id, most in (("good", 1), ("bad", 5), ("last", 1)):
            client.topic("n").add("x", id=id, max_attempts=most)
            asyncio.run(worker.run_until_idle())
            expected = {"good": ("result", 42), "bad": ("error", "bad"), "last": ("dead", "last")}[id]
            assert seen == [
                ("outer", "start", id), ("inner", "start", id), ("inner", *expected), ("outer", *expected)
            ]  # fmt: skip
            seen.clear()
        stats = client.topic("n").stats()
        assert (stats.finished, stats.delayed, stats.dead, stats.refused) == (1, 1, 1, 0)


def test_a_middleware_failure_fails_the_job(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    @worker.around
    async def commit(job: Any, handle: Any) -> None:
        await handle(job)
        raise LookupError("no commit")

    @worker.on("n")
    async def fine(job: Any) -> None: ...

    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add("x", id="7")
        asyncio.run(worker.run_until_idle())
        job = client.topic("n").get("7")
        assert job is not None
        assert job.reason == "LookupError: no commit"
    with pytest.raises(tarry.BadInput, match="not callable"):
        worker.around(7)  # type: ignore[arg-type]


def test_at_info_one_log_line_summarizes_many_jobs(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tarry.worker")
    worker = tarry.Worker(url=valkey_url, namespace=namespace)

    @worker.on("n")
    async def handle(job: tarry.AsyncJob[int]) -> None:
        if job.body == 3:
            raise tarry.Bury("three")

    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add_many(range(100))
        asyncio.run(worker.run_until_idle())
    [line] = [line for line in caplog.records if line.getMessage().startswith("∑")]
    assert line.getMessage().startswith("∑ n: 100 taken, 99 done, 0 retried, 1 dead, 0 running, at most ")
    said = json.loads(printable.JsonFormatter().format(line))
    assert (said["topic"], said["taken"], said["done"], said["dead"], said["level"]) == ("n", 100, 99, 1, "info")
    assert (said["retried"], said["lost"], said["overrun"], said["running"]) == (0, 0, 0, 0)
    assert said["lateness_max_ms"] >= 0
    assert not {"again", "late_max_ms"} & said.keys()
    [dead] = [line for line in caplog.records if line.levelname == "ERROR"]
    assert dead.getMessage().endswith("attempt 1 is dead: three")


def test_at_debug_a_job_is_logged_with_its_lateness_and_its_duration(
    valkey_url: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tarry.worker")
    worker = tarry.Worker(url=valkey_url, namespace=namespace)
    worker.on("n")(lambda _: None)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("n").add("x", id="7")
        asyncio.run(worker.run_until_idle())
    lines = [json.loads(printable.JsonFormatter().format(line)) for line in caplog.records]
    [taken] = [line for line in lines if line["message"].startswith("→")]
    [done] = [line for line in lines if line["message"].startswith("✓ n/7")]
    always = {"at", "level", "logger", "message", "topic", "id", "attempt"}
    assert taken.keys() == always | {"lateness_ms"}
    assert done.keys() == always | {"duration_ms"}


def test_topics_with_a_backlog_share_the_slots_by_weight(valkey_url: str, namespace: str) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace, concurrency=12)
    running = {"a": 0, "b": 0, "c": 0}
    seen: list[str] = []
    most = 0

    def handler(topic: str) -> Any:
        async def handle(job: tarry.AsyncJob[Any]) -> None:
            nonlocal most
            running[topic] += 1
            most = max(most, sum(running.values()))
            await asyncio.sleep(0.01)  # long beside a pop, on a busy machine too
            seen.append(topic)  # what both run at this moment depends on who began when
            running[topic] -= 1
            if len(seen) == 600:
                worker.stop()

        return handle

    for topic, weight in (("a", 3), ("b", 1), ("c", 1)):
        worker.on(topic, weight=weight)(handler(topic))
    with tarry.Client(valkey_url, namespace=namespace) as client:
        for topic in "ab":
            client.topic(topic).add_many(range(3000))
        asyncio.run(worker.run(signals=False))
    assert most <= 12
    share = seen[100:].count("a") / len(seen[100:])
    assert 0.65 < share < 0.85, "three of four slots"


def test_a_busy_topic_takes_all_slots_but_one_for_each_other_topic() -> None:
    class User:
        def __init__(self, weight: float) -> None:
            self.weight, self.slots_in_use, self.group = weight, 0, None

    share, busy, idle = SlotPool(10), User(1), User(5)
    share.add_user()
    share.add_user()
    assert share.take(idle, 5, greedy=False) == 1
    assert share.take(busy, 50, greedy=True) == 9
    busy.slots_in_use = 9
    assert share.take(busy, 50, greedy=True) == 0
    assert share.take(idle, 50, greedy=True) == 1


def test_of_slots_that_topics_share_one_is_kept_for_each_unless_there_are_too_many() -> None:
    class User:
        weight, slots_in_use = 1.0, 0

        def __init__(self, group: SlotGroup | None = None) -> None:
            self.group = group

    share, group = SlotPool(6), SlotGroup(2)
    share.add_user()
    assert share.own_slots(User(), 5) == 5, "the only topic"
    share.add_user(group)
    share.add_user()
    assert share.own_slots(User(), 5) == 1
    assert share.own_slots(User(group), 2) == 0, "the others of its pattern may take both"
    share.add_user()
    assert share.own_slots(User(), 5) == 0, "at most half of all slots are kept"


@pytest.mark.parametrize(("together", "own"), [(None, {"a": 3, "b": 5}), (8, {"a": 1, "b": 1}), (3, {"a": 0, "b": 0})])
def test_a_worker_reports_the_slots_that_its_other_topics_do_not_take(
    valkey_url: str, namespace: str, together: int | None, own: dict[str, int]
) -> None:
    worker = tarry.Worker(url=valkey_url, namespace=namespace, concurrency=together)
    seen: dict[str, int] = {}

    async def look(job: tarry.AsyncJob[Any]) -> None:
        async with tarry.AsyncClient(valkey_url, namespace=namespace) as client:
            while not seen:
                seen.update({one.name: one.own_slots for info in await client.workers() for one in info.topics})
                await asyncio.sleep(0.01)
        worker.stop()

    worker.on("a", concurrency=3)(look)
    worker.on("b", concurrency=5)(look)
    with tarry.Client(valkey_url, namespace=namespace) as client:
        client.topic("a").add(1)
        asyncio.run(worker.run(signals=False))
    assert seen == own


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines_carry_topic_and_id(form: str) -> None:
    line = logging.LogRecord("tarry.worker", logging.WARNING, __file__, 1, "↻ %s", ("n/7",), None)
    line.tarry = {"topic": "n", "id": "7"}
    said = (printable.JsonFormatter() if form == "json" else printable.TextFormatter()).format(line)
    if form == "text":
        assert said.endswith(" WARNING ↻ n/7")
    else:
        made = json.loads(said)
        assert made.pop("at").endswith("Z")
        assert made == {"level": "warning", "logger": "tarry.worker", "message": "↻ n/7", "topic": "n", "id": "7"}
