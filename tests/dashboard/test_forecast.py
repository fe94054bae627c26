"""Games in imaginary time on a real server: the forecast of the next five minutes against what is handed out in them.

A game draws a topic: its partitions, jobs of three tasks with priorities and how late they may be, limits, a pause, schedules, workers
that know some of the tasks, and for each task how long its handler takes at most, which the workers report in most games. The forecast is
read, five minutes are played, and the hand-outs are counted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tarry import NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.programs.dashboard.forecasts import SPAN, forecast_of
from tarry.programs.serving.forecast import MOST_READ, REASONS, Forecast
from tarry.verbs.workers import MOST_REPORTED_JOBS, ReportedJob, WorkerReport, WorkerTopic, report_worker

TASKS = ("mail", "print", "bill")
GAMES, PORTION = 300, 40
SECOND_US = 1_000_000


@dataclass
class GameWorker:
    """A simulated worker: its slots, the tasks that it knows, and until when each running handler runs."""

    name: str
    slots: int
    knows: tuple[str, ...]
    quiet: bool = False
    reported: int = 0
    """More than ``slots`` if it shares them with other topics, which have taken the rest: one is certain then."""
    running: list[tuple[int, Any]] = field(default_factory=list)

    @property
    def free(self) -> int:
        return 0 if self.quiet else self.slots - len(self.running)

    @property
    def certain(self) -> int:
        return 1 if self.reported > self.slots else self.slots


class Game:
    def __init__(self, client: TestClient, seed: int) -> None:
        self.client, self.clock, self.draw = client, client.clock, random.Random(seed)
        self.topic: Any = client.topic(f"game-{seed}")
        self.handed: set[str] = set()
        self.put_back: dict[str, int] = {}
        self.paused_beyond = self.has_limits = False
        self.longest_s = {task: self.draw.choice([0.0, 0.2, 7.0, 40.0, 1000.0]) for task in TASKS}
        self.is_known = self.draw.random() < 0.7
        self.too_late_s = self.draw.choice([0.0] * 3 + [20.0, 120.0])
        """How late some jobs may be."""
        self.workers: list[GameWorker] = []
        self.draw_more = random.Random(f"shared-{seed}")
        self.begin()

    def begin(self) -> None:
        draw = self.draw
        kinds = TASKS[: draw.choice([1, 1, 2, 3])]
        if draw.random() < 0.25:
            self.topic = self.client.topic(self.topic.name, partitions=3)
        if self.too_late_s and draw.random() < 0.3:
            self.topic.configure(max_lateness=2 * self.too_late_s)
        self.topic.add_many(
            [
                NewJob(
                    {"task": draw.choice(kinds)},
                    id=f"job-{n}",
                    delay=draw.choice([0, draw.uniform(0, 200), draw.uniform(0, 600)]),
                    priority=draw.choice([0, 0, 0, 1, 3]),
                    max_lateness=self.too_late_s if self.too_late_s and draw.random() < 0.5 else None,
                )
                for n in range(draw.choice([0, 1, 3, 8, 25, 60]))
            ]
            or [NewJob({"task": "mail"}, id="job-0", delay="1h")]
        )
        for n in range(draw.choice([0, 0, 0, 1, 2])):
            body, every = {"task": draw.choice(kinds)}, draw.choice([20, 61, 250, 900])
            self.client.schedules.put(self.topic, f"plan-{n}", body, every=every)
        self.clock.advance(draw.choice([0, 1, 90]))
        wide = draw.random() < 0.7
        known = {"all": TASKS, "the same": tuple(draw.sample(TASKS, draw.randint(1, 2))), "their own": ()}
        known_by_all = known[draw.choice(["all", "all", "the same", "the same", "their own"])]
        for n in range(draw.choice([0, 1, 1, 2, 3, 5])):
            knows = known_by_all or tuple(draw.sample(TASKS, draw.randint(1, 3)))
            slots = draw.choice([30, 80] if wide else [1, 2, 5])
            taken = self.draw_more.randint(1, slots) if self.draw_more.random() < 0.2 else 0
            quiet = draw.random() < 0.1
            self.workers.append(GameWorker(f"worker-{n}", slots - taken or 1, knows, quiet, slots + (taken == slots)))
        if draw.random() < 0.35:
            limits: dict[str, Any] = draw.choice(
                [
                    {"rate": "7/1m", "burst": 3},
                    {"rate": "1/10m"},
                    {"rate": "2/s"},
                    {"concurrency": 3},
                    {"concurrency": 40},
                ]
            )
            self.topic.configure(**limits)
            self.has_limits = True
        if draw.random() < 0.4:
            self.play(draw.choice([5, 45]))
        if draw.random() < 0.25:
            pause = draw.choice([30, 200, 900])
            self.topic.pause(pause)
            self.paused_beyond = pause > SPAN.total_seconds()

    def length_us(self, task: str) -> int:
        return round(self.draw.choice([0.3, 1.0, 1.0]) * self.longest_s[task] * SECOND_US)

    def play(self, seconds: float) -> None:
        """Lets time pass, while the workers take what they can."""
        end = self.clock.us + round(seconds * SECOND_US)
        while True:
            self.finish_handlers()
            takers = [worker for worker in self.workers if worker.free]
            next_us = min([end, *(at for worker in self.workers for at, _ in worker.running)])
            if not takers:
                if next_us >= end:
                    break
                self.clock.advance_to(next_us)
                continue
            worker = self.draw.choice(takers)
            left = timedelta(microseconds=max(next_us - self.clock.us, 0))
            jobs = self.topic.pop_many(worker.free, wait=left, ttr="1d")
            for job in jobs:
                self.take(worker, job)
            if not jobs and self.clock.us >= end:
                self.finish_handlers()
                if not any(at <= end for worker in self.workers for at, _ in worker.running):
                    break
        self.clock.advance_to(end)

    def take(self, worker: GameWorker, job: Any) -> None:
        if job.body["task"] in worker.knows:
            self.handed.add(job.id)
            worker.running.append((self.clock.us + self.length_us(job.body["task"]), job))
        else:
            n = self.put_back[job.id] = self.put_back.get(job.id, 0) + 1
            self.topic.release(job, delay=min(0.1 * 1.5**n, 60), counted=False)

    def finish_handlers(self) -> None:
        for worker in self.workers:
            over = [job for at, job in worker.running if at <= self.clock.us]
            worker.running = [(at, job) for at, job in worker.running if at > self.clock.us]
            for job in over:
                self.topic.finish(job)

    def forecast(self) -> Forecast:
        for worker in self.workers:
            longest = {task: round(1000 * self.longest_s[task]) for task in worker.knows} if self.is_known else {}
            slots, busy = worker.reported, len(worker.running)
            topics = [
                WorkerTopic(self.topic.name, worker.knows, slots, busy, longest_ms=longest, own_slots=worker.certain)
            ]
            if slots > worker.slots:
                topics.append(WorkerTopic("other", ("task",), slots, slots - worker.slots))
                busy += slots - worker.slots
            held = sorted(((job._popped_us, job) for _, job in worker.running), key=lambda one: one[0])[
                :MOST_REPORTED_JOBS
            ]
            jobs = [ReportedJob(self.topic.name, job.id, job.attempt, taken) for taken, job in held]
            mode = "quiet" if worker.quiet else "work"
            report = WorkerReport("host", 1, "1", slots, busy, False, topics, jobs, mode)
            name = f"{self.topic.name}-{worker.name}".encode()
            self.client.engine.run(report_worker(self.client.namespace, name, None, report))
        due = self.client.engine.run(self.topic.verbs.due_soon(SPAN, 500))
        return forecast_of(
            self.topic.stats(), due, list(self.client.schedules.list(self.topic)), list(self.client.workers())
        )

    def waiting_tasks(self) -> set[str]:
        found = {job.body["task"] for job in self.topic.list(limit=1000) if job.state in ("delayed", "ready")}
        return found | {schedule.body["task"] for schedule in self.client.schedules.list(self.topic)}

    def matters(self, found: Forecast) -> bool:
        """Whether the length of a handler may matter, or a task that some worker does not know, or a limit's shared places."""
        takers = [worker for worker in self.workers if not worker.quiet]
        free = sum(worker.certain for worker in takers) - sum(len(worker.running) for worker in self.workers)
        same = len({worker.knows for worker in takers}) == 1
        strange = same and bool(self.waiting_tasks() - set(takers[0].knows))
        schedules = bool(list(self.client.schedules.list(self.topic)))
        stats, settings = self.topic.stats(), self.topic.configure()
        if not same or found.waiting > free:
            return True
        if settings.rate is not None and self.too_late_s:  # what waits for the rate may become too late
            return True
        if strange and (
            self.has_limits or len(takers[0].knows) == 1
        ):  # they spend of it; one handler may take any body
            return True
        if settings.concurrency is not None and found.waiting > settings.concurrency - stats.reserved:
            return True
        return schedules and (stats.paused_until is not None or self.has_limits)


