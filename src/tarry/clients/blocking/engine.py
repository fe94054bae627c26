"""The engine of a blocking client: its connections, its waiters, its mover. Every handle that a client gives has it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tarry.clients.blocking.list_pops import ListPops, Pair
from tarry.clients.blocking.mover import Mover
from tarry.clients.blocking.race import Race
from tarry.clients.blocking.replica_reads import ReplicaReader
from tarry.clients.blocking.runner import Runner
from tarry.clients.blocking.wait_connections import WaitConnections
from tarry.clients.blocking.waiter import Waiter
from tarry.clients.config import ClientConfig, wait_seconds
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
    from tarry.clients.blocking.job import Job
    from tarry.clients.blocking.topic import Topic

T = TypeVar("T")


class BackgroundPart(Protocol):
    """What works for all handles of a client, in the background: a mover, a watchdog, a listener's connection."""

    def close(self) -> None: ...


P = TypeVar("P", bound=BackgroundPart)


class Engine:
    """Performs what verbs say, and waits. Thread-safe, fork-safe; connects at the first request."""

    keeps_maps = True
    """Whether a loop of this client evicts from its maps. In imaginary time nothing happens by itself."""

    def __init__(self, origin: ClientConfig) -> None:
        self.origin = origin
        self.runner = Runner(origin.address, origin.patience)
        self._registered: set[str] = set()
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

    def shared_part(self, kind: Callable[[Engine], P]) -> P:
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

    def run_view(self, operation: ScriptCall[T] | Command[T] | Flow[T]) -> T:
        """The same for a view: what only shows, and is nothing that a verb goes by. Perhaps from a replica."""
        if not self.origin.address.read_from:
            return self.run(operation)
        return self._run(operation, self.shared_part(ReplicaReader))

    def _run(self, operation: ScriptCall[T] | Command[T] | Flow[T], reader: Runner | ReplicaReader) -> T:
        if not isinstance(operation, (ScriptCall, Command)):
            return self.runner.run(operation, reader.perform_step)
        try:
            answer: T = reader.perform(operation)
        except WrongType as fault:
            if isinstance(operation, Command) or operation.on_wrong_type is None:
                raise
            return self.runner.run(operation.on_wrong_type(operation, fault), reader.perform_step)
        return answer

    def register_topic(self, topic: str) -> None:
        """Writes a topic into the list of known ones, once a process."""
        if topic not in self._registered:
            self.run(topic_names.register(self.origin.namespace, topic))
            self._registered.add(topic)

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self, topics: Sequence[Topic[T]], n: int, wait: Duration | None, ttr: Duration | None) -> list[Job[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        want, seconds = pop.want_of(n), wait_seconds(wait)
        until = self.seconds() + seconds
        while True:
            places = [(topic, self._partitions(topic)) for topic in topics]
            try:
                return self._take_from(places, want, seconds, ttr)
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

    def _take_from(
        self,
        partitions: Sequence[tuple[Topic[T], Sequence[PartitionVerbs[T]]]],
        want: int,
        seconds: float,
        ttr: Duration | None,
    ) -> list[Job[T]]:
        if not seconds or self._need_several_waiters(partitions, want):  # first without waiting, in order
            for topic, some in partitions:
                jobs = self._take_now(topic, some, want, ttr)
                if jobs:
                    return jobs
        return self._wait(partitions, want, seconds, ttr) if seconds else []

    def _need_several_waiters(
        self, partitions: Sequence[tuple[Topic[T], Sequence[PartitionVerbs[T]]]], want: int
    ) -> bool:
        """Whether they lie in several slots of a Cluster; or several jobs are wanted, and a wait ends with those of one partition."""
        if want > 1 and any(len(some) > 1 for _, some in partitions):
            return True
        return len({self.runner.group_of(verbs.keys.due) for _, some in partitions for verbs in some}) > 1

    def _partitions(self, topic: Topic[T]) -> Sequence[PartitionVerbs[T]]:
        only = topic.verbs.single
        return [only] if only is not None else self.run(topic.verbs.rotated())

    def _take_now(
        self, topic: Topic[T], partitions: Sequence[PartitionVerbs[T]], want: int, ttr: Duration | None
    ) -> list[Job[T]]:
        """What is ready in the partitions of a topic, one after the other until there are enough."""
        found: list[tuple[PartitionVerbs[T], pop.PopReply]] = []
        try:
            for verbs in partitions:
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
        return [job for _, taken in found for job in topic._make_jobs(taken, taken.jobs)]

    def _wait(
        self,
        partitions: Sequence[tuple[Topic[T], Sequence[PartitionVerbs[T]]]],
        want: int,
        seconds: float,
        ttr: Duration | None,
    ) -> list[Job[T]]:
        caller = self.wait(want, seconds, [verbs.wait_queue_key(ttr) for _, some in partitions for verbs in some])
        if caller.result is None:
            return []
        post, taken, jobs = caller.result
        keys = post.keys
        return next(topic for topic, some in partitions if any(verbs.keys == keys for verbs in some))._make_jobs(
            taken, jobs
        )

    def wait(self, want: int, seconds: float, queue_keys: Sequence[WaitQueueKey]) -> Caller:
        """Queues a caller at its posts, behind those who wait already."""
        slots: dict[int, list[WaitQueueKey]] = {}
        for post in queue_keys:
            slots.setdefault(self.runner.group_of(post[0].due), []).append(post)
        entries = [(self._waiter(slot), its) for slot, its in slots.items()]
        if len(entries) == 1:
            return entries[0][0].wait(want, seconds, queue_keys)
        return Race(self.runner, entries, want, seconds).run()

    def _waiter(self, slot: int) -> Waiter:
        place = (os.getpid(), slot)
        waiter = self._waiters.get(place)
        if waiter is None:
            lines = self.shared_part(WaitConnections)
            with self._lock:
                waiter = self._waiters.setdefault(place, Waiter(self.runner, self.origin.new_waiter_name(), lines))
        return waiter

    # ── queues shared with Java ──────────────────────────────────────────────────────────────────────────────────────

    def keep_moving(self, queues: Sequence[QueueKeys]) -> None:
        """From now on these queues move."""
        self.shared_part(Mover).add(queues)

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, which move while somebody consumes them."""
        self.keep_moving(queues)
        return self.shared_part(ListPops).take(queues, seconds)
