"""The conditions of a topic: each state alone, and each pair of them; and what is said of all topics together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import combinations
from typing import Any

import pytest

from tarry.programs.serving.conditions import (
    KINDS,
    LEVELS,
    Condition,
    Kind,
    Level,
    ServerFacts,
    assess_queue,
    assess_topic,
    severity,
    summarize,
)
from tarry.verbs.jobs.stats import Lateness, LimitStatus, Stats
from tarry.verbs.workers import WorkerInfo, WorkerTopic
from walked import cases

NOW = datetime(2027, 1, 15, 8, tzinfo=timezone.utc)
FOREVER = datetime(9999, 12, 31, tzinfo=timezone.utc)
COUNTERS = (
    "added popped finished released timed_out died too_late kicked deleted replaced refused repeated lost swept".split()
)
NOTHING = Stats(
    "orders", NOW, 0, 0, 0, 0, None, None, None, None, 0, **dict.fromkeys(COUNTERS, 0), lateness=Lateness.of({})
)
IDLE = WorkerTopic("orders", ("place",), slots=2, busy=0)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def worker(topic: WorkerTopic, mode: str = "work") -> WorkerInfo:
    return WorkerInfo("w", "ada", 7, "0", NOW, NOW, NOW, topic.slots, topic.busy, False, (topic,), (), mode)


@dataclass(frozen=True)
class State:
    """One state: what it changes of a topic on time with an idle worker, and what is said of it."""

    kind: Kind
    level: Level
    sentence: str
    stats: dict[str, Any] = field(default_factory=dict)
    topic: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)
    consumed: bool = True
    count: int = 0
    since: datetime | None = None


LATE: dict[str, Any] = {"ready": 3, "oldest_ready": ago(120)}
STATES = {
    "many died lately": State(
        "died", "bad", "40 jobs died in the last ten minutes; 1,662 jobs are dead in all.",
        {"dead": 1662, "died_lately": 40, "last_died": ago(9)}, count=40, since=ago(9),
    ),
    "one died lately": State(
        "died", "calm", "1 job died in the last ten minutes.",
        {"dead": 1, "died_lately": 1, "last_died": ago(9)}, count=1, since=ago(9),
    ),
    "dead for long": State(
        "died", "calm", "1,662 jobs are dead; the last died 2 d ago.",
        {"dead": 1662, "last_died": ago(2 * 86400)}, count=1662, since=ago(2 * 86400),
    ),
    "tasks that nobody knows": State(
        "unknown_tasks", "bad", "No live worker knows the tasks 'mail', 'print', so their jobs are put back, and not done.",
        topic={"unknown_tasks": ("mail", "print")}, count=2,
    ),
    "a task that another worker knows": State(
        "unknown_tasks", "calm", "1 of 1 workers does not know task 'place'; each puts such jobs back for the others.",
        topic={"unknown_tasks": ("place",)}, count=1,
    ),
    "nobody consumes": State(
        "no_consumer", "bad", "No consumer takes its 3 ready jobs.", LATE, consumed=False, count=3, since=ago(120),
    ),
    "nobody will consume": State(
        "no_consumer", "calm", "No consumer takes its jobs; 5 wait, the next is due in 4 m.",
        {"delayed": 5, "next_due": ago(-240)}, consumed=False, count=5,
    ),
    "a rate": State(
        "held_back", "calm", "3 jobs are held back by the rate limit, the first for 2 m; the next can be handed out in 59 m.",
        {**LATE, "limited": LimitStatus("rate", ago(-3540))}, count=3, since=ago(120),
    ),
    "a pause": State(
        "held_back", "calm", "Paused for 50 m; 3 jobs wait, the first for 2 m.",
        {**LATE, "limited": LimitStatus("pause", ago(-3000)), "paused_until": ago(-3000)}, count=3, since=ago(120),
    ),
    "a pause of nothing": State(
        "held_back", "calm", "Paused until it is resumed.", {"paused_until": FOREVER},
    ),
    "keys": State(
        "held_back", "calm", "2 jobs are held back by the limits of their keys.",
        {"ready": 3, "held_back": 2, "oldest_ready": ago(120), "can_go_since": ago(1)}, count=2,
    ),
    "full": State(
        "full", "calm", "Full with 4 jobs, so no more are added; 2 jobs were refused so far.",
        {"ready": 3, "full": True, "not_added": 2}, count=4,
    ),
    "late": State("late", "bad", "3 jobs are overdue, the first by 2 m.", LATE, count=3, since=ago(120)),
    "late and busy": State(
        "late", "bad", "3 jobs are overdue, the first by 2 m; all 2 slots of its workers are busy.", LATE, {"busy": 2}, count=3, since=ago(120),
    ),
    "stuck runs": State(
        "stuck", "bad", "1 job has run longer than the timeout, and cannot be stopped.", topic={"overrun": 1}, count=1,
    ),
    "damaged records": State(
        "damaged", "bad", "2 records are damaged; `tarry check` names them.", {"damaged": 2}, count=2,
    ),
    "an unfit server": State(
        "unfit_server", "bad", "The server is unfit: 93% of its maxmemory are used.",
        server={"unfit": ("93% of its maxmemory are used",)}, count=1,
    ),
    "a slow server": State(
        "slow_server", "calm", "The server answers slowly, after 44 ms.", server={"slow_ms": 44.0},
    ),
}  # fmt: skip


def assess(*states: State) -> tuple[Condition, ...]:
    stats, topic, server, consumed = replace(NOTHING, delayed=1), IDLE, ServerFacts(), True
    for state in states:
        stats = replace(stats, **state.stats)
        topic = WorkerTopic(**{name: getattr(topic, name) for name in topic.__struct_fields__} | state.topic)
        server = replace(server, **state.server)
        consumed = consumed and state.consumed
    return assess_topic(stats, [worker(topic)] if consumed else [], server)


def condition_of(state: State) -> Condition:
    return Condition(state.kind, state.level, state.sentence, state.count, state.since)


@cases("name", STATES)
def test_each_state_has_its_condition(name: str) -> None:
    first, *more = assess(STATES[name])
    assert first == condition_of(STATES[name])
    assert [one.kind for one in more] == (["late"] if name == "nobody consumes" else [])


def test_every_kind_is_in_the_table() -> None:
    assert {state.kind for state in STATES.values()} | {"empty", "on_time"} == set(KINDS)


def hides(one: State, other: State) -> bool:
    """Whether a state cannot be seen beside another: what is held back is not late; without a consumer there are no reports."""
    if one.kind == "late" and other.kind == "held_back":
        return True
    return not other.consumed and bool(one.topic)


PAIRS = [(one, other) for one, other in combinations(STATES, 2) if STATES[one].kind != STATES[other].kind]


@cases("pair", PAIRS, ids=" and ".join)
def test_of_two_states_both_are_told_and_the_worse_first(pair: tuple[str, str]) -> None:
    one, other = (STATES[name] for name in pair)
    found = assess(one, other)
    kinds = [condition.kind for condition in found]
    expected = {state.kind for state, beside in ((one, other), (other, one)) if not hides(state, beside)}
    assert expected <= set(kinds)
    assert len(kinds) == len(set(kinds))
    assert not {"empty", "on_time"} & set(kinds), "nothing green beside any of them"
    order = [(LEVELS.index(condition.level), KINDS.index(condition.kind)) for condition in found]
    assert order == sorted(order)


def test_a_topic_without_any_is_on_time_or_empty() -> None:
    assert assess()[0] == Condition("on_time", "good", "On time.")
    assert assess_topic(NOTHING, [])[0] == Condition("empty", "calm", "Empty.")


def test_a_job_that_has_just_become_ready_is_not_late() -> None:
    stats = replace(NOTHING, ready=1, oldest_ready=ago(5))
    assert [one.kind for one in assess_topic(stats, [worker(IDLE)])] == ["on_time"]


@pytest.mark.parametrize("since", [{"watching": 1}, {"last_popped": ago(60)}])
def test_a_client_that_takes_jobs_is_a_consumer(since: dict[str, Any]) -> None:
    assert [one.kind for one in assess_topic(replace(NOTHING, delayed=1, **since), [])] == ["on_time"]


@pytest.mark.parametrize("mode", ["quiet", "stop"])
def test_a_worker_that_takes_no_new_jobs_is_none(mode: str) -> None:
    taking = worker(IDLE, mode)
    stopping = WorkerInfo(
        **{name: getattr(taking, name) for name in taking.__struct_fields__} | {"stopping": mode == "stop"}
    )
    found = assess_topic(replace(NOTHING, delayed=1), [stopping])
    assert [one.kind for one in found] == ["no_consumer"]


def test_reservations_that_are_over_are_told_when_nobody_puts_them_back() -> None:
    stats = replace(NOTHING, **LATE, expired=2)
    found = {one.kind: one.sentence for one in assess_topic(stats, [])}
    assert found["stuck"] == "2 reservations have ended, and no pop has made the jobs ready again."


def test_topics_are_sorted_by_their_worst_condition() -> None:
    names = [
        "many died lately",
        "tasks that nobody knows",
        "nobody consumes",
        "late",
        "damaged records",
        "dead for long",
        "a rate",
    ]
    found = {name: assess(STATES[name]) for name in names} | {"on time": assess()}
    backwards = list(found)[::-1]
    assert sorted(backwards, key=lambda name: severity(found[name])) == [*names, "on time"]
    later = assess(replace(STATES["late"], stats={"ready": 3, "oldest_ready": ago(500)}))
    assert severity(later) < severity(found["late"]), "of two that are late the one that is later"


def test_all_topics_are_summarized_by_the_worst() -> None:
    fine, empty = assess(), assess_topic(NOTHING, [])
    late, dead, died = (assess(STATES[name]) for name in ("late", "dead for long", "many died lately"))
    assert summarize({}) == ("calm", "Nothing has been added yet.")
    assert summarize({"a": empty}) == ("calm", "No job waits.")
    assert summarize({"a": empty, "b": fine}) == ("good", "All is on time.")
    assert summarize({"a": fine, "b": late}) == ("bad", "b: 3 jobs are overdue, the first by 2 m.")
    assert summarize({"a": fine, "b": dead}) == (
        "calm",
        "Nothing is late. b: 1,662 jobs are dead; the last died 2 d ago.",
    )
    level, sentence = summarize({"a": late, "b": died})
    assert (level, sentence) == (
        "bad",
        "2 topics need attention. b: 40 jobs died in the last ten minutes; 1,662 jobs are dead in all.",
    )


@cases("name", STATES)
def test_the_headline_has_one_colon_at_most(name: str) -> None:
    _, sentence = summarize({"orders": assess(STATES[name]), "on time": assess()})
    assert sentence.count(":") <= 1, sentence


def test_what_all_topics_share_is_not_said_of_one() -> None:
    unfit, slow = assess(STATES["an unfit server"]), assess(STATES["a slow server"])
    assert summarize({"a": unfit, "b": unfit}) == ("bad", "The server is unfit: 93% of its maxmemory are used.")
    assert summarize({"a": slow, "b": slow}) == ("calm", "Nothing is late. The server answers slowly, after 44 ms.")


@dataclass(frozen=True)
class Queue:
    delayed: int = 1
    poison: int = 0
    movers: int = 2
    late: timedelta | None = None


LATE_QUEUE = Queue(late=timedelta(minutes=2))


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (Queue(), [("on_time", "good", "On time.")]),
        (Queue(late=timedelta(seconds=1)), [("on_time", "good", "On time.")]),
        (Queue(delayed=0), [("empty", "calm", "No elements are delayed.")]),
        (LATE_QUEUE, [("late", "bad", "The first element is overdue by 2 m.")]),
        (
            replace(LATE_QUEUE, movers=0, poison=1),
            [
                (
                    "no_consumer",
                    "bad",
                    "The first element is overdue by 2 m, and no consumer makes due elements ready.",
                ),
                ("damaged", "bad", "1 element could not be read or handled, and was set aside."),
            ],
        ),
        (Queue(poison=3), [("damaged", "bad", "3 elements could not be read or handled, and were set aside.")]),
    ],
)
def test_a_shared_queue_has_conditions(queue: Queue, expected: list[tuple[str, str, str]]) -> None:
    assert [(one.kind, one.level, one.sentence) for one in assess_queue(queue)] == expected
