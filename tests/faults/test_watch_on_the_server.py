"""The watch itself, on the real scripts, in imaginary time: several consumers, any order of steps, faults in between.

``idea.watch.Watch`` is driven by hand. A BLPOP is played as the server does it: after each script its token goes to the
consumer that has waited longest for the list. Time passes only when nobody has anything left to do.

    nothing fails           handed out at once
    one consumer killed     at most G late
    anything worse          at most R late
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarry.clients.testing import Clock, TestClient
from tarry.idea.calls import Command
from tarry.idea.watch import Block, Caller, Watch
from tarry.links.embedded.launch import Running
from tarry.verbs.jobs.waiting import turn

G, R = 1.0, 10.0
EXACT = 1e-5
"""What rounding to microseconds may add."""
FOREVER = 1e9
_numbers = count()


@dataclass
class Consumer:
    """One process that waits for the topic, always for one job more."""

    watch: Watch
    alive: bool = True
    frozen: bool = False
    ghost: bool = False
    #: the keys of its BLPOP, and since when it waits
    line: tuple[bytes, ...] = ()
    place: int = 0
    token: bytes | None = None
    rests_until: float | None = None
    #: a question whose answer it has not read
    asked: tuple[Any, Any] | None = None
    callers: list[Caller] = field(default_factory=list)


class World:
    def __init__(self, client: TestClient, consumers: int, want: int = 1) -> None:
        self.client, self.clock = client, client.clock
        self.topic = client.topic(f"watch-{next(_numbers)}")
        self.keys = self.topic.verbs.keys
        self.places = count(1)
        self.due: dict[str, float] = {}
        self.out: dict[str, float] = {}
        self.looks = self.events = 0
        self.want = want
        self.trace: list[str] = []
        self.crew = [Consumer(Watch(b"c%d" % i)) for i in range(consumers)]
        for consumer in self.crew:
            self.wish(consumer)

    @property
    def now(self) -> float:
        return self.clock.seconds()

    def note(self, consumer: Consumer | None, what: object) -> None:
        who = f"c{self.crew.index(consumer)}" if consumer else "  "
        self.trace.append(f"{self.now:10.6f} {who} {what}")

    def __str__(self) -> str:
        return "\n".join(["", *self.trace])

    # ── consumers ──

    def wish(self, consumer: Consumer) -> None:
        caller = Caller(self.want, FOREVER, lambda: None)
        consumer.callers.append(caller)
        consumer.watch.enter(caller, [self.topic.verbs._plain.post("1h")])
        consumer.rests_until = None

    def stop(self, consumer: Consumer) -> None:
        """It wants nothing any more, whatever it is doing: what it is handed now must go back at once."""
        self.note(consumer, "stops")
        for caller in consumer.callers:
            consumer.watch.leave(caller)
        consumer.callers, consumer.rests_until = [], None

    def busy(self, consumer: Consumer) -> bool:
        if not consumer.alive or consumer.frozen:
            return False
        if consumer.asked or consumer.token or consumer.rests_until is None:
            return True
        return consumer.rests_until <= self.now

    def step(self, consumer: Consumer) -> None:
        """The one thing that it does next."""
        consumer.rests_until = None
        if consumer.asked:
            flow, reply = consumer.asked
            consumer.asked = None
            self.told(consumer, flow, reply)
        elif consumer.token:
            key, consumer.token, consumer.line = consumer.token, None, ()
            self.note(consumer, f"reads a token of {key.rpartition(b':')[2].decode()}")
            consumer.watch.woken(key)
        else:
            self.act(consumer, consumer.watch.next_step(self.now))

    def act(self, consumer: Consumer, step: Any) -> None:
        if isinstance(step, Block):
            parts = " ".join(key.rpartition(b":")[2].decode() for key in step.keys)
            self.note(consumer, f"waits on {parts or 'nothing'} until {step.until:.6f}")
            if (consumer.line and consumer.line != step.keys) or not step.keys:
                consumer.line = ()
                consumer.watch.woken(None)
            elif not consumer.line:
                consumer.line, consumer.place = step.keys, next(self.places)
                self.serve()
                consumer.rests_until = step.until
            else:
                consumer.rests_until = step.until
            return
        if step is None:
            assert not consumer.callers, "it wants jobs and has nothing to do"
            consumer.rests_until = FOREVER
            return
        self.looks += type(step).__name__ == "Look"
        flow = turn(consumer.watch, step, self.clock.seconds)
        request = next(flow)
        consumer.asked = flow, self.client.engine.run(request)
        self.note(consumer, f"asks {type(step).__name__}{' named' * getattr(step, 'named', 0)}: {consumer.asked[1]}")
        self.serve()

    def told(self, consumer: Consumer, flow: Any, reply: Any) -> None:
        try:
            request = flow.send(reply)
        except StopIteration:
            pass
        else:
            consumer.asked = flow, self.client.engine.run(request)
            self.serve()
        for caller in list(consumer.callers):
            if caller.done:
                assert caller.fault is None
                assert caller.found is not None
                for raw in caller.found[2]:
                    self.handed(raw[0].decode())
                consumer.callers.remove(caller)
                self.wish(consumer)

    def handed(self, id: str) -> None:
        assert id not in self.out, "handed out twice"
        self.out[id] = self.now

    # ── the server ──

    def serve(self) -> None:
        """Tokens go to whoever has waited longest for their list."""
        for key in (self.keys.wake, self.keys.relay):
            waiting = [c for c in self.crew if key in c.line and not c.token and (c.alive or c.ghost)]
            if waiting and self.client.engine.run(Command((b"LPOP", key), bool)):
                min(waiting, key=lambda c: c.place).token = key

    def add(self, delay: float) -> None:
        self.events += 1
        added = self.topic.add("job", delay=delay)
        self.due[added.id] = self.now + delay
        self.note(None, f"add, due in {delay}")
        self.serve()

    def tick(self, most: float) -> None:
        """Nobody has anything to do: the next alarm rings, or the time is up."""
        moments = [c.rests_until for c in self.crew if c.alive and not c.frozen and c.rests_until is not None]
        self.clock.pass_until(max(min([*moments, most]), self.now))

    # ── faults ──

    def kill(self, consumer: Consumer, *, ghost: bool) -> None:
        """A ghost's BLPOP seems alive to the server, and swallows a token."""
        consumer.alive, consumer.ghost = False, ghost
        if consumer.asked is not None:
            self.lost(consumer.asked[1])
        if not ghost:
            consumer.line = ()

    def lost(self, reply: Any) -> None:
        """What a dead consumer was just handed comes back after its TTR: that is another promise."""
        for raw in getattr(reply, "jobs", ()):
            self.due.pop(raw[0].decode(), None)

    def latest(self) -> float:
        late = [self.out[id] - due for id, due in self.due.items() if id in self.out]
        late += [self.now - due for id, due in self.due.items() if id not in self.out]
        return max(late, default=0.0)


