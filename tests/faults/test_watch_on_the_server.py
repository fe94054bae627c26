"""The watch itself, on the real scripts, in imaginary time: several consumers, any order of steps, faults in between.

``idea.watch.Watch`` is driven by hand. A BLPOP is played as the server does it: after each script its token goes to the
consumer that has waited longest for the list. Time passes only when nobody has anything left to do.

    nothing fails           handed out at once
    one consumer killed     at most G late
    anything worse          at most R late
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.simulation import EXACT, G, R, RandomMoves, WatchSimulation
from tarry.clients.testing import Clock, TestClient
from tarry.connections.embedded.server_process import ServerProcess
from tarry.core.requests import Command

DELAYS = st.sampled_from([0, 0, 0.001, 0.5, 1, 3, 9.99, 10, 12])
PAUSES = st.sampled_from([0, 0, 0.0005, 0.5, 1, 2, 10])


@pytest.fixture(scope="module")
def world_client(running: ServerProcess) -> Iterator[TestClient]:
    with TestClient(running.url, Clock()) as client:
        yield client


def examples(quick: int) -> Any:
    return settings(
        max_examples=quick,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def without_faults(client: TestClient, data: Any) -> None:
    consumers = data.draw(st.integers(1, 4), "consumers")
    world = WatchSimulation(client, consumers, want=data.draw(st.integers(1, 2), "want"))
    moves = RandomMoves(world, data)
    began = world.now
    turns = st.tuples(DELAYS, PAUSES, st.integers(0, 6), st.sampled_from(["", "", "stop", "wait"]))
    for delay, pause, steps, what in data.draw(st.lists(turns, max_size=6), "jobs"):
        moves.steps(steps)
        world.add(delay)
        moves.steps(steps)
        for consumer in world.crew[1:]:  # the first one always wants jobs
            if what == "stop":
                world.stop(consumer)
            elif what == "wait" and not consumer.callers:
                world.ask_for_job(consumer)
        world.events += consumers if what else 0
        moves.pass_time(pause)
    moves.until_all_are_out()
    assert world.latest() <= EXACT, str(world)
    assert len(world.out) == len(world.due)
    passed = world.now - began
    around = consumers * (2 + passed / (0.9 * R)) + 2 * passed / G  # two warm seats look every G, at most
    assert world.looks <= 8 * world.events + around, str(world)


def with_one_killed(client: TestClient, data: Any) -> None:
    world = WatchSimulation(client, data.draw(st.integers(2, 4), "consumers"))
    moves = RandomMoves(world, data)
    moves.rest()
    for delay, pause in data.draw(st.lists(st.tuples(DELAYS, PAUSES), max_size=3), "before"):
        world.add(delay)
        moves.pass_time(pause)
    if data.draw(st.booleans(), "add just before"):
        world.add(data.draw(DELAYS, "delay"))
    moves.steps(data.draw(st.integers(0, 8), "steps"))
    if len(world.crew) > 2 and data.draw(st.booleans(), "the last one stops"):
        world.stop(world.crew[-1])
        moves.steps(data.draw(st.integers(0, 3), "steps"))
    world.kill(data.draw(st.sampled_from(world.crew[:2]), "victim"), ghost=False)
    for delay, pause in data.draw(st.lists(st.tuples(DELAYS, PAUSES), max_size=3), "after"):
        world.add(delay)
        moves.pass_time(pause)
    moves.until_all_are_out()
    assert world.latest() <= G + EXACT, str(world)


def with_anything(client: TestClient, data: Any) -> None:
    world = WatchSimulation(client, data.draw(st.integers(2, 4), "consumers"))
    moves = RandomMoves(world, data)
    moves.rest()
    for what in data.draw(
        st.lists(st.sampled_from(["add", "pass", "kill", "ghost", "freeze", "thaw", "lose", "step"]), max_size=12)
    ):
        living = [c for c in world.crew if c.alive]
        if what == "add":
            world.add(data.draw(DELAYS, "delay"))
        elif what == "pass":
            moves.pass_time(data.draw(PAUSES, "pause"))
        elif what == "step":
            moves.steps(data.draw(st.integers(1, 5), "steps"))
        elif what in ("kill", "ghost") and len(living) > 1:
            world.kill(data.draw(st.sampled_from(living[1:]), "victim"), ghost=what == "ghost")
        elif what in ("freeze", "thaw"):  # the first one lives, so that there is somebody to hold to the promise
            for consumer in living[1:]:
                consumer.frozen = what == "freeze"
        elif what == "lose":  # a fail-over that lost what was written last
            client.engine.run(Command((b"DEL", world.keys.watch, world.keys.wake, world.keys.relay), int))
    for consumer in world.crew:
        if consumer.frozen and consumer.asked is not None:
            world.lost(consumer.asked[1])
    moves.until_all_are_out()
    assert world.latest() <= R + EXACT, str(world)


@pytest.mark.slow
@examples(30)
@given(data=st.data())
def test_without_faults_every_job_is_handed_out_at_once(world_client: TestClient, data: Any) -> None:
    """Promise: On time; Waiting: the watch."""
    without_faults(world_client, data)


@pytest.mark.slow
@examples(30)
@given(data=st.data())
def test_one_killed_consumer_makes_a_job_at_most_g_late(world_client: TestClient, data: Any) -> None:
    """Promise: No process is special; Waiting: the watch."""
    with_one_killed(world_client, data)


@pytest.mark.slow
@examples(30)
@given(data=st.data())
def test_worse_faults_make_a_job_at_most_r_late(world_client: TestClient, data: Any) -> None:
    """Promise: A wake-up is a hint, never the truth; Waiting: the watch."""
    with_anything(world_client, data)


@pytest.mark.long
@pytest.mark.parametrize("story", [without_faults, with_one_killed, with_anything])
def test_the_watch_holds_in_many_more_orders(world_client: TestClient, story: Any) -> None:
    @examples(1500)
    @given(data=st.data())
    def many(data: Any) -> None:
        story(world_client, data)

    many()
