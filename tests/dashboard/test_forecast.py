"""Games in imaginary time on a real server: the forecast of the next five minutes against what is handed out in them.

A game draws a topic: its partitions, jobs of three tasks with priorities and how late they may be, limits, a pause, schedules, workers
that know some of the tasks, and for each task how long its handler takes at most, which the workers report in most games. The forecast is
read, five minutes are played, and the hand-outs are counted.
"""

from __future__ import annotations

import cProfile
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from tarry import NewJob
from tarry.clients.testing import Clock, TestClient
from tarry.programs.dashboard.forecasts import SPAN, forecast_of
from tarry.programs.serving.forecast import MOST_READ, REASONS, Forecast
from tarry.types import Rate
from tarry.values.keys import partition_of_name
from tarry.verbs.workers import MOST_REPORTED_JOBS, ReportedJob, WorkerReport, WorkerTopic, report_worker
from tarry.worker.unknown_tasks import FIRST_PAUSE_US, LONGEST_PAUSE_US

TASKS = ("mail", "print", "bill")
GAMES, PORTION = 300, 40
SECOND_US = 1_000_000
ENDLESS_US = 10**13


@dataclass
class GameWorker:
    """A simulated worker: its slots, the tasks that it knows, and until when each running handler runs."""

    name: str
    slots: int
    knows: tuple[str, ...]
    quiet: bool = False
    reported: int = 0
    """More than ``slots`` if it shares them with other topics, which have taken the rest: one is certain then."""
    takes_any_body: bool = False
    running: list[tuple[int, Any]] = field(default_factory=list)

    @property
    def free(self) -> int:
        return 0 if self.quiet else max(self.slots - len(self.running), 0)

    @property
    def certain(self) -> int:
        return 1 if self.reported > self.slots else self.slots

    @property
    def runs(self) -> frozenset[str]:
        return frozenset(TASKS if self.takes_any_body else self.knows)


