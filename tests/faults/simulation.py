"""The watch on a real server in imaginary time: consumers, faults, and a random sequence of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import strategies as st

from tarry.clients.testing import TestClient
from tarry.core.requests import Command
from tarry.core.watch import BlockStep, Caller, Watch
from tarry.verbs.jobs.watch_steps import perform_step

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


class WatchSimulation:
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
            self.ask_for_job(consumer)

    @property
    def now(self) -> float:
        return self.clock.seconds()

    def note(self, consumer: Consumer | None, what: object) -> None:
        who = f"c{self.crew.index(consumer)}" if consumer else "  "
        self.trace.append(f"{self.now:10.6f} {who} {what}")

    def __str__(self) -> str:
        return "\n".join(["", *self.trace])

    # ── consumers ──

    def ask_for_job(self, consumer: Consumer) -> None:
        caller = Caller(self.want, FOREVER, lambda: None)
        consumer.callers.append(caller)
        consumer.watch.enter(caller, [self.topic.verbs._single.wait_queue_key("1h")])
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
            self.send_reply(consumer, flow, reply)
        elif consumer.token:
            key, consumer.token, consumer.line = consumer.token, None, ()
            self.note(consumer, f"reads a token of {key.rpartition(b':')[2].decode()}")
            consumer.watch.token_received(key)
        else:
            self.act(consumer, consumer.watch.next_step(self.now))

    def act(self, consumer: Consumer, step: Any) -> None:
        if isinstance(step, BlockStep):
            parts = " ".join(key.rpartition(b":")[2].decode() for key in step.keys)
            self.note(consumer, f"waits on {parts or 'nothing'} until {step.until:.6f}")
            if (consumer.line and consumer.line != step.keys) or not step.keys:
                consumer.line = ()
                consumer.watch.token_received(None)
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
        flow = perform_step(consumer.watch, step, self.clock.seconds)
        request = next(flow)
        consumer.asked = flow, self.client.engine.run(request)
        self.note(consumer, f"asks {type(step).__name__}{' named' * getattr(step, 'named', 0)}: {consumer.asked[1]}")
        self.serve()

    def send_reply(self, consumer: Consumer, flow: Any, reply: Any) -> None:
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
                assert caller.result is not None
                for raw in caller.result[2]:
                    self.handed(raw[0].decode())
                consumer.callers.remove(caller)
                self.ask_for_job(consumer)

    def handed(self, id: str) -> None:
        assert id not in self.out, "handed out twice"
        self.out[id] = self.now

    # ── the server ──

    def serve(self) -> None:
        """A token goes to the consumer that has waited longest for its list."""
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


class RandomMoves:
    """Hypothesis chooses which consumer steps next, and what happens in between."""

    def __init__(self, world: WatchSimulation, data: Any) -> None:
        self.world = world
        self.data = data

    def steps(self, most: int) -> None:
        """Up to ``most`` steps of consumers that have something to do."""
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
