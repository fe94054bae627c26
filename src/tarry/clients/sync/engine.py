"""What a blocking client works with: its connections, its waiters, its mover. Every handle that a client gives has it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tarry.clients.origin import Origin, seconds_of
from tarry.clients.sync.lookout import Lines
from tarry.clients.sync.mover import Mover
from tarry.clients.sync.racing import Race
from tarry.clients.sync.runner import Runner
from tarry.clients.sync.takers import Pair, Takers
from tarry.clients.sync.viewing import Viewer
from tarry.clients.sync.waiter import Waiter
from tarry.core.requests import Command, Flow, ScriptCall, WrongType
from tarry.core.watch import Caller
from tarry.errors import BadInput, TarryError, Unavailable
from tarry.values.durations import Duration
from tarry.values.keys import QueueKeys
from tarry.verbs import topic_names
from tarry.verbs.jobs import pop
from tarry.verbs.jobs.partition import PartitionVerbs
from tarry.verbs.jobs.wait import WaitQueueKey

if TYPE_CHECKING:
    from tarry.clients.sync.job import Job
    from tarry.clients.sync.topic import Topic

T = TypeVar("T")


class Part(Protocol):
    """What works for all handles of a client, in the background: a mover, a watchdog, a listener's connection."""

    def close(self) -> None: ...


P = TypeVar("P", bound=Part)


