"""Jobs of tasks that a worker does not know: another application's, or of another release. Imaginary time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import redis

import tarry
from tarry.core.requests import ScriptCall
from tarry.programs.cli.job_table import error_line
from tarry.programs.cli.output import job_data
from tarry.programs.dashboard import Dashboard
from tarry.programs.dashboard.page_request import PageRequest
from tarry.programs.dashboard.pages import topic_page as topic_part
from tarry.programs.dashboard.pages.jobs_page import fault
from tarry.verbs.jobs import settle
from tarry.verbs.jobs.records import pack_fault
from tarry.verbs.workers import WorkerReport, WorkerTopic, report_worker
from tarry.wire.answers import JobShown
from tarry.worker import unknown_tasks
from tarry.worker.outage import Outage
from tarry.worker.settler import Settler
from tarry.worker.unknown_tasks import UnknownTasks
from until import LONGEST_S, until
from worker.test_undecodable import World

ADA = "last seen in ada (process 4711)"


@pytest.fixture
def world(valkey_url: str, namespace: str) -> Iterator[World]:
    made = World(valkey_url, namespace)
    yield made
    made.client.close()


def other(world: World, **options: Any) -> tarry.Worker:
    """An application that has no task ``charge``."""
    worker = tarry.Worker("shop", client=world.worker().async_client, **options)

    @worker.task
    async def remind(user: int) -> None:
        world.seen.append(user)

    return worker


def report(world: World, *tasks: str) -> None:
    """The report of a live worker that has these tasks."""
    topics = [WorkerTopic("shop", tasks, 5, 0)]
    world.client.engine.run(
        report_worker(world.client.namespace, b"ada", None, WorkerReport("ada", 4711, "1", 5, 0, False, topics, []))
    )


def test_an_unknown_task_is_released_uncounted_with_growing_delays(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge", "args": {"n": 7}}, id="7")
    worker, waits = other(world), list[float]()
    for _ in range(30):
        world.run(worker)
        job, now = world.only_job("shop"), topic.stats().now
        assert (job.state, job.attempts) == ("delayed", 0)
        assert job.due is not None
        waits.append((job.due - now).total_seconds())
        world.clock.advance(job.due - now)
    assert waits == sorted(waits)
    assert waits[:4] == pytest.approx([0.1, 0.1, 0.2, 0.4])
    assert waits[-1] == pytest.approx(600)
    assert sum(wait < 600 for wait in waits) == 14
    assert caplog.text.count("nobody here knows task 'charge'; no worker that knows it was seen. Its jobs") == 30, (
        "once for each run of a worker"
    )


def test_a_task_unknown_for_a_day_is_dead_with_a_reason(world: World, caplog: pytest.LogCaptureFixture) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge"}, id="7", max_attempts=1)
    world.run(other(world))
    for hours in (12, 11):
        world.clock.advance(timedelta(hours=hours))
        world.run(other(world))
        assert world.only_job("shop").state == "delayed", "another process, and it still knows since when"
    world.clock.advance("1h")
    world.run(other(world))
    job = world.only_job("shop")
    assert (job.state, job.reason) == (
        "dead",
        "nobody has known task 'charge' for 1d; no worker that knows it was seen",
    )
    assert "is dead: nobody has known task 'charge' for 1d" in caplog.text
    assert topic.kick("7")
    charge(world)
    assert world.seen == ["charged"]


def charge(world: World) -> None:
    worker = world.worker()

    @worker.task(name="charge")
    async def charging() -> None:
        world.seen.append("charged")

    world.run(worker)


@pytest.mark.parametrize(("option", "state"), [("1m", "dead"), (None, "delayed")])
def test_unknown_tasks_die_after_sets_the_period(world: World, option: str | None, state: str) -> None:
    world.client.topic("shop").add({"task": "charge"}, id="7")
    for _ in range(2):
        world.run(other(world, unknown_tasks_die_after=option))
        world.clock.advance("48h" if option is None else "1m")
    world.run(other(world, unknown_tasks_die_after=option))
    assert world.only_job("shop").state == state


def test_a_worker_that_knows_the_task_is_named_and_restarts_the_period(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.client.topic("shop").add({"task": "charge"}, id="7")
    world.run(other(world))
    world.clock.advance("23h")
    report(world, "charge")
    world.run(other(world))
    job = world.only_job("shop")
    came = (world.clock.now - timedelta(hours=23)).isoformat()
    assert job.note == f"nobody here knows task 'charge' since {came}; {ADA} at {world.clock.now.isoformat()}"
    known_at = world.clock.now.isoformat()
    assert f"✗ shop: nobody here knows task 'charge'; {ADA}. Its jobs are put back" in caplog.text
    world.clock.advance("2h")
    world.run(other(world))
    job = world.only_job("shop")
    assert job.state == "delayed", "25 hours after it came, and two after it was known"
    assert job.note == f"nobody here knows task 'charge' since {came}; {ADA} at {known_at}", (
        "it is gone, and remembered"
    )
    world.clock.advance("22h")
    world.run(other(world))
    assert world.only_job("shop").reason == f"nobody has known task 'charge' for 1d; {ADA}"


def flaky(world: World, text: str = "try later") -> tarry.Worker:
    """The application that has the task ``charge``, which fails."""
    worker = world.worker()

    @worker.task(name="charge", retry="1s")
    async def charging() -> None:
        raise ConnectionError(text)

    return worker


def test_the_error_of_a_failed_job_stays_beside_the_note(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge"}, id="7")
    world.run(flaky(world))
    failed = world.only_job("shop")
    for _ in range(3):
        world.clock.advance("10m")
        world.run(other(world))
        job = world.only_job("shop")
        assert (job.state, job.attempts, job.retrying) == ("delayed", 1, True)
        assert (job.reason, job.error) == (failed.reason, failed.error)
        assert job.reason == "ConnectionError: try later"
        assert str(job.note).startswith("nobody here knows task 'charge' since 2027-01-15T08:10:00+00:00; ")
    for text in ("try later", "nobody here knows task 'charge'", "in charging"):
        for state in ("retrying", "delayed", None):
            assert [job.id for job in topic.list(state, error=text)] == ["7"], text  # type: ignore[arg-type]
    assert error_line(job) == fault(job) == f"ConnectionError: try later; {job.note}"
    shown = msgspec.json.decode(msgspec.json.encode(job_data(job)), type=JobShown)
    assert (shown.reason, shown.error, shown.note) == (job.reason, job.error, job.note)
    assert error_line(job).startswith("ConnectionError: try later; nobody here knows task 'charge' since ")
    world.run(flaky(world, "still not"))
    job = world.only_job("shop")
    assert (job.reason, job.note) == ("ConnectionError: still not", None), "a worker knows it now"
    assert len(job.failed_attempts) == 2


def test_the_error_of_a_failed_job_stays_when_it_dies_unknown(world: World) -> None:
    world.client.topic("shop").add({"task": "charge"}, id="7")
    world.run(flaky(world))
    failed = world.only_job("shop")
    for _ in range(2):
        world.clock.advance("24h")
        world.run(other(world))
    job = world.only_job("shop")
    assert (job.state, job.reason) == (
        "dead",
        "nobody has known task 'charge' for 1d; no worker that knows it was seen",
    )
    assert job.error == f"{failed.reason}\n{failed.error}"
    assert str(job.note).startswith("nobody here knows task 'charge' since ")


def test_an_error_cannot_pass_for_a_note(world: World) -> None:
    forged = "x\n\x1dnobody here knows task 'charge' since 1970-01-01T00:00:00+00:00; no worker that knows it was seen"
    world.client.topic("shop").add({"task": "charge"}, id="7")
    world.run(flaky(world, forged))
    assert world.only_job("shop").note is None
    world.clock.advance(1)
    world.run(other(world))
    job = world.only_job("shop")
    assert (job.state, str(job.note).split(" since ")[1][:4]) == ("delayed", "2027")


def test_a_reason_cannot_pass_for_a_note(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add("x", id="7")
    job = topic.pop()
    assert job is not None
    job.release(delay=0, reason="x\n\x1dnobody here knows task 'x' since yesterday; no worker that knows it was seen")
    assert world.only_job("shop").note is None


def test_an_unknown_tasks_job_that_cannot_be_put_back_is_not_finished(valkey_url: str, namespace: str) -> None:
    """The consumer finishes a job whose target returns, unless the job is settled."""

    async def story() -> None:
        client = tarry.AsyncClient(valkey_url, namespace=namespace)
        topic: Any = client.topic("shop")
        await topic.add({"task": "charge"}, id="7")
        job = await topic.pop()
        await client.close()
        settler = Settler(topic, blocking.topic("shop"), Outage())
        await UnknownTasks(settler, None).put_back(job, "charge")
        assert job.settled

    with tarry.Client(valkey_url, namespace=namespace) as blocking:
        asyncio.run(story())
        assert blocking.topic("shop").stats().reserved == 1, "it comes back after its TTR"


def test_the_longest_error_leaves_room_for_the_note(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge"}, id="7")
    world.run(flaky(world, "é" * 9000))
    before = world.only_job("shop")
    world.clock.advance(1)
    for _ in range(2):
        world.run(other(world))
        job = world.only_job("shop")
        assert job.reason == before.reason
        assert str(before.error)[:5000] == str(job.error)[:5000]
        assert str(job.note).endswith("; no worker that knows it was seen")
        world.clock.advance("1h")


def test_jobs_that_no_handler_saw_keep_their_error(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge"}, id="7")
    world.run(flaky(world))
    world.clock.advance(1)
    job = topic.pop()
    assert job is not None
    job.release(delay=0, counted=False)
    assert world.only_job("shop").reason == "ConnectionError: try later"


def test_a_worker_that_starts_gets_the_jobs_of_its_tasks_at_once(world: World) -> None:
    topic = world.client.topic("shop")
    for id in ("put back", "rescheduled", "of nobody"):
        topic.add({"task": "frob" if id == "of nobody" else "charge"}, id=id)
    for _ in range(20):
        world.run(other(world))
        world.clock.advance("1m")
    topic.reschedule("rescheduled", delay="5m")
    assert topic.stats().delayed == 3
    due = {job.id: job.due for job in topic.list("delayed")}
    charge(world)
    assert world.seen == ["charged"]
    assert {job.id: job.due for job in topic.list("delayed")} == {id: due[id] for id in ("rescheduled", "of nobody")}
    assert topic.stats().finished == 1


def test_put_backs_of_32_unknown_jobs_are_rare_and_do_not_count(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """With 318 jobs, and half of the pauses: 14,600 put-backs in twenty minutes, all of them counted."""
    caplog.set_level(logging.DEBUG, "tarry.worker")
    topic = world.client.topic("shop")
    topic.add_many([{"task": "charge", "args": {"n": n}} for n in range(32)])
    worker, ends = other(world), world.clock.now + timedelta(minutes=20)
    while world.clock.now < ends:
        world.run(worker)
        stats = topic.stats()
        assert stats.next_due is not None
        world.clock.advance(max(stats.next_due - world.clock.now, timedelta(milliseconds=500)))
    stats = topic.stats()
    assert (stats.delayed + stats.ready, stats.dead) == (32, 0)
    put_back = caplog.text.count("put off")
    assert 32 * 10 < put_back <= 32 * 15
    assert (stats.popped, stats.released) == (32, 0), "as many as were in its hands at a time: no number falls"
    assert sum(out_of(world).values()) == 0
    assert stats.lateness.count == 32, "those of the first time"
    topic.purge()
    topic.add_many([{"task": "remind", "args": {"user": n}} for n in range(40)])
    world.run(worker)
    stats = topic.stats()
    assert (stats.popped, stats.finished) == (40, 40), "the others are taken out"
    assert stats.lateness.count == 40


def out_of(world: World) -> dict[bytes, int]:
    """The hand-outs that count, by bucket of lateness, and those of jobs that were put back, as the server has them."""
    with redis.Redis.from_url(world.url) as server:
        meta = server.hgetall(f"tarry:{{{world.client.namespace}/shop}}:meta")
    return {field: int(n) for field, n in meta.items() if field.startswith(b"late:") or field == b"noted"}


def test_a_job_that_is_known_at_last_counts_once(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge"}, id="7")
    for _ in range(5):
        world.run(other(world))
        world.clock.advance("1m")
    charge(world)
    stats = topic.stats()
    assert (world.seen, stats.popped, stats.finished, stats.released) == (["charged"], 1, 1, 0)
    assert stats.lateness.max < timedelta(milliseconds=1), "it waited for its task"


def put_back(world: World, job: Any) -> ScriptCall[bool]:
    fault = pack_fault("", "nobody here knows task 'charge' since yesterday; no worker that knows it was seen")
    late_us = job.popped_us - job.due_us
    return settle.fail(
        world.client.topic("shop").verbs.keys,
        settle.Failure(job, b"0", fault, counted=False, unseen_us=late_us),
    )


def test_a_put_back_whose_answer_was_lost_takes_one_hand_out_out(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add_many([{"task": "charge"}] * 2)
    call = put_back(world, topic.pop())
    topic.pop()
    for again in (call, call.as_replay(), call.as_replay()):
        assert world.client.engine.run(again) is False
        assert sum(out_of(world).values()) == 1
    assert topic.stats().popped == 2
    only_again = put_back(world, topic.pop()).as_replay()
    assert sum(out_of(world).values()) == 2
    world.client.engine.run(only_again)
    assert sum(out_of(world).values()) == 1


def test_what_waited_for_a_pause_or_a_limit_is_taken_out_where_it_was_counted(world: World) -> None:
    topic = world.client.topic("shop")
    topic.add({"task": "charge"})
    topic.pause("1m")
    world.clock.advance("90s")
    job = topic.pop()
    world.client.engine.run(put_back(world, job))
    assert sorted(out_of(world).values()) == [0], "30 s late"
    topic.configure(concurrency=1)
    first = topic.pop()
    topic.add({"task": "charge"})
    world.clock.advance("10s")
    assert topic.pop() is None
    world.client.engine.run(put_back(world, first))
    world.clock.advance("10s")
    world.client.engine.run(put_back(world, topic.pop()))
    assert set(out_of(world).values()) == {0}, "never below"


def test_an_unknown_task_uses_up_nothing_of_the_rate(world: World) -> None:
    """``remind`` runs within the second in which a foreign job was handed out and put back."""
    topic = world.client.topic("shop")
    topic.configure(rate="1/s", burst=1)
    world.clock.advance(1)
    topic.add({"task": "charge", "args": {}}, id="foreign")
    topic.add({"task": "remind", "args": {"user": 7}}, id="own", delay=0.01)
    world.run(other(world))
    assert topic.stats().limited is None
    assert topic.get("foreign").state == "delayed"  # type: ignore[union-attr]
    world.clock.advance(0.01)
    world.run(other(world))
    assert world.seen == [7]
    topic.add({"task": "remind", "args": {"user": 8}}, id="next")
    world.run(other(world))
    assert world.seen == [7], "what has run counts"
    assert topic.stats().limited is not None
    world.clock.advance(1)
    world.run(other(world))
    assert world.seen == [7, 8]


def test_a_policy_that_buries_unreadable_bodies_buries_unknown_tasks_too(world: World) -> None:
    worker = other(world)

    @worker.task(retry={tarry.BodyError: None})
    async def careful() -> None: ...

    world.client.topic("shop").add({"task": "charge"}, id="7")
    world.run(worker)
    job = world.only_job("shop")
    assert (job.state, job.reason) == ("dead", "BodyError: unknown task 'charge'; shop has remind, careful")


def test_the_dashboard_shows_unknown_tasks(world: World) -> None:
    line = f"nobody here knows task 'charge'; {ADA}"
    topics = [WorkerTopic("shop", ("remind",), 5, 0, 0, (line,), ("charge",))]
    made = WorkerReport("bob", 7, "1", 5, 0, False, topics, [])
    world.client.engine.run(report_worker(world.client.namespace, b"bob", None, made))
    world.client.topic("shop").add({"task": "charge"})

    async def page() -> str:
        async with world.worker().async_client as client:
            visit = PageRequest(Dashboard(client), "", {"topic": "shop"}, "viewer")
            return visit.dashboard.view(visit, "topic.html", await topic_part.view(visit))

    shown = asyncio.run(page())
    assert (
        '<p class="warning">Nobody here knows task &#39;charge&#39;; last seen in ada (process 4711). '
        "Its jobs are put back, and their attempts do not count.</p>" in shown
    )
    assert shown.index('class="warning"') < shown.index('class="tiles"'), "at the top"


def test_the_list_of_an_unknown_tasks_job_names_the_fault_once(world: World) -> None:
    world.client.topic("shop").add({"task": "charge"}, id="7")
    world.run(other(world))
    job = world.only_job("shop")
    since = world.clock.now.isoformat()
    assert (job.reason, job.error) == (None, None), "it has not failed"
    assert (
        error_line(job)
        == job.note
        == f"nobody here knows task 'charge' since {since}; no worker that knows it was seen"
    )


def test_two_applications_share_a_topic_and_run_their_own_tasks(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    seen: list[str] = []

    def application(name: str) -> tuple[tarry.Worker, Any]:
        worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

        @worker.task(name=name)
        async def task(n: int) -> None:
            seen.append(name)
            if len(seen) == 40:
                over.set()

        return worker, task

    async def work() -> None:
        async with one, two:
            await asyncio.wait_for(over.wait(), LONGEST_S)

    over = asyncio.Event()
    (one, charge), (two, remind) = application("charge"), application("remind")
    for n in range(20):
        charge.options(max_attempts=1).add(n)
        remind.options(max_attempts=1).add(n)
    asyncio.run(work())
    stats = client.topic("shop").stats()
    assert (seen.count("charge"), seen.count("remind"), stats.dead) == (20, 20, 0)
    one.client.close()
    two.client.close()


def test_a_worker_reports_the_names_of_tasks_that_it_does_not_know(
    valkey_url: str, namespace: str, client: tarry.Client
) -> None:
    client.topic("shop").add({"task": "charge"})
    worker = tarry.Worker("shop", url=valkey_url, namespace=namespace)

    @worker.task
    async def remind(user: int) -> None: ...

    async def work() -> None:
        async with worker:
            await asyncio.to_thread(
                until, lambda: [one.topics[0].unknown_tasks for one in client.workers()] == [("charge",)]
            )

    asyncio.run(work())
    worker.client.close()


def test_of_very_many_unknown_tasks_few_are_logged(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer chooses their names, and a process remembers those that it has logged."""
    monkeypatch.setattr(unknown_tasks, "MOST_LOGGED", 3)
    for number in range(9):
        world.client.topic("shop").add({"task": f"charge-{number}"})
    world.run(other(world))
    assert len([line for line in caplog.messages if "nobody here knows task" in line]) == 3