def check(client: TestClient, seed: int) -> tuple[Forecast, bool]:
    """The forecast, and whether it counts slots that are not free yet."""
    game = Game(client, seed)
    game.finish_handlers()
    found, matters = game.forecast(), game.matters(game.forecast())
    takers = [worker for worker in game.workers if not worker.quiet]
    idle = sum(worker.certain for worker in takers) - sum(len(worker.running) for worker in game.workers)
    waiting_tasks = game.waiting_tasks()
    game.handed.clear()
    game.play(SPAN.total_seconds())
    got = len(game.handed)
    assert found.certain <= got <= found.at_most, (seed, found, got)
    if not matters:
        assert found.certain == got == found.at_most, (seed, found, got)
    assert (found.reason is not None) == (found.certain == 0 and found.waiting > 0), (seed, found)
    truths = {
        "paused": game.paused_beyond,
        "no_consumer": not takers,
        "unknown_tasks": any(not waiting_tasks <= set(worker.knows) for worker in takers),
        "limited": game.has_limits,
        "unknown_pace": not takers or idle <= 0,
    }
    assert set(truths) == set(REASONS)
    assert found.reason is None or truths[found.reason], (seed, found, truths)
    return found, found.certain > max(idle, 0)


def play(url: str, namespace: str, seeds: range) -> list[tuple[Forecast, bool]]:
    with TestClient(url, Clock(), namespace=namespace) as client:
        found = []
        for seed in seeds:
            found.append(check(client, seed))
            client.clock.advance("1h")  # the reports of this game's workers are over
        return found