class Engine:
    """Performs what verbs say, and waits. Thread-safe, fork-safe; connects at the first request."""

    keeps_maps = True
    """Whether a loop of this client evicts from its maps. In imaginary time nothing happens by itself."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.runner = Runner(origin.address, origin.patience)
        self._introduced: set[str] = set()
        self._waiters: dict[tuple[int, int], Waiter] = {}
        self._lock = threading.Lock()
        self._parts: dict[tuple[int, Callable[[Engine], Any]], Any] = {}

    def close(self) -> None:
        """Closes the connections. The next request would open them again."""
        for waiter in self._waiters.values():
            waiter.close()
        self._waiters = {}
        parts, self._parts = self._parts, {}
        for (pid, _), part in reversed(parts.items()):
            if pid == os.getpid():  # a fork's parent has its own
                part.close()
        self.runner.close()

    def part(self, kind: Callable[[Engine], P]) -> P:
        """The one part of a kind in this process: made when it is first needed, closed with the engine."""
        place = (os.getpid(), kind)
        if place not in self._parts:
            with self._lock:
                if place not in self._parts:
                    self._parts[place] = kind(self)
        found: P = self._parts[place]
        return found

    def run(self, operation: ScriptCall[T] | Command[T] | Flow[T]) -> T:
        """Performs what a verb said: a call, a command or a flow."""
        return self._run(operation, self.runner)

    def look(self, operation: ScriptCall[T] | Command[T] | Flow[T]) -> T:
        """The same for a view: what only shows, and is nothing that a verb goes by. Perhaps from a replica."""
        if not self.origin.address.read_from:
            return self.run(operation)
        return self._run(operation, self.part(Viewer))

    def _run(self, operation: ScriptCall[T] | Command[T] | Flow[T], asked: Runner | Viewer) -> T:
        if not isinstance(operation, (ScriptCall, Command)):
            return self.runner.run(operation, asked.answer)
        try:
            answer: T = asked.perform(operation)
        except WrongType as fault:
            if isinstance(operation, Command) or operation.on_wrong_type is None:
                raise
            return self.runner.run(operation.on_wrong_type(operation, fault), asked.answer)
        return answer

    def introduce(self, topic: str) -> None:
        """Writes a topic into the list of known ones, once a process."""
        if topic not in self._introduced:
            self.run(topic_names.register(self.origin.namespace, topic))
            self._introduced.add(topic)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, topics: Sequence[Topic[T]], n: int, wait: Duration | None, ttr: Duration | None) -> list[Job[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        want, seconds = pop.want_of(n), seconds_of(wait)
        until = self.seconds() + seconds
        while True:
            places = [(topic, self._places(topic)) for topic in topics]
            try:
                return self._take(places, want, seconds, ttr)
            except WrongType as fault:
                plain = [topic for topic, some in places if some[0].keys == topic.verbs.keys]
                for topic in plain:  # one of them has been given partitions since, or more
                    with suppress(WrongType):
                        self.run(topic.verbs.rediscover(fault))
                if all(topic.verbs.single is not None for topic in plain):
                    raise
                seconds = max(until - self.seconds(), 0)

    def seconds(self) -> float:
        """The time that waits are counted in."""
        return time.monotonic()

    def _take(
        self,
        places: Sequence[tuple[Topic[T], Sequence[PartitionVerbs[T]]]],
        want: int,
        seconds: float,
        ttr: Duration | None,
    ) -> list[Job[T]]:
        if not seconds or self._are_apart(places, want):  # first without waiting, in order
            for topic, some in places:
                jobs = self._take_now(topic, some, want, ttr)
                if jobs:
                    return jobs
        return self._wait(places, want, seconds, ttr) if seconds else []

    def _are_apart(self, places: Sequence[tuple[Topic[T], Sequence[PartitionVerbs[T]]]], want: int) -> bool:
        """Whether they lie in several slots of a Cluster; or several jobs are wanted, and a wait ends with those of one partition."""
        if want > 1 and any(len(some) > 1 for _, some in places):
            return True
        return len({self.runner.group_of(verbs.keys.due) for _, some in places for verbs in some}) > 1

    def _places(self, topic: Topic[T]) -> Sequence[PartitionVerbs[T]]:
        only = topic.verbs.single
        return [only] if only is not None else self.run(topic.verbs.rotated())

    def _take_now(
        self, topic: Topic[T], places: Sequence[PartitionVerbs[T]], want: int, ttr: Duration | None
    ) -> list[Job[T]]:
        """What is ready in the partitions of a topic, one after the other until there are enough."""
        found: list[tuple[PartitionVerbs[T], pop.PopReply]] = []
        try:
            for verbs in places:
                if want:
                    found.append((verbs, self.run(verbs.pop(want, ttr))))
                    want -= len(found[-1][1].jobs)
        except Unavailable:
            if not any(taken.jobs for _, taken in found):
                raise
        except BaseException:
            for verbs, taken in found:
                with suppress(TarryError):  # then they come back after their TTR
                    self.run(pop.give_back_reply(verbs.keys, taken.receipt, taken.jobs))
            raise
        return [job for _, taken in found for job in topic._handed(taken, taken.jobs)]

    def _wait(
        self,
        places: Sequence[tuple[Topic[T], Sequence[PartitionVerbs[T]]]],
        want: int,
        seconds: float,
        ttr: Duration | None,
    ) -> list[Job[T]]:
        caller = self.wait(want, seconds, [verbs.wait_queue_key(ttr) for _, some in places for verbs in some])
        if caller.result is None:
            return []
        post, taken, jobs = caller.result
        keys = post.keys
        return next(topic for topic, some in places if any(verbs.keys == keys for verbs in some))._handed(taken, jobs)

    def wait(self, want: int, seconds: float, posts: Sequence[WaitQueueKey]) -> Caller:
        """Queues a caller at its posts, behind those who wait already."""
        slots: dict[int, list[WaitQueueKey]] = {}
        for post in posts:
            slots.setdefault(self.runner.group_of(post[0].due), []).append(post)
        lanes = [(self._waiter(slot), its) for slot, its in slots.items()]
        if len(lanes) == 1:
            return lanes[0][0].wait(want, seconds, posts)
        return Race(self.runner, lanes, want, seconds).run()

    def _waiter(self, slot: int) -> Waiter:
        place = (os.getpid(), slot)
        waiter = self._waiters.get(place)
        if waiter is None:
            lines = self.part(Lines)
            with self._lock:
                waiter = self._waiters.setdefault(place, Waiter(self.runner, self.origin.watcher(), lines))
        return waiter

    # ── queues shared with Java ──────────────────────────────────────────────────────────────────────────────────────

    def keep_moving(self, queues: Sequence[QueueKeys]) -> None:
        """From now on these queues move."""
        self.part(Mover).keep(queues)

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, which move while somebody consumes them."""
        self.keep_moving(queues)
        return self.part(Takers).take(queues, seconds)
