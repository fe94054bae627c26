"""The jobs of a pop whose answer was lost are released by its own worker, and no others are."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import pytest

import tarry
from tarry.clients.testing import Clock, TestClient
from tarry.verbs.jobs.holders import last_receipt, release_lost
from tarry.verbs.jobs.job_values import Reservation
from tarry.verbs.jobs.pop import PopReply, pop_step
from tarry.worker.lost_pops import AFTER_S, PopLedger

ME = b"me"


class Pop:
    """A request: the server may do it, its answer may arrive, and its connection may end, whichever comes first."""

    def __init__(self) -> None:
        self.reply: PopReply | None = None
        self.is_lost = False


class Game:
    """A ledger, a real server in imaginary time, and a network that delays and loses."""

    def __init__(self, topic: Any, clock: Clock, seed: int, most_in_flight: int) -> None:
        self.topic, self.clock, self.rng = topic, clock, Random(seed)
        self.most_in_flight = most_in_flight
        self.ledger = PopLedger()
        self.under_way: list[Pop] = []
        """Not answered, and its connection is open."""
        self.adrift: list[Pop] = []
        """Lost, and still on their way to the server: it does them late, or never."""
        self.hands: dict[str, int] = {}
        self.unknown: dict[str, int] = {}
        """The jobs that lost pops reserved, with their receipts."""
        self.released = 0
        self.ids = count()

    @property
    def now(self) -> float:
        return self.clock.us / 1e6

    def add(self) -> None:
        self.topic.add_many(
            [tarry.NewJob("x", id=f"j{next(self.ids)}") for _ in range(self.rng.randrange(1, 4))], ttr="1d"
        )

    def send(self) -> None:
        if len(self.under_way) < self.most_in_flight:
            pop = Pop()
            self.ledger.sent(pop)
            self.under_way.append(pop)

    def do(self, pop: Pop) -> None:
        pop.reply = self.topic.engine.run(
            pop_step(self.topic.verbs.keys, self.rng.randrange(1, 3), ttr=b"0", holder=ME)
        )
        if pop.is_lost:
            self.unknown.update({id.decode(): pop.reply.receipt for id, *_ in pop.reply.jobs})

    def server_works(self) -> None:
        waiting = [pop for pop in self.under_way if pop.reply is None] + self.adrift
        if waiting:
            pop = self.rng.choice(waiting)
            if pop in self.adrift:
                self.adrift.remove(pop)
            self.do(pop)

    def answer(self) -> None:
        done = [pop for pop in self.under_way if pop.reply is not None]
        if done:
            self.arrive(self.rng.choice(done))

    def arrive(self, pop: Pop) -> None:
        self.under_way.remove(pop)
        assert pop.reply is not None
        self.hands.update({id.decode(): pop.reply.receipt for id, *_ in pop.reply.jobs})
        self.ledger.answered(pop, pop.reply.receipt if pop.reply.jobs else None)

    def lose(self) -> None:
        if self.under_way:
            pop = self.under_way.pop(self.rng.randrange(len(self.under_way)))
            pop.is_lost = True
            self.ledger.lost(pop, self.now)
            if pop.reply is None:
                self.adrift.append(pop)
            else:
                self.unknown.update({id.decode(): pop.reply.receipt for id, *_ in pop.reply.jobs})

    def finish(self) -> None:
        if self.hands:
            id = self.rng.choice(list(self.hands))
            self.topic.finish(Reservation(id, self.hands.pop(id)))

    def wait(self) -> None:
        self.clock.advance(self.rng.choice([0.001, 0.5, 1.0, 2.5]))

    def look_after(self) -> None:
        asks_at = self.ledger.asks_at()
        if asks_at is not None and self.now >= asks_at:
            self.ledger.told_last(self.topic.engine.runner.perform(last_receipt(self.topic.verbs.keys)), self.now)
        if (sweep := self.ledger.sweep()) is not None:
            flow = release_lost(self.topic.verbs.keys, ME, sweep.after, sweep.up_to, sorted(sweep.answered))
            self.released += self.topic.engine.run(flow)
            self.unknown = {id: at for id, at in self.unknown.items() if not sweep.after < at <= sweep.up_to}
            self.ledger.swept(sweep)

    def play(self, steps: int) -> None:
        moves = [
            self.add,
            self.send,
            self.send,
            self.server_works,
            self.server_works,
            self.answer,
            self.answer,
            self.lose,
        ]
        moves += [self.finish, self.wait, self.look_after]
        for _ in range(steps):
            self.rng.choice(moves)()

    def end(self) -> None:
        """All that is under way answers after all; then what is lost is looked for once more."""
        for pop in list(self.under_way):
            if pop.reply is None:
                self.do(pop)
            self.arrive(pop)
        for _ in range(2):
            self.clock.advance(AFTER_S + 0.1)
            self.look_after()


@pytest.mark.parametrize("most_in_flight", [1, 3])
@pytest.mark.parametrize("seed", range(16))
def test_no_job_is_released_whose_pop_was_or_will_be_answered(
    topic: Any, clock: Clock, seed: int, most_in_flight: int
) -> None:
    game = Game(topic, clock, seed, most_in_flight)
    for _ in range(4):
        game.play(60)
        game.end()
        reserved = {job.id for job in topic.list("reserved", limit=1000)}
        assert reserved >= set(game.hands)
        for id, receipt in game.hands.items():
            topic.touch(Reservation(id, receipt), ttr="1d")
        if (
            most_in_flight == 1
        ):  # one after the other, as a worker pops; what is done later than that comes back after its TTR
            assert reserved == set(game.hands) | set(game.unknown)
            assert topic.check().ok


def test_games_release_something(topic: Any, clock: Clock) -> None:
    game = Game(topic, clock, 7, 1)
    game.play(2000)
    assert game.released > 20


def test_an_answer_that_comes_after_all_keeps_its_jobs(topic: Any, clock: Clock) -> None:
    """Of two pops one is lost. The other one is still under way when the topic is asked, so nothing is released before it has ended."""
    game = Game(topic, clock, 1, 2)
    topic.add_many(["x", "y", "z"], ttr="1d")
    game.send()
    game.send()
    lost, slow = game.under_way
    game.do(lost)
    game.do(slow)
    game.under_way.remove(lost)
    game.ledger.lost(lost, game.now)
    clock.advance(AFTER_S)
    game.look_after()
    assert game.ledger.asks_at() is None, "it has asked"
    assert game.released == 0
    game.arrive(slow)
    game.look_after()
    assert lost.reply is not None
    assert game.released == len(lost.reply.jobs)
    for id, receipt in game.hands.items():
        topic.touch(Reservation(id, receipt), ttr="1d")


def test_nothing_is_asked_before_two_seconds(topic: Any, clock: Clock) -> None:
    ledger = PopLedger()
    ledger.sent(1)
    ledger.lost(1, 10.0)
    assert ledger.asks_at() == 10.0 + AFTER_S
    ledger.sent(2)
    ledger.lost(2, 11.0)
    assert ledger.asks_at() == 11.0 + AFTER_S
    ledger.told_last(5, 12.5)
    assert ledger.sweep() is None, "it was asked too early for the second one"


def test_a_lost_handing_out_does_not_count_as_an_attempt(client: TestClient, topic: Any, clock: Clock) -> None:
    topic.add("tea", id="a", max_attempts=1)
    topic.add("oft", id="b")
    first = topic.engine.run(pop_step(topic.verbs.keys, 2, ttr=b"0", holder=ME))
    assert topic.engine.run(release_lost(topic.verbs.keys, ME, first.receipt, first.receipt, [])) == 0
    assert topic.engine.run(release_lost(topic.verbs.keys, ME, 0, first.receipt, [first.receipt])) == 0
    assert topic.engine.run(release_lost(topic.verbs.keys, b"you", 0, first.receipt, [])) == 0
    assert topic.engine.run(release_lost(topic.verbs.keys, ME, 0, first.receipt, [])) == 2
    assert [(job.id, job.attempt) for job in topic.pop_many(2)] == [("a", 1), ("b", 1)]