def test_a_forecast_holds_in_a_portion_of_the_games(valkey_url: str, namespace: str) -> None:
    play(valkey_url, namespace, range(PORTION))


@pytest.mark.long
def test_a_forecast_holds_in_all_games(valkey_url: str, namespace: str) -> None:
    played = play(valkey_url, namespace, range(GAMES))
    found = [one for one, _ in played]
    assert {one.reason for one in found} == {None, *REASONS}, "each reason was given"
    assert sum(one.certain == one.at_most > 0 for one in found) > GAMES // 10, "many are exact"
    assert sum(more for _, more in played) > GAMES // 50, (
        "by the reported lengths, some promise more than the slots that are free"
    )


def busy_topic(client: TestClient, longest_ms: dict[str, int], *, jobs: int = 1000, **settings: Any) -> Forecast:
    """The forecast of a topic with many jobs for one worker with four slots."""
    topic: Any = client.topic(f"busy-{client.clock.us}")
    topic.add_many([{"task": "mail"}] * jobs)
    if settings:
        topic.configure(**settings)
    report = WorkerReport(
        "h",
        1,
        "1",
        4,
        0,
        False,
        [WorkerTopic(topic.name, ("mail", "bill"), 4, 0, longest_ms=longest_ms, own_slots=4)],
        [],
    )
    client.engine.run(report_worker(client.namespace, topic.name.encode(), None, report))
    due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
    found = forecast_of(topic.stats(), due, [], list(client.workers()))
    client.clock.advance("1h")
    return found