class Game:
    def __init__(self, client: TestClient, seed: int, again: str = "") -> None:
        self.client, self.clock, self.draw = client, client.clock, random.Random(seed)
        self.topic: Any = client.topic(f"game-{seed}{again}")
        self.handed: set[str] = set()
        self.unknown_since: dict[str, int] = {}
        self.paused_beyond = self.has_limits = False
        self.longest_s = {task: self.draw.choice([0.0, 0.2, 7.0, 40.0, 1000.0]) for task in TASKS}
        self.is_known = self.draw.random() < 0.7
        self.too_late_s = self.draw.choice([0.0] * 3 + [20.0, 120.0])
        """How late some jobs may be."""
        self.fixed_us: dict[str, int] | None = None
        """How long handlers take in a replay."""
        self.workers: list[GameWorker] = []
        self.draw_more = random.Random(f"shared-{seed}")
        self.most_read = self.draw_more.choice([MOST_READ] * 9 + [5])
        self.is_ample = self.draw_more.random() < 0.35
        """Whether slots suffice for all jobs, so that limits, pauses and schedules alone decide; it has more of these."""
        if self.is_ample:
            self.too_late_s = self.too_late_s or self.draw_more.choice([0.0, 20.0, 120.0])
        self.begin()

    def begin(self) -> None:
        draw, more = self.draw, self.draw_more
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
        for n in range(draw.choice([0, 0, 0, 1, 2]) or self.is_ample):
            body, every = {"task": draw.choice(kinds)}, draw.choice([20, 61, 250, 900])
            every = more.choice([7, 20, 61]) if self.is_ample else every
            rarely: dict[str, Any] = {"missed": more.choice(["once", "once", "skip", "all"])}
            if self.too_late_s and more.random() < 0.3:
                rarely["max_lateness"] = self.too_late_s
            self.client.schedules.put(
                self.topic, f"plan-{n}", body, every=every, priority=more.choice([0, 0, 0, 1, 3]), **rarely
            )
        self.clock.advance(draw.choice([0, 1, 90]))
        wide = draw.random() < 0.7
        known = {"all": TASKS, "the same": tuple(draw.sample(TASKS, draw.randint(1, 2))), "their own": ()}
        known_by_all = known[draw.choice(["all", "all", "the same", "the same", "their own"])]
        for n in range(draw.choice([0, 1, 1, 2, 3, 5]) or self.is_ample):
            knows = known_by_all or tuple(draw.sample(TASKS, draw.randint(1, 3)))
            slots = draw.choice([30, 80] if wide else [1, 2, 5])
            if self.is_ample:
                slots, knows = 500, known_by_all or TASKS
            taken = more.randint(1, slots) if more.random() < 0.2 else 0
            quiet, takes_any_body = draw.random() < 0.1, more.random() < 0.1
            self.workers.append(
                GameWorker(
                    f"worker-{n}",
                    slots - taken or 1,
                    knows,
                    quiet,
                    slots + (taken == slots),
                    takes_any_body=takes_any_body,
                )
            )
        if draw.random() < 0.35 or (self.is_ample and more.random() < 0.5):
            limits: dict[str, Any] = draw.choice(
                [
                    {"rate": "7/1m", "burst": 3},
                    {"rate": "1/10m"},
                    {"rate": "2/s"},
                    {"concurrency": 3},
                    {"concurrency": 40},
                ]
            )
            if more.random() < 0.1:
                limits = {"rate": "50/s"}
            self.topic.configure(**limits)
            self.has_limits = True
        if draw.random() < 0.4:
            self.play(draw.choice([5, 45]))
        if draw.random() < 0.25 or (self.is_ample and more.random() < 0.4):
            pause = draw.choice([30, 200, 900])
            self.topic.pause(pause)
            self.paused_beyond = pause > SPAN.total_seconds()

    def length_us(self, task: str) -> int:
        if self.fixed_us is not None:
            return self.fixed_us[task]
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
        """Runs a job, or puts it back as a worker does that does not know its task (worker/unknown_tasks.py)."""
        if job.body["task"] in worker.runs:
            self.handed.add(job.id)
            worker.running.append((self.clock.us + self.length_us(job.body["task"]), job))
        else:
            age_us = self.clock.us - self.unknown_since.setdefault(job.id, self.clock.us)
            pause_us = min(max(age_us, FIRST_PAUSE_US), LONGEST_PAUSE_US)
            back = self.topic.verbs.fail(job, b"%d" % pause_us, "unknown", False, unseen_us=job.popped_us - job.due_us)
            self.client.engine.run(back)

    def finish_handlers(self) -> None:
        for worker in self.workers:
            over = [job for at, job in worker.running if at <= self.clock.us]
            worker.running = [(at, job) for at, job in worker.running if at > self.clock.us]
            for job in over:
                self.topic.finish(job)

    def forecast(self) -> Forecast:
        for worker in self.workers:
            handlers = ("handle",) if worker.takes_any_body else worker.knows
            longest_s = {**self.longest_s, "handle": max(self.longest_s.values())}
            longest = {name: round(1000 * longest_s[name]) for name in handlers} if self.is_known else {}
            slots, busy = worker.reported, len(worker.running)
            topics = [
                WorkerTopic(
                    self.topic.name,
                    handlers,
                    slots,
                    busy,
                    longest_ms=longest,
                    own_slots=worker.certain,
                    takes_any_body=worker.takes_any_body,
                )
            ]
            if slots > worker.slots:
                topics.append(WorkerTopic("other", ("task",), slots, slots - worker.slots))
                busy += slots - worker.slots
            held = sorted(((job.popped_us, job) for _, job in worker.running), key=lambda one: one[0])[
                :MOST_REPORTED_JOBS
            ]
            jobs = [ReportedJob(self.topic.name, job.id, job.attempt, taken) for taken, job in held]
            mode = "quiet" if worker.quiet else "work"
            report = WorkerReport("host", 1, "1", slots, busy, False, topics, jobs, mode)
            name = f"{self.topic.name}-{worker.name}".encode()
            self.client.engine.run(report_worker(self.client.namespace, name, None, report))
        due = self.client.engine.run(self.topic.verbs.due_soon(SPAN, self.most_read))
        self.unread = sum(part.within - len(part.jobs) for part in due)
        return forecast_of(
            self.topic.stats(), due, list(self.client.schedules.list(self.topic)), list(self.client.workers())
        )

    def waiting_tasks(self) -> set[str]:
        found = {job.body["task"] for job in self.topic.list(limit=1000) if job.state in ("delayed", "ready")}
        return found | {schedule.body["task"] for schedule in self.client.schedules.list(self.topic)}

    def handed_within(self) -> int:
        """How many jobs are handed out within the span of the forecast."""
        self.handed.clear()
        self.play(SPAN.total_seconds())
        return len(self.handed)

    def fix_lengths(self, fixed_us: Mapping[str, int]) -> None:
        """From now on handlers take so long, those that run too; and if that is long, other topics take what they may of the slots."""
        self.fixed_us = dict(fixed_us)
        for worker in self.workers:
            worker.running = [(job.popped_us + fixed_us[job.body["task"]], job) for _, job in worker.running]
            if any(fixed_us.values()):
                worker.slots = worker.certain


