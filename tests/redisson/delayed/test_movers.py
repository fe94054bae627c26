"""Movers that die, freeze, leave and come, in imaginary time: real scripts, real channels, duties as the clients perform them.

What a mover promises: one for a queue; a dead one is followed within a second by its deputy, which gets another deputy; if
both die at once, within six; a client without a seat costs next to nothing; one pipeline for all queues of a process.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import tarry
from redisson.delayed.simulation import QueueSimulation
from tarry.clients.testing import Clock
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.delayed.transfer import DEPUTY, MOVER, MovedQueue
from tarry.verbs.redisson.duties import DutyList
from tarry.verbs.redisson.elements import pack

BOUND_S, WORST_S = 1.0, 6.0
MESSAGES, QUEUES = 150, 25


@pytest.fixture
def world(valkey_url: str, clock: Clock, name: str) -> Iterator[QueueSimulation]:
    made = QueueSimulation(valkey_url, clock, name)
    yield made
    made.close()


@pytest.mark.slow
def test_a_dead_mover_is_replaced_within_a_second_every_time(world: QueueSimulation) -> None:
    far = pack(b"far", b"12345678")  # so that nobody looks because of it
    world.raw.zadd(world.queues[0].timeouts, {far: world.clock.us // 1000 + 10**6})
    world.raw.rpush(world.queues[0].order, far)
    for _ in range(4):
        world.come()
    for _ in range(20):
        world.pass_time(1 + world.rng.random())  # at any moment between two looks
        world.with_seat(DEPUTY)  # the last one has a successor by now
        world.with_seat(MOVER).die()
        world.come()
        world.offer(0.01, told=world.rng.random() < 0.5)
        world.pass_time(BOUND_S)
        assert world.latest() <= BOUND_S


def test_a_dead_deputy_is_replaced(world: QueueSimulation) -> None:
    for _ in range(3):
        world.come()
    world.pass_time(2)
    world.with_seat(DEPUTY).die()
    world.pass_time(2.5)
    world.with_seat(DEPUTY)


def test_mover_and_deputy_dying_together_are_replaced_within_six_seconds(world: QueueSimulation) -> None:
    for _ in range(5):
        world.come()
    world.pass_time(3)
    world.with_seat(MOVER).die()
    world.with_seat(DEPUTY).die()
    world.offer(0)
    world.pass_time(WORST_S)
    assert world.latest() <= WORST_S


def test_a_leaving_mover_wakes_a_successor_at_once(world: QueueSimulation) -> None:
    for _ in range(5):
        world.come()
    world.pass_time(3)
    world.with_seat(DEPUTY).leave()
    world.with_seat(MOVER).leave()
    world.offer(0)
    world.pass_time(0.01)
    assert world.latest() <= 0.01
    world.with_seat(MOVER)
    world.with_seat(DEPUTY)


def test_an_offer_whose_message_was_lost_is_moved_within_a_second(world: QueueSimulation) -> None:
    for _ in range(3):
        world.come()
    world.pass_time(3)
    for _ in range(20):
        world.offer(world.rng.random(), told=False)
        world.pass_time(world.rng.random() * 3)
    world.pass_time(BOUND_S)
    assert world.latest() <= BOUND_S


@pytest.mark.slow
def test_a_process_without_a_seat_costs_almost_nothing(world: QueueSimulation) -> None:
    processes = [world.come() for _ in range(20)]
    world.pass_time(3)
    before = {process: process.scripts for process in processes}
    world.pass_time(60)
    resting = [process for process in processes if process.seats == [0]]
    assert len(resting) == 18
    assert all(process.scripts - before[process] <= 60 / 4 for process in resting)
    assert world.with_seat(MOVER).scripts - before[world.with_seat(MOVER)] <= 60 / 0.7 + 1


@pytest.mark.slow
@pytest.mark.parametrize("consumers", [1, 20])
def test_a_message_costs_little_more_than_one_transfer(world: QueueSimulation, consumers: int) -> None:
    processes = [world.come() for _ in range(consumers)]
    world.pass_time(3)
    before = sum(process.scripts for process in processes)
    for _ in range(MESSAGES):
        world.offer(world.rng.uniform(0.2, 1.5))
        world.pass_time(0.02)
    world.pass_time(2)
    assert world.latest() <= 0.002  # a due time is in whole milliseconds
    assert sum(process.scripts for process in processes) - before <= 1.5 * MESSAGES


@pytest.mark.slow
def test_all_queues_of_a_process_share_one_pipeline(world: QueueSimulation) -> None:
    world.queues = [keys_of(f"{world.name}-{number}") for number in range(QUEUES)]
    process = world.come([])
    for keys in world.queues:  # they come one after the other
        process.keep(keys)
        world.pass_time(world.rng.random() / 5)
    world.pass_time(3)
    process.pipelines = process.scripts = 0
    world.pass_time(10)
    assert process.scripts >= QUEUES * 10
    assert process.pipelines <= 10 / 0.35


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "steps"), [(0, 60), (1, 60), *(pytest.param(seed, 150, marks=pytest.mark.long) for seed in range(2, 12))]
)
def test_one_mover_moves_everything_in_time_under_random_faults(
    valkey_url: str, clock: Clock, name: str, seed: int, steps: int
) -> None:
    world = QueueSimulation(valkey_url, clock, name, seed)
    rng, troubled = world.rng, 0.0
    for _ in range(4):
        world.come()
    world.pass_time(3)
    for _ in range(steps):
        for _ in range(rng.randrange(3)):
            world.offer(rng.uniform(0, 2), told=rng.random() < 0.8)
        calm = clock.seconds() - troubled > 3
        what = rng.random()
        if what < 0.1 and calm and len(world.living) > 2:
            rng.choice(world.living).die()
            troubled = clock.seconds()
        elif what < 0.15 and calm and len(world.living) > 2:
            rng.choice(world.living).leave()
            troubled = clock.seconds()
        elif what < 0.2 and calm:
            rng.choice(world.living).frozen_until = clock.seconds() + rng.uniform(0, 3)
            troubled = clock.seconds()
        elif what < 0.35:
            world.come()
        world.pass_time(rng.uniform(0, 0.7))
        awake = [process for process in world.living if process.frozen_until + 1 <= clock.seconds()]
        assert sum(process.seats == [MOVER] for process in awake) <= 1
    world.pass_time(3)
    assert world.latest() <= BOUND_S
    world.close()


def test_after_an_error_a_mover_retries_within_five_seconds_or_on_a_message(name: str) -> None:
    keys, now = keys_of(name), 0.0
    keeper = DutyList()
    keeper.add(MovedQueue(keys, b"me"))
    pauses: list[float] = []
    for _ in range(12):
        [kept] = keeper.due(now)
        keeper.on_answer(kept, tarry.Unavailable(), now)
        pauses.append(round(keeper.next_due() - now, 6))
        now = keeper.next_due()
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 5.0)
    keeper.on_message(keys.movers, b"")
    assert keeper.next_due() <= now


@pytest.mark.parametrize("message", [b"", b"1", b"a seat is free"])
def test_messages_on_other_channels_change_nothing(name: str, message: bytes) -> None:
    keeper = DutyList()
    keeper.add(MovedQueue(keys_of(name), b"me"))
    [kept] = keeper.due(0)
    keeper.on_answer(kept, tarry.Unavailable(), 0)
    before = keeper.next_due()
    keeper.on_message(b"elsewhere", message)
    assert keeper.next_due() == before


def test_an_invalid_message_causes_a_transfer(world: QueueSimulation) -> None:
    process = world.come()
    world.pass_time(2)
    process.keeper.on_message(world.queues[0].channel, b"soon")
    assert process.keeper.next_due() <= world.clock.seconds()
