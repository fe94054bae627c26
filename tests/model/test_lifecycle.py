"""The table of a job's life cycle says what a server does: each step is tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from life_cycle import STATES, STEPS, Step
from tarry.clients.testing import Clock, TestClient
from tarry.programs.dashboard.lifecycle import ACTIONS_BY_STATE, JOB_ACTIONS, is_editable
from tarry.types import JobState

_names = count()


@pytest.fixture
def topic(valkey_url: str) -> Iterator[Any]:
    with TestClient(valkey_url, Clock(), namespace=f"lifecycle{next(_names)}") as client:
        topic: Any = client.topic("t")
        topic.clock = client.clock
        yield topic


def lead_to(topic: Any, place: str, **options: Any) -> Any:
    """A job in this state; the job with its receipt, if it was popped."""
    if place == "new":
        return None
    topic.add("tea", id="7", delay=60 if place == "delayed" else 0, **options)
    job = topic.pop(ttr=30) if place in ("reserved", "dead") else None
    if place == "dead":
        job.bury()
    return job


def state(topic: Any) -> str:
    found = topic.get("7")
    return "gone" if found is None else found.state


CAUSES: dict[str, Callable[[Any, Any, Step], object]] = {
    "add": lambda topic, _, step: topic.add("cake", id="7", delay=60 * (step.after == "delayed"), if_exists="replace"),
    "time": lambda topic, _, step: topic.clock.advance(60),
    "reschedule": lambda topic, _, step: topic.reschedule("7", delay=60 * (step.after == "delayed")),
    "touch": lambda topic, job, _: topic.touch(job),
    "finish": lambda topic, job, _: job.finish(),
    "release": lambda topic, job, step: job.release(delay=60 * (step.after == "delayed")),
    "bury": lambda topic, job, _: job.bury(),
    "cancel": lambda topic, _, step: topic.delete("7", running=True),
    "kick": lambda topic, _, step: topic.kick("7"),
    "delete": lambda topic, _, step: topic.delete("7"),
}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.cause}-{step.before}-{step.after}")
def test_each_step_happens_on_a_server(topic: Any, step: Step) -> None:
    """Promise: Exactly one place."""
    if step.cause == "pop":
        lead_to(topic, step.before, max_lateness="1s" if step.after == "dead" else None)
        topic.clock.advance("31d" if step.after == "gone" else "1m" if step.after == "dead" else 0)
        popped = topic.pop()
        assert (popped is not None) == (step.after == "reserved")
    else:
        job = lead_to(topic, step.before, max_attempts=1 if step.condition == "last attempt" else 3)
        if step.condition == "updated since":
            topic.add("cake", id="7", if_exists="update")
        CAUSES[step.cause](topic, job, step)
    assert state(topic) == step.after


def test_a_verb_that_needs_another_state_changes_nothing(topic: Any) -> None:
    for verb in ("reschedule", "kick"):
        for place in STATES:
            if not any(step.cause == verb and step.before == place for step in STEPS):
                lead_to(topic, place)
                CAUSES[verb](topic, None, Step(verb, place, "ready"))
                assert state(topic) == place, f"{verb} of a job that is {place}"
                topic.delete("7")


def steps_of(verb: str, state: str) -> list[Step]:
    return [step for step in STEPS if (step.cause, step.before) == (verb, state)]


def changes_anything(action: str, state: str) -> bool:
    steps = steps_of(JOB_ACTIONS[action].verb, state)
    return any(step.after == "ready" != state for step in steps) if action == "run-now" else bool(steps)


def test_the_dashboard_has_a_button_for_what_may_be_done_without_a_receipt() -> None:
    assert {
        state: tuple(action for action in JOB_ACTIONS if changes_anything(action, state)) for state in STATES
    } == ACTIONS_BY_STATE


def test_the_dashboard_edits_a_job_where_an_add_may_replace_it() -> None:
    places: tuple[JobState, ...] = (*STATES, "finished")
    assert {state for state in places if is_editable(state)} == {
        state for state in places if state != "reserved" and steps_of("add", state)
    }