def replay(client: TestClient, seed: int, name: str, length_us: Callable[[Game, str], int]) -> int:
    """How many jobs are handed out in the same game if handlers take so long."""
    client.clock.advance("1h")  # the reports of the game before are over
    game = Game(client, seed, name)
    game.finish_handlers()
    game.forecast()
    game.fix_lengths({task: length_us(game, task) for task in TASKS})
    return game.handed_within()


def check(client: TestClient, seed: int) -> tuple[Forecast, bool]:
    """The forecast, and whether it counts slots that are not free yet."""
    game = Game(client, seed)
    game.finish_handlers()
    found = game.forecast()
    takers = [worker for worker in game.workers if not worker.quiet]
    idle = sum(worker.certain for worker in takers) - sum(len(worker.running) for worker in game.workers)
    waiting_tasks = game.waiting_tasks()
    unknown = any(not waiting_tasks <= worker.runs for worker in takers)
    got = game.handed_within()
    assert found.certain <= got <= found.at_most, (seed, found, got)
    assert (found.reason is not None) == (found.certain == 0 and found.waiting > 0), (seed, found)
    truths = {
        "paused": game.paused_beyond,
        "no_consumer": not takers,
        "unknown_tasks": unknown or game.unread,
        "limited": game.has_limits,
        "unknown_pace": not takers or idle <= 0,
    }
    assert set(truths) == set(REASONS)
    assert found.reason is None or truths[found.reason], (seed, found, truths)
    same = len({worker.runs & waiting_tasks for worker in takers}) == 1
    fast = game.has_limits and game.topic.configure().rate == Rate(50, timedelta(seconds=1))
    if found.certain < found.at_most and same and not game.unread and not (fast and unknown):
        least = replay(client, seed, "-endless", lambda *_: ENDLESS_US)
        most = replay(client, seed, "-at-once", lambda *_: 0)
        assert least < most, (seed, found, got, "no handler's length matters, and the bounds differ")
        assert most <= found.at_most, (seed, found, most)
        if game.is_known:
            least = replay(client, seed, "-longest", lambda game, task: round(game.longest_s[task] * SECOND_US))
        assert found.certain <= least, (seed, found, least)
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
    assert sum(one.certain == one.at_most > 0 for one in found) > GAMES // 5, "many are exact"
    assert sum(more for _, more in played) > GAMES // 100, (
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
        held = [ReportedJob("busy", job.id, 1, job.popped_us) for job in jobs]
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


def idle_worker(client: TestClient, topic: str, handlers: tuple[str, ...] = ("mail",), **more: Any) -> None:
    """A live worker with a hundred free slots; how long its handlers take is not known."""
    topics = [WorkerTopic(topic, handlers, 100, 0, own_slots=100, **more)]
    report = WorkerReport("h", 1, "1", 100, 0, False, topics, [])
    client.engine.run(report_worker(client.namespace, topic.encode(), None, report))


def forecast_and_hand_outs(client: TestClient, topic: Any) -> tuple[Forecast, int]:
    """The forecast of a topic, and how many jobs are handed out if handlers never end."""
    due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
    found = forecast_of(topic.stats(), due, list(client.schedules.list(topic)), list(client.workers()))
    ends, got = client.clock.us + round(SPAN.total_seconds() * SECOND_US), 0
    while client.clock.us < ends:
        got += len(topic.pop_many(100, wait=timedelta(microseconds=ends - client.clock.us), ttr="1d"))
    return found, got


def test_a_forecast_counts_with_the_burst_after_a_quiet_time(valkey_url: str, namespace: str) -> None:
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic = client.topic("orders")
        topic.configure(rate="1/10s", burst=4)
        topic.add_many([{"task": "mail"}] * 90)
        topic.pop_many(5)
        client.clock.advance("1h")
        idle_worker(client, "orders")
        found, got = forecast_and_hand_outs(client, topic)
        assert found.certain == got == found.at_most == 4 + 30
        assert found.sentence == "In the next 5 m, 34 of 90 jobs are handed out."


def test_a_forecast_counts_a_schedule_in_its_own_partition(valkey_url: str, namespace: str) -> None:
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic: Any = client.topic("orders", partitions=3)
        topic.configure(rate="1/1h", burst=3)
        names = {partition_of_name(b"plan-%d" % n, 3): f"plan-{n}" for n in range(9)}
        ids = [id for id in map(str, range(40)) if partition_of_name(id.encode(), 3) == 0][:5]
        client.clock.advance("1d")
        topic.add_many([NewJob({"task": "mail"}, id=id) for id in ids])
        for place in (1, 2):
            client.schedules.put(topic, names[place], {"task": "mail"}, every="4m")
        idle_worker(client, "orders")
        found, got = forecast_and_hand_outs(client, topic)
        assert found.certain == got == found.at_most == 3, "each partition has a place of the burst"


