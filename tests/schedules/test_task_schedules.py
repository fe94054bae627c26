"""Schedules from code: versions side by side, rollbacks, removed ones, and schedules that were put by hand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

import tarry
from tarry import BadInput
from tarry.clients.testing import Clock, TestClient

Deploy = Callable[..., list[str]]


def runs(client: TestClient, *declare_schedules: Callable[[tarry.Worker, list[str]], None]) -> list[str]:
    """A worker with this code runs until there is nothing more to do; answers what its tasks wrote."""
    worker, seen = tarry.Worker("shop", client=client), list[str]()
    for part in declare_schedules:
        part(worker, seen)
    asyncio.run(worker.run_until_idle())
    return seen


def tidy(period: Any, **named: Any) -> Callable[[tarry.Worker, list[str]], None]:
    def declare_schedules(worker: tarry.Worker, seen: list[str]) -> None:
        @worker.every(period, **named)
        async def tidy() -> None:
            seen.append(tarry.current_job().id)

    return declare_schedules


def other(worker: tarry.Worker, seen: list[str]) -> None:
    @worker.cron("0 9 * * 1-5", tz="Europe/Berlin", args={"kind": "short", "pages": 3})
    async def report(kind: str, pages: int = 1) -> None:
        seen.append(f"{kind} {pages}")


def plain(worker: tarry.Worker, _: list[str]) -> None:
    @worker.task
    async def nothing() -> None: ...


def test_a_task_runs_at_an_interval(client: TestClient, clock: Clock) -> None:
    assert runs(client, tidy("5m")) == []
    clock.advance("5m")
    [id] = runs(client, tidy("5m"))
    assert id == f"tidy@{client.schedules.get('shop', 'tidy').changed + timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"
    assert runs(client, tidy("5m")) == []
    clock.advance("5m")
    assert len(runs(client, tidy("5m"))) == 1


def test_a_task_runs_by_cron_with_its_arguments(client: TestClient, clock: Clock) -> None:
    runs(client, other)
    clock.advance("3d")  # from a Friday at 8
    assert runs(client, other) == ["short 3"]
    made = client.schedules.get("shop", "report")
    assert (made.cron, made.tz, made.from_code, made.orphaned) == ("0 9 * * 1-5", "Europe/Berlin", True, False)


@pytest.mark.parametrize("recurrence", [{"every": "1h"}, {"cron": "0 * * * *", "tz": "Europe/Berlin"}])
def test_a_schedule_shows_its_last_occurrence(client: TestClient, clock: Clock, recurrence: dict[str, Any]) -> None:
    first = client.schedules.put("letters", "news", **recurrence)
    assert (first.last, first.version, first.declared) == (None, None, None), "none yet, and no code has said anything"
    clock.advance("150m")
    assert client.topic("letters").pop() is not None
    then = client.schedules.get("letters", "news")
    assert then.last == first.next + timedelta(hours=1)
    assert then.following(2, then.next) == [then.next + timedelta(hours=n) for n in (1, 2)]
    client.schedules.pause("letters", "news")
    clock.advance("2h")
    paused = client.schedules.get("letters", "news")
    assert paused.missed_by(clock.now, 2) == paused.following(2, clock.now) == [], "a paused one misses nothing"
    client.schedules.resume("letters", "news")
    assert client.schedules.get("letters", "news").last == then.last + timedelta(hours=2), (
        "those of the pause are left out"
    )
    assert client.schedules.put("letters", "news", every="7h").last is None, "it is another one now"


def test_a_task_may_have_several_schedules(client: TestClient, clock: Clock) -> None:
    def declare_schedules(worker: tarry.Worker, seen: list[str]) -> None:
        @worker.every("1h", id="small", args={"size": 1})
        @worker.every("1d", id="large", args={"size": 10}, missed="all")
        @worker.task(topic="chores")
        async def clean(size: int) -> None:
            seen.append(str(size))

    runs(client, declare_schedules)
    assert [one.id for one in client.schedules.list("chores")] == ["small", "large"]
    clock.advance("2d")
    assert sorted(runs(client, declare_schedules)) == ["1", "10", "10"]


def test_a_deploy_updates_stored_schedules(client: TestClient, clock: Clock) -> None:
    runs(client, tidy("5m"))
    clock.advance(60)
    before = client.schedules.get("shop", "tidy")
    runs(client, tidy("5m"))
    assert client.schedules.get("shop", "tidy") == before, "the same code changes nothing"
    runs(client, tidy("10m"))
    after = client.schedules.get("shop", "tidy")
    assert (after.every, after.next) == (timedelta(minutes=10), after.changed + timedelta(minutes=10))
    runs(client, tidy("10m", missed="all"))
    assert client.schedules.get("shop", "tidy").next == after.next, "the rhythm is the same"


def test_an_old_worker_that_restarts_beside_a_new_one_changes_nothing(client: TestClient, clock: Clock) -> None:
    runs(client, tidy("5m"))
    runs(client, tidy("10m"))
    for _ in range(5):
        clock.advance(60)
        runs(client, tidy("5m"))
        runs(client, tidy("10m"))
        assert client.schedules.get("shop", "tidy").every == timedelta(minutes=10)


def test_a_rollback_takes_effect_when_the_newer_version_is_gone(client: TestClient, clock: Clock) -> None:
    runs(client, tidy("5m"))
    clock.advance(60)
    runs(client, tidy("10m"))
    clock.advance(149)
    runs(client, tidy("5m"))
    assert client.schedules.get("shop", "tidy").every == timedelta(minutes=10)
    clock.advance(2)
    runs(client, tidy("5m"))
    assert client.schedules.get("shop", "tidy").every == timedelta(minutes=5)
    runs(client, tidy("10m"))
    assert client.schedules.get("shop", "tidy").every == timedelta(minutes=5), "now that is the older one"


def test_a_schedule_removed_from_code_is_orphaned_and_still_fires(client: TestClient, clock: Clock) -> None:
    runs(client, tidy("5m"), other)
    clock.advance(100)
    runs(client, other)
    assert not client.schedules.get("shop", "tidy").orphaned, "an older version may be about"
    clock.advance(100)
    assert not client.schedules.get("shop", "tidy").orphaned, "nobody has said anything since"
    runs(client, other)
    assert {one.id: one.orphaned for one in client.schedules.list()} == {"tidy": True, "report": False}
    clock.advance("5m")
    runs(client, plain)
    assert client.schedules.get("shop", "tidy").fired == 1
    runs(client, tidy("5m"), other)
    assert not client.schedules.get("shop", "tidy").orphaned
    client.schedules.delete("shop", "tidy")
    runs(client, other)
    assert client.schedules.get("shop", "tidy") is None


def test_code_without_schedules_orphans_too(client: TestClient, clock: Clock) -> None:
    runs(client, tidy("5m"))
    clock.advance(200)
    runs(client, plain)
    assert client.schedules.get("shop", "tidy").orphaned


def test_a_manual_pause_survives_a_deploy(client: TestClient, clock: Clock) -> None:
    runs(client, tidy("5m"))
    client.schedules.pause("shop", "tidy")
    runs(client, tidy("10m"))
    clock.advance("1h")
    assert runs(client, tidy("10m")) == []
    assert client.schedules.resume("shop", "tidy")
    clock.advance("10m")
    assert len(runs(client, tidy("10m"))) == 1


def test_manual_and_declared_schedules_do_not_overwrite_each_other(
    client: TestClient, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    client.schedules.put("shop", "tidy", {"task": "nothing"}, every="1h")
    with caplog.at_level(logging.WARNING, "tarry.worker"):
        runs(client, tidy("5m"))
    assert "one with this id was put by hand" in caplog.text
    assert client.schedules.get("shop", "tidy").every == timedelta(hours=1)
    runs(client, other)
    with pytest.raises(BadInput, match="code declares it"):
        client.schedules.put("shop", "report", every="1h")


def test_nonsensical_schedules_are_refused_at_declaration() -> None:
    worker = tarry.Worker("shop", url="redis://nowhere")

    async def task(n: int) -> None: ...

    for decorate, said in (
        (worker.every("5m"), "missing"),
        (worker.every("5m", args={"n": "many"}), "int"),
        (worker.every("5m", args={"m": 1}), "unexpected"),
        (worker.every(0, args={"n": 1}, id="zero"), "too short"),
        (worker.cron("never", args={"n": 1}, id="never"), "minute hour day"),
        (worker.cron("0 9 * * *", tz="Mars", args={"n": 1}, id="mars"), "no time zone"),
        (worker.cron("0 9 * * *", args={"n": 1}, id="a b"), "blank"),
    ):
        made = worker.task(name=f"task{said}".replace(" ", "-"))(task)
        with pytest.raises(BadInput, match=said):
            decorate(made)
    with pytest.raises(BadInput, match="missed"):
        worker.every("5m", missed="never")(worker.task(name="m")(lambda: None))  # type: ignore[arg-type]
    made = worker.task(name="twice")(task)
    worker.every("5m", args={"n": 1})(made)
    with pytest.raises(BadInput, match=r"^id: .*give id="):
        worker.every("6m", args={"n": 1})(made)
    with pytest.raises(BadInput, match="give topic= to @task"):
        worker.every("6m", args={"n": 1}, id="b", topic="elsewhere")(made)


def test_included_registries_bring_their_schedules(client: TestClient, clock: Clock) -> None:
    part = tarry.Registry()

    @part.every("5m")
    async def tick() -> None: ...

    worker = tarry.Worker("shop", client=client)
    worker.include(part)
    asyncio.run(worker.run_until_idle())
    assert [one.id for one in client.schedules.list()] == ["tick"]
    with pytest.raises(BadInput, match="already"):
        worker.every("1h")(tick)


@pytest.mark.parametrize("hooked", [True, False])
@pytest.mark.parametrize("is_async", [True, False])
def test_a_job_that_is_too_late_is_dead_or_goes_to_its_hook(
    client: TestClient, clock: Clock, hooked: bool, is_async: bool
) -> None:
    seen: list[str] = []

    def note(kind: str) -> Any:
        def plain(job: tarry.Job[str]) -> None:
            seen.append(f"{kind} {job.body}")

        async def awaited(job: tarry.AsyncJob[str]) -> None:
            seen.append(f"{kind} {job.body}")

        return awaited if is_async else plain

    worker = tarry.Worker("shop", client=client)
    worker.on("codes", max_lateness="1m", on_too_late=note("late") if hooked else None)(note("sent"))
    topic = client.topic("codes")
    topic.add("old", id="old")
    clock.advance("50s")
    topic.add("new")
    clock.advance("10.001s")
    asyncio.run(worker.run_until_idle())
    assert sorted(seen) == (["late old", "sent new"] if hooked else ["sent new"])
    old = topic.get("old")
    assert old is None if hooked else (old.state, old.reason) == ("dead", "too late")
    stats = topic.stats()
    assert (stats.died, stats.too_late, stats.refused) == ((0, 0, 0) if hooked else (1, 1, 0))


@pytest.mark.parametrize("is_async", [True, False])
def test_how_late_a_job_may_be_says_the_job_and_else_its_handler(
    client: TestClient, clock: Clock, is_async: bool
) -> None:
    seen: list[str] = []

    def plain(job: tarry.Job[str]) -> None:
        seen.append(job.body)

    async def awaited(job: tarry.AsyncJob[str]) -> None:
        seen.append(job.body)

    worker = tarry.Worker("shop", client=client)
    worker.on("codes", max_lateness="1m")(awaited if is_async else plain)
    topic = client.topic("codes")
    topic.add("patient", max_lateness="1h")
    topic.add("plain", id="plain")
    clock.advance("2m")
    asyncio.run(worker.run_until_idle())
    assert (seen, topic.get("plain").state) == (["patient"], "dead")  # type: ignore[union-attr]


def test_on_too_late_must_match_its_handler_and_needs_max_lateness() -> None:
    worker = tarry.Worker("shop", url="redis://nowhere")

    async def handler(job: tarry.AsyncJob[str]) -> None: ...

    with pytest.raises(BadInput, match=r"^on_too_late: .* together with max_lateness"):
        worker.on("a", on_too_late=handler)
    with pytest.raises(BadInput, match=r"^on_too_late: it must be async def"):
        worker.on("a", max_lateness=1, on_too_late=print)(handler)