class Play:
    """Hypothesis chooses who steps next, and what happens in between."""

    def __init__(self, world: World, data: Any) -> None:
        self.world = world
        self.data = data

    def steps(self, most: int) -> None:
        """Up to ``most`` steps of anybody who has something to do."""
        for _ in range(most):
            busy = [c for c in self.world.crew if self.world.busy(c)]
            if not busy:
                return
            self.world.step(self.data.draw(st.sampled_from(busy), "who") if len(busy) > 1 else busy[0])

    def rest(self) -> None:
        for _ in range(2000):
            busy = [c for c in self.world.crew if self.world.busy(c)]
            if not busy:
                return
            self.world.step(busy[0])
        raise AssertionError("they never rest")

    def pass_time(self, seconds: float) -> None:
        end = self.world.now + seconds
        while True:
            self.rest()
            assert self.world.looks < 5000, "they look without end"
            if self.world.now >= end:
                return
            self.world.tick(end)

    def until_all_are_out(self) -> None:
        while len(self.world.out.keys() & self.world.due.keys()) < len(self.world.due):
            assert self.world.latest() <= R + 1, "silence"
            self.pass_time(0.5)


DELAYS = st.sampled_from([0, 0, 0.001, 0.5, 1, 3, 9.99, 10, 12])
PAUSES = st.sampled_from([0, 0, 0.0005, 0.5, 1, 2, 10])