@pytest.mark.parametrize(("missed", "count"), [("skip", 2), ("once", 2), ("all", 5)])
def test_a_forecast_says_what_becomes_of_occurrences_in_a_pause(
    valkey_url: str, namespace: str, missed: Any, count: int
) -> None:
    """They come at 70, 140, 210 and 280 seconds, and one was missed; the pause ends after 215 seconds, or 205."""
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic = client.topic("orders")
        client.schedules.put(topic, "plan", {"task": "mail"}, every="70s", missed=missed)
        client.clock.advance("70s")
        topic.pause("215s" if missed != "skip" else "205s")
        idle_worker(client, "orders")
        found, got = forecast_and_hand_outs(client, topic)
        assert found.certain == got == found.at_most == count


def test_a_handler_for_any_body_knows_each_task(valkey_url: str, namespace: str) -> None:
    """The bodies of a topic with one handler may look like those of tasks."""
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        for topic, any_body, says in (
            ("orders", True, "In the next 5 m, 3 of 3 jobs are handed out."),
            ("tasks", False, "In the next 5 m, 3 jobs are due, and none is handed out: no live worker knows 'print'."),
        ):
            client.topic(topic).add_many([{"task": "print"}] * 3)
            idle_worker(client, topic, takes_any_body=any_body)
            due = client.engine.run(client.topic(topic).verbs.due_soon(SPAN, MOST_READ))
            assert forecast_of(client.topic(topic).stats(), due, [], list(client.workers())).sentence == says


def test_ten_thousand_jobs_and_thousands_of_occurrences_cost_a_bounded_number_of_steps(
    valkey_url: str, namespace: str
) -> None:
    """Function calls are counted: with twenty times the jobs, and schedules twenty times as often, hardly more."""

    def calls(jobs: int, every: str) -> tuple[int, Forecast]:
        topic: Any = client.topic(f"topic-{jobs}")
        for at in range(0, jobs, 1000):
            topic.add_many([{"task": "mail"}] * min(1000, jobs - at), priority=at // 1000 % 4)
        topic.configure(rate="10/1s", burst=1)
        for n in range(20):
            client.schedules.put(topic, f"plan-{n}", {"task": "mail"}, every=every, missed="all")
        client.clock.advance("1h")
        idle_worker(client, topic.name)
        due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
        facts = topic.stats(), due, list(client.schedules.list(topic)), list(client.workers())
        profile = cProfile.Profile()
        found = profile.runcall(forecast_of, *facts)
        return sum(one.callcount for one in profile.getstats()), found

    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        few, _ = calls(500, "10s")
        many, found = calls(10_000, "0.5s")
        assert found.at_most == 3001, "ten a second, and one at once"
        assert many < 1.5 * few, (few, many)


def test_a_forecast_knows_the_priority_of_a_schedules_jobs(valkey_url: str, namespace: str) -> None:
    """After the job that was due before it, the first occurrence would be too late."""
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic = client.topic("orders")
        client.schedules.put(topic, "plan", {"task": "mail"}, every="61s", priority=3, max_lateness="25s")
        topic.configure(rate="1/20s")
        client.clock.advance("60s")
        topic.add_many([{"task": "mail"}] * 2)
        assert topic.pop(ttr="1d")
        idle_worker(client, "orders")
        found, got = forecast_and_hand_outs(client, topic)
        assert found.certain == got == found.at_most == 6


@pytest.mark.parametrize(("rate", "certain"), [("5/s", 2), ("50/s", 0)])
def test_unknown_tasks_may_spend_of_a_fast_rate(valkey_url: str, namespace: str, rate: str, certain: int) -> None:
    """A worker puts such a job back within a tenth of a second: a slower rate gets its share back."""
    with TestClient(valkey_url, Clock(), namespace=namespace) as client:
        topic: Any = client.topic("orders")
        topic.configure(rate=rate, burst=1)
        client.clock.advance("1h")
        topic.add({"task": "print"}, priority=3)
        topic.add_many([{"task": "mail"}] * 2)
        idle_worker(client, "orders")
        due = client.engine.run(topic.verbs.due_soon(SPAN, MOST_READ))
        assert forecast_of(topic.stats(), due, [], list(client.workers())).certain == certain
