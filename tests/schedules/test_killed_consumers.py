"""Any number of processes with the same schedule, killed at random: exactly as many jobs as a model says."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.values.durations import SECOND
from tarry.verbs.jobs import pop
from tarry.verbs.schedules.fire import fire_due, occurrence_stamp
from tarry.verbs.schedules.recurrences import make_recurrence, next_occurrence
from warm import WarmProcess, WarmTarry

pytestmark = pytest.mark.slow

HOUR = 3600 * SECOND


class SimulatedProcesses:
    """Processes in imaginary time. Each pops, request by request, in any order with the others; any may die between two."""

    def __init__(self, client: TestClient, size: int, rng: random.Random) -> None:
        self.client = client
        self.topic = client.topic("t")
        self.rng = rng
        self.killed = 0
        self.flows: list[tuple[Any, Any]] = [(self._begin(), None) for _ in range(size)]

    def _begin(self) -> Any:
        ttr = pop.ttr_of(timedelta(days=900))
        return pop.pop_now(self.topic.verbs.keys, self.rng.choice([1, 10]), ttr=ttr, holder=b"crew")

    def step(self) -> None:
        """One of them sends one request; the killed one has sent it, or not, and reads no answer."""
        at = self.rng.randrange(len(self.flows))
        flow, answer = self.flows[at]
        try:
            request = next(flow) if answer is None else flow.send(answer)
            dies = self.rng.random() < 0.15
            if not dies or self.rng.random() < 0.5:
                self.flows[at] = flow, self.client.engine.run(request)
            if dies:
                self.killed += 1
                flow.close()
                self.flows[at] = self._begin(), None
        except StopIteration:
            self.flows[at] = self._begin(), None

    def jobs(self) -> list[str]:
        found, cursor = [], None
        while True:
            page = self.topic.list(limit=1000, cursor=cursor)
            found += [job.id for job in page]
            cursor = page.cursor
            if cursor is None:
                return found


@pytest.mark.parametrize(
    ("missed", "size", "days"),
    [
        ("all", 5, 2),
        ("once", 50, 2),
        *(pytest.param(missed, size, 14, marks=pytest.mark.long) for missed in ("all", "once") for size in (1, 5, 50)),
    ],
)
def test_processes_killed_at_random_add_exactly_the_expected_jobs(
    valkey_url: str, namespace: str, missed: Any, size: int, days: int
) -> None:
    """Five schedules, and two weeks in ``make test-long``; at least one process looks now and then, and time goes on in leaps of up to two hours."""
    clock, rng = Clock(), random.Random(size)
    with TestClient(valkey_url, clock, namespace=namespace) as client:
        rhythms = {
            "hourly": make_recurrence("1h", None, "UTC"),
            "odd": make_recurrence("7777s", None, "UTC"),
            "morning": make_recurrence(None, "0 9 * * 1-5", "Europe/Berlin"),
            "often": make_recurrence(None, "*/30 * * * *", "America/New_York"),
            "night": make_recurrence(None, "30 2 * * *", "Europe/Berlin"),
        }
        for id, made in rhythms.items():
            if made.every_us:
                client.schedules.put("t", id, every=made.every_us / SECOND, missed=missed)
            else:
                client.schedules.put("t", id, cron=made.cron, tz=made.tz, missed=missed)
        crew, began, attended = SimulatedProcesses(client, size, rng), clock.us, dict.fromkeys(rhythms, clock.us)
        expected: set[str] = set()

        def occurrences(id: str) -> list[int]:
            """Since those that were attended, until the end of this step."""
            found, at = list[int](), attended[id]
            while (at := next_occurrence(rhythms[id], at) or clock.us + HOUR) <= clock.us + 2 * SECOND:
                found.append(at)
            return found

        while clock.us < began + days * 24 * HOUR:
            clock.advance(rng.choice([0.5, 60, 1800, 3600, 7200]))
            while any(at > clock.us for id in rhythms for at in occurrences(id)):
                clock.advance(0.5)  # with missed="once" it would depend on the second who handles which
            due = {id: occurrences(id) for id in rhythms}
            for _ in range(
                2
            ):  # in the second half those that were slow are no longer alone with what they have reserved
                for _ in range(rng.choice([1, 2, 10]) * min(size, 8)):
                    crew.step()
                clock.advance(1)
            crew.flows = [(crew._begin(), None) for _ in crew.flows]  # a consumer in the middle of something dies, too
            client.engine.run(fire_due(crew.topic.verbs.keys))
            for id, moments in due.items():
                attended[id] = moments[-1] if moments else attended[id]
                expected |= {f"{id}@{occurrence_stamp(at)}" for at in (moments if missed == "all" else moments[-1:])}
        found = crew.jobs()
        assert sorted(found) == sorted(expected)
        assert crew.killed > 20
        assert sum(one.fired for one in client.schedules.list("t")) == len(expected)
        assert crew.topic.check().ok


@pytest.fixture
def crowd(valkey_url: str, namespace: str, tarry_command: WarmTarry) -> Iterator[Callable[[], WarmProcess]]:
    program = Path(__file__).with_name("consumer_process.py")
    with ExitStack() as stack:

        def hire() -> WarmProcess:
            process, _, told = stack.enter_context(tarry_command.talk_to(program, valkey_url, namespace))
            assert told.readline() == "ready\n"
            return process

        yield hire


@pytest.mark.parametrize("fires", [25, pytest.param(300, marks=pytest.mark.long)])
def test_real_processes_killed_at_random_add_each_job_once(
    valkey_url: str, namespace: str, crowd: Callable[[], WarmProcess], fires: int
) -> None:
    with tarry.Client(valkey_url, namespace=namespace) as client:
        first = client.schedules.put("t", "s", every="100ms", missed="all").next
        assert first is not None
        crew, rng = [crowd() for _ in range(5)], random.Random(8)
        while client.schedules.get("t", "s").fired < fires:
            time.sleep(rng.random() / 5)
            victim = crew.pop(rng.randrange(len(crew)))
            victim.kill()
            victim.wait()
            crew.append(crowd())
        client.schedules.pause("t", "s")
        fired = client.schedules.get("t", "s").fired
        page = client.topic("t").list(limit=1000)
        period = timedelta(milliseconds=100)
        moments = [first + k * period for k in range(fired)]
        epoch = first.fromtimestamp(0, first.tzinfo)
        assert {job.id for job in page} == {
            f"s@{occurrence_stamp((at - epoch) // timedelta(microseconds=1))}" for at in moments
        }