def test_the_reported_lengths_of_handlers_make_the_lower_bound_useful(valkey_url: str, namespace: str) -> None:
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        found = busy_topic(client, {"mail": 6900})
        assert (found.certain, found.at_most) == (4 * 43, 1000), "a slot is free again after seven seconds"
        assert found.sentence == (
            "In the next 5 m, 172 of 1,000 jobs are certain to be handed out, and at most 1,000: 172 if none takes longer than 6.9 s, the longest of the last hour."
        )
        assert busy_topic(client, {"bill": 10}).certain == 4, "the length of a task that waits is not known"
        assert busy_topic(client, {"mail": 10, "bill": 6900}).certain == 172, "a longer one may come"
        assert busy_topic(client, {"mail": 3}).certain == 500, "no more than the jobs that were looked at"
        assert busy_topic(client, {"mail": 6900}, jobs=100, rate="1/10s", burst=1).certain == 30, (
            "the rate allows no more"
        )
        assert busy_topic(client, {"mail": 6900}, concurrency=2).certain == 2 * 43
        assert busy_topic(client, {"mail": 6900}, max_lateness="10s").certain == 4, "the others may become too late"


def test_what_is_too_late_already_is_not_promised(valkey_url: str, namespace: str) -> None:
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic = client.topic("orders")
        topic.add_many([NewJob({"task": "mail"}, max_lateness=5) for _ in range(3)])
        client.clock.advance(6)
        due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
        found = forecast_of(topic.stats(), due, [], [])
        assert (found.waiting, found.certain, found.at_most, found.reason) == (0, 0, 0, None)
        assert (
            found.sentence
            == "In the next 5 m, nothing is due. 3 jobs are already too late to run, and will be marked dead."
        )
        assert topic.pop() is None


@pytest.mark.parametrize(("took_s", "certain"), [(5, 172), (60, 0)])
def test_busy_slots_come_back_however_old_the_report_is(
    valkey_url: str, namespace: str, took_s: int, certain: int
) -> None:
    """A job that had run for less than the longest at the report has ended, or ends in time; one that had run for longer may not."""
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic: Any = client.topic("busy")
        topic.add_many([{"task": "mail"}] * 400)
        jobs = topic.pop_many(4, ttr="1h")
        client.clock.advance(took_s)
        held = [ReportedJob("busy", job.id, 1, job._popped_us) for job in jobs]
        topics = [WorkerTopic("busy", ("mail",), 4, 4, longest_ms={"mail": 6900}, own_slots=4)]
        report = WorkerReport("h", 1, "1", 4, 4, False, topics, held)
        client.engine.run(report_worker(client.namespace, b"w", None, report))
        client.clock.advance(10)
        due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
        found = forecast_of(topic.stats(), due, [], list(client.workers()))
        assert found.certain == certain - 4 * bool(certain), "the slots are free seven seconds from now"
        assert found.reason == (None if certain else "unknown_pace")


@pytest.mark.parametrize(
    ("own", "busy", "certain", "says"),
    [
        (8, 15, 8 * 43, ": 344 if none takes longer than 6.9 s, the longest of the last hour."),
        (1, 15, 1, "the longest of the last hour, and more if other topics leave slots free."),
        (1, 16, 0, "none of 8 slots is certain to be free, because other topics of the workers may take them"),
        (0, 0, 0, "none of 8 slots is certain to be free, because other topics of the workers may take them"),
    ],
)
def test_a_worker_with_several_topics_promises_what_these_cannot_take(
    valkey_url: str, namespace: str, own: int, busy: int, certain: int, says: str
) -> None:
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic: Any = client.topic("orders")
        topic.add_many([{"task": "mail"}] * 500)
        topics = [
            WorkerTopic("orders", ("mail",), 8, 0, longest_ms={"mail": 6900}, own_slots=own),
            WorkerTopic("others", ("print",), 16, busy),
        ]
        client.engine.run(
            report_worker(client.namespace, b"w", None, WorkerReport("h", 1, "1", 16, busy, False, topics, []))
        )
        due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
        found = forecast_of(topic.stats(), due, [], list(client.workers()))
        assert (found.certain, found.at_most) == (certain, 500)
        assert found.reason == (None if certain else "unknown_pace")
        assert says in found.sentence
