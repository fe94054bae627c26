"""Which value of a setting counts: one function says it, and workers and scripts agree with it, for each pair of levels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.values.durations import as_datetime
from tarry.verbs.jobs import precedence
from tarry.verbs.jobs.precedence import LEVELS, MAX_ATTEMPTS, MAX_LATENESS, TTR, Decision, Level, Setting, decide

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
Given = Mapping[Level, Any]
VALUES: dict[str, tuple[Any, Any]] = {
    "ttr": (7 * SECOND, 9 * SECOND),
    "max_attempts": (2, 3),
    "max_lateness": (MINUTE, 3 * MINUTE),
    "keep_finished": (HOUR, 2 * HOUR),
    "priority": (1, 2),
    "retry": (7 * SECOND, 9 * SECOND),
}
"""Two for each setting, the smaller one first."""
MORE = 21
"""One attempt more than where nothing is given."""


@pytest.mark.parametrize("setting", precedence.SETTINGS, ids=lambda one: one.name)
def test_the_most_specific_value_that_is_given_counts(setting: Setting) -> None:
    levels = [level for level in LEVELS if level in setting.given_by]
    assert list(setting.given_by) == levels, "they stand in order, the most specific first"
    assert decide(setting, {}) == (setting.default, "default")
    for specific, general in combinations(levels, 2):
        if specific not in setting.smallest:
            assert decide(setting, {general: 1, specific: 2}) == (2, specific)
        assert decide(setting, {specific: 1, general: 2}) == (1, specific)


def test_of_equal_levels_the_smallest_value_counts() -> None:
    assert decide(MAX_LATENESS, {"topic": SECOND, "handler": 2 * SECOND}) == (SECOND, "topic")
    assert decide(MAX_LATENESS, {"topic": 3 * SECOND, "handler": 2 * SECOND}) == (2 * SECOND, "handler")
    assert decide(MAX_LATENESS, {"topic": SECOND}) == (SECOND, "topic")


def test_none_is_a_value_only_where_it_means_something() -> None:
    assert decide(MAX_ATTEMPTS, {"job": None, "topic": 3}) == Decision(None, "job")
    assert decide(TTR, {"job": None, "topic": SECOND}) == Decision(SECOND, "topic")


# ── cell by cell, on a server ─────────────────────────────────────────────────────────────────────────────────────────


class Cell:
    """A setting, given on some levels by the public interface, and the value that is in force then."""

    def __init__(self, client: TestClient, clock: Clock, name: str, given: Given, by: str) -> None:
        self.client, self.clock, self.name, self.given, self.by = client, clock, name, given, by
        self.topic = client.topic("n")
        self.seen: list[Any] = []
        """The jobs that a handler saw."""

    def add(self) -> None:
        if "topic" in self.given:
            self.topic.configure(**self._of("topic"))
        body = {"task": "handle", "args": {}}
        self.topic.add_many([tarry.NewJob(body, id="7", **self._of("job"))], **self._of("call"))

    def work(self, raises: Callable[[], Exception] | None = None) -> None:
        asyncio.run(self.worker(raises).run_until_idle())

    def worker(self, raises: Callable[[], Exception] | None = None) -> tarry.Worker:
        """It handles what is due, by a handler or a task."""
        worker = tarry.Worker("n", client=self.client, **self._of("worker"))

        def run(job: Any) -> int:
            self.seen.append(job)
            if raises is not None:
                raise raises()
            return 1

        def handle() -> int:
            return run(tarry.current_job())

        if self.by == "task":
            worker.task(**self._of("handler"))(handle)
        else:
            worker.on("n", **self._of("handler"))(run)
        return worker

    @contextmanager
    def failing(self) -> Iterator[Callable[[], None]]:
        """One attempt after the other fails, all of one worker."""
        worker = self.worker(lambda: ValueError("no"))
        with asyncio.Runner() as runner:

            def fail() -> None:
                if self.by == "pop":
                    self.topic.release(self.topic.pop(), delay=0, reason="no")  # type: ignore[arg-type]
                else:
                    runner.run(worker.run_until_idle())
                    self.clock.advance("2h")

            yield fail

    def wait(self) -> timedelta:
        """How long the job waits for its next attempt."""
        [job] = self.topic.list("delayed")
        assert job.due is not None
        return job.due - as_datetime(self.clock.us)

    def _of(self, level: Level) -> dict[str, Any]:
        return {self.name: self.given[level]} if level in self.given else {}


def ttr(cell: Cell) -> Any:
    cell.add()
    if cell.by == "pop":
        return cell.topic.pop(ttr=cell.given.get("handler")).ttr  # type: ignore[union-attr]
    cell.work()
    return cell.seen[0].ttr


def max_attempts(cell: Cell) -> Any:
    cell.add()
    with cell.failing() as fail:
        while not cell.topic.list("dead").jobs:
            fail()
    return cell.topic.list("dead").jobs[0].attempts


def max_lateness(cell: Cell) -> Any:
    """Found by trying: the longest of these that is not too late."""
    longest = None
    for late, bound in ((2 * MINUTE, MINUTE), (4 * MINUTE, 3 * MINUTE)):
        cell.seen.clear()
        cell.add()
        cell.clock.advance(late)
        cell.work()
        if not cell.seen:
            longest = bound
            break
    cell.topic.purge()
    return longest


def keep_finished(cell: Cell) -> Any:
    cell.add()
    cell.work()
    job = cell.topic.get("7")
    return job.kept_until - job.finished if job else None  # type: ignore[operator]


def priority(cell: Cell) -> Any:
    cell.add()
    return cell.topic.pop().priority  # type: ignore[union-attr]


def retry(cell: Cell) -> Any:
    cell.add()
    given = cell.given.get("attempt")
    if cell.by == "pop":
        cell.topic.release(cell.topic.pop(), delay=given)  # type: ignore[arg-type]
    else:
        cell.work(lambda: tarry.Retry(after=given) if given else ValueError("no"))
    wait = cell.wait()
    return None if abs(wait - SECOND) <= SECOND / 4 else wait  # the usual back-off


OBSERVED: dict[str, Callable[[Cell], Any]] = {
    "ttr": ttr,
    "max_attempts": max_attempts,
    "max_lateness": max_lateness,
    "keep_finished": keep_finished,
    "priority": priority,
    "retry": retry,
}
CONSUMERS = {
    "ttr": ("pop", "on"),
    "max_attempts": ("pop", "on", "task"),
    "max_lateness": ("on",),
    "keep_finished": ("on", "task"),
    "priority": ("pop",),
    "retry": ("pop", "on", "task"),
}


def can_give(setting: Setting, level: Level, by: str) -> bool:
    """Whether a level is there: a plain ``pop`` has a TTR, but no handler and no worker."""
    return by != "pop" or level not in {"worker", "handler"} or (setting is TTR and level == "handler")


def cells() -> Iterator[Any]:
    for setting in precedence.SETTINGS:
        small, large = VALUES[setting.name]
        for by in CONSUMERS[setting.name]:
            levels = [level for level in setting.given_by if can_give(setting, level, by)]
            alone: list[Given] = [{}, *({level: small} for level in levels)]
            pairs: list[Given] = [
                given
                for one, other in combinations(levels, 2)
                for given in ({one: small, other: large}, {one: large, other: small})
            ]
            for given in (*alone, *pairs, dict.fromkeys(levels, large)):
                if by == "task" and given and "handler" not in given:
                    continue  # what is registered with a task is the same as with `on`, but for what its decorator says
                if setting is TTR and by == "on" and not {"worker", "handler", "job", "call"} & given.keys():
                    continue  # a worker always gives one: below
                words = ", ".join(f"{level} {value}" for level, value in given.items()) or "default"
                yield pytest.param(setting, given, by, id=f"{setting.name} by {by}: {words}")


@pytest.mark.parametrize(("setting", "given", "by"), list(cells()))
def test_what_is_in_force_is_what_the_rule_says(
    client: TestClient, clock: Clock, setting: Setting, given: Given, by: str
) -> None:
    found = OBSERVED[setting.name](Cell(client, clock, setting.name, given, by))
    assert found == decide(setting, given).value
    assert client.topic("n").check().ok


@pytest.mark.parametrize("given", [{}, {"topic": 9 * SECOND}])
def test_a_worker_never_uses_the_ttr_of_the_topic(client: TestClient, clock: Clock, given: Given) -> None:
    assert ttr(Cell(client, clock, "ttr", given, "on")) == decide(TTR, {**given, "worker": 15 * SECOND}).value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "by"),
    [
        *[({"job": None, "call": 2}, by) for by in ("pop", "on")],
        *[({"call": None, "handler": 2}, by) for by in ("on", "task")],
        *[({"handler": None, "topic": 2}, by) for by in ("on", "task")],
        ({"topic": None}, "pop"),
    ],
)
def test_no_limit_of_attempts_is_a_value(client: TestClient, clock: Clock, given: Given, by: str) -> None:
    cell = Cell(client, clock, "max_attempts", given, by)
    cell.add()
    with cell.failing() as fail:
        for _ in range(MORE):
            fail()
    assert cell.topic.get("7").attempts == MORE  # type: ignore[union-attr]
    assert decide(MAX_ATTEMPTS, given).value is None
