"""Processes that keep queues moving, in imaginary time: real scripts, real channels, keepers as the clients drive them."""

from __future__ import annotations

import random
from typing import Any

import redis

from tarry.clients.testing import Clock, TestClient
from tarry.values.keys import QueueKeys
from tarry.verbs.redisson.delayed.queue_context import keys_of
from tarry.verbs.redisson.delayed.transfer import MovedQueue
from tarry.verbs.redisson.duties import DutyList
from tarry.verbs.redisson.elements import pack


class SimulatedMover:
    """A keeper, and the line on which it hears."""

    def __init__(self, world: QueueSimulation, name: str, queues: list[QueueKeys]) -> None:
        self.world = world
        self.name = name.encode()
        self.keeper = DutyList()
        for keys in queues:
            self.keep(keys)
        self.line: Any = world.pool.make_connection()
        self.line.connect()
        self.heard: set[bytes] = set()
        self.pipelines = self.scripts = 0
        self.frozen_until = 0.0

    def keep(self, keys: QueueKeys) -> None:
        self.keeper.add(MovedQueue(keys, self.name))

    def listen(self) -> None:
        """As the rooms of the clients that hear do it: an empty message when a channel is heard from now on."""
        wanted = self.keeper.channels()
        for word, channels in (("SUBSCRIBE", wanted - self.heard), ("UNSUBSCRIBE", self.heard - wanted)):
            if channels:
                self.line.send_command(word, *channels)
        self.heard = wanted
        self.line.send_command("PING")
        while b"PONG" not in (reply := self.line.read_response()) and reply[0] != b"pong":
            kind, channel, message = reply
            if kind == b"subscribe":
                self.keeper.on_message(channel, b"")
            elif kind == b"message":
                self.keeper.on_message(channel, message)

    def move(self) -> None:
        now = self.world.clock.seconds
        looks = self.keeper.due(now())
        answers = self.world.client.engine.runner.send_batch([kept.request for kept in looks])
        for kept, answer in zip(looks, answers, strict=True):
            self.keeper.on_answer(kept, answer, now())
        self.pipelines += 1
        self.scripts += len(looks)

    @property
    def seats(self) -> list[int]:
        return [kept.seat for kept in self.keeper if isinstance(kept, MovedQueue)]

    def die(self) -> None:
        self.world.living.remove(self)
        self.line.disconnect()

    def leave(self) -> None:
        self.world.client.engine.runner.send_batch(self.keeper.leave_requests())
        self.die()


class QueueSimulation:
    """Processes that share queues, and the time that passes for all of them."""

    def __init__(self, url: str, clock: Clock, name: str, seed: int = 0) -> None:
        self.clock = clock
        self.client = TestClient(url, clock)
        self.raw = redis.Redis.from_url(url, protocol=2)
        self.pool = self.raw.connection_pool
        self.rng = random.Random(seed)
        self.name = name
        self.queues = [keys_of(name)]
        self.living: list[SimulatedMover] = []
        self.offered: dict[bytes, float] = {}
        self.moved: dict[bytes, float] = {}

    def come(self, queues: list[QueueKeys] | None = None) -> SimulatedMover:
        process = SimulatedMover(self, f"p{self.rng.randrange(1 << 40)}", self.queues if queues is None else queues)
        self.living.append(process)
        return process

    def pass_time(self, seconds: float) -> None:
        end = self.clock.seconds() + seconds
        while True:
            now = self.clock.seconds()
            awake = [process for process in self.living if process.frozen_until <= now]
            for process in awake:
                process.listen()
            ready = [process for process in awake if process.keeper.next_due() <= now]
            if ready:
                self.rng.choice(ready).move()
                self._see()
                continue
            moments = [process.keeper.next_due() for process in awake]
            moments += [process.frozen_until for process in self.living if process not in awake]
            moment = min([*moments, end])
            if moment >= end:
                break
            self.clock.pass_until(moment)
        self.clock.pass_until(end)

    def _see(self) -> None:
        for keys in self.queues:
            while (payload := self.raw.lpop(keys.ready)) is not None:
                self.moved[payload] = self.clock.seconds()

    def offer(self, delay: float, *, told: bool = True) -> None:
        """An element; ``told`` on the channel, or as if the message were lost."""
        payload = b"%d" % len(self.offered)
        self.offered[payload] = self.clock.seconds() + delay
        if told:
            self.client.delayed_queue(self.name, codec="bytes").offer(payload, delay)
            return
        element = pack(payload, self.rng.randbytes(8))
        self.raw.zadd(self.queues[0].timeouts, {element: (self.clock.us + int(delay * 1e6)) // 1000})
        self.raw.rpush(self.queues[0].order, element)

    def with_seat(self, seat: int) -> SimulatedMover:
        (found,) = [process for process in self.living if process.seats == [seat]]
        return found

    def latest(self) -> float:
        """How late the latest was; each must have been moved."""
        assert self.moved.keys() == self.offered.keys()
        return max(self.moved[payload] - due for payload, due in self.offered.items())

    def close(self) -> None:
        for process in list(self.living):
            process.die()
        self.client.close()
        self.raw.close()