@pytest.fixture(scope="module")
def world_client(running: Running) -> Iterator[TestClient]:
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
    world = World(client, consumers, want=data.draw(st.integers(1, 2), "want"))
    play = Play(world, data)
    began = world.now
    turns = st.tuples(DELAYS, PAUSES, st.integers(0, 6), st.sampled_from(["", "", "stop", "wish"]))
    for delay, pause, steps, what in data.draw(st.lists(turns, max_size=6), "jobs"):
        play.steps(steps)
        world.add(delay)
        play.steps(steps)
        for consumer in world.crew[1:]:  # the first one always wants jobs
            if what == "stop":
                world.stop(consumer)
            elif what == "wish" and not consumer.callers:
                world.wish(consumer)
        world.events += consumers if what else 0
        play.pass_time(pause)
    play.until_all_are_out()
    assert world.latest() <= EXACT, str(world)
    assert len(world.out) == len(world.due)
    passed = world.now - began
    around = consumers * (2 + passed / (0.9 * R)) + 2 * passed / G  # two warm seats look every G, at most
    assert world.looks <= 8 * world.events + around, str(world)


def with_one_killed(client: TestClient, data: Any) -> None:
    world = World(client, data.draw(st.integers(2, 4), "consumers"))
    play = Play(world, data)
    play.rest()
    for delay, pause in data.draw(st.lists(st.tuples(DELAYS, PAUSES), max_size=3), "before"):
        world.add(delay)
        play.pass_time(pause)
    if data.draw(st.booleans(), "add just before"):
        world.add(data.draw(DELAYS, "delay"))
    play.steps(data.draw(st.integers(0, 8), "steps"))
    if len(world.crew) > 2 and data.draw(st.booleans(), "the last one stops"):
        world.stop(world.crew[-1])
        play.steps(data.draw(st.integers(0, 3), "steps"))
    world.kill(data.draw(st.sampled_from(world.crew[:2]), "victim"), ghost=False)
    for delay, pause in data.draw(st.lists(st.tuples(DELAYS, PAUSES), max_size=3), "after"):
        world.add(delay)
        play.pass_time(pause)
    play.until_all_are_out()
    assert world.latest() <= G + EXACT, str(world)


def with_anything(client: TestClient, data: Any) -> None:
    world = World(client, data.draw(st.integers(2, 4), "consumers"))
    play = Play(world, data)
    play.rest()
    for what in data.draw(
        st.lists(st.sampled_from(["add", "pass", "kill", "ghost", "freeze", "thaw", "lose", "step"]), max_size=12)
    ):
        living = [c for c in world.crew if c.alive]
        if what == "add":
            world.add(data.draw(DELAYS, "delay"))
        elif what == "pass":
            play.pass_time(data.draw(PAUSES, "pause"))
        elif what == "step":
            play.steps(data.draw(st.integers(1, 5), "steps"))
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
    play.until_all_are_out()
    assert world.latest() <= R + EXACT, str(world)


@examples(60)
@given(data=st.data())
def test_without_faults_every_job_is_handed_out_at_once(world_client: TestClient, data: Any) -> None:
    without_faults(world_client, data)


@examples(60)
@given(data=st.data())
def test_one_consumer_killed_makes_a_job_at_most_g_late(world_client: TestClient, data: Any) -> None:
    with_one_killed(world_client, data)


@examples(60)
@given(data=st.data())
def test_anything_worse_makes_a_job_at_most_r_late(world_client: TestClient, data: Any) -> None:
    with_anything(world_client, data)


@pytest.mark.slow
@pytest.mark.parametrize("story", [without_faults, with_one_killed, with_anything])
def test_the_same_in_many_more_orders(world_client: TestClient, story: Any) -> None:
    @examples(1500)
    @given(data=st.data())
    def many(data: Any) -> None:
        story(world_client, data)

    many()
