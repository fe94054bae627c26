# Made from src/tarry/clients/awaited/engine.py by tools/blocking.py: change that file, then `make blocking`.
"""The engine of a blocking client: its connections, its waiters, its mover. Every handle of a client has it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from tarry.clients.blocking.concurrency import Local, SharedCalls
from tarry.clients.blocking.runner import Runner
from tarry.clients.config import ClientConfig, wait_seconds
from tarry.core.requests import Command, Operation, ScriptCall, WrongType
from tarry.errors import TarryError, Unavailable
from tarry.values.durations import Duration
from tarry.values.keys import QueueKeys
from tarry.verbs import jobs as job_verbs
from tarry.verbs import namespaces
from tarry.verbs.jobs.job_values import ENDED, JobInfo
from tarry.verbs.jobs.partitions import PartitionVerbs
from tarry.verbs.jobs.topic import TopicVerbs

if TYPE_CHECKING:  # what waits, and what moves queues, is imported when it is first needed
    from tarry.clients.blocking.ends import ServerEnds
    from tarry.clients.blocking.interfaces import P, Pair, Popped, SharedPartHost
    from tarry.clients.blocking.replica_reads import ReplicaReader
    from tarry.clients.blocking.waiter import Waiter
    from tarry.core.watch import Caller, Gate
    from tarry.verbs.jobs.pop import PopReply
    from tarry.verbs.jobs.watch_steps import WaitQueueKey

T = TypeVar("T")
REGISTER_AGAIN_S = 60.0
TOPICS_PER_WAITER = 64
"""So many topics share a waiter, with its connection: each job costs a new wait for all of these."""


class Engine:
    """Performs verbs, and waits for jobs. Thread-safe and fork-safe. Connects at the first request."""

    keeps_maps = True
    """Whether a loop of this client evicts from its maps. In imaginary time nothing happens by itself."""
    seconds = staticmethod(time.monotonic)
    """The time that waits are counted in."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.runner = Runner(config.address, config.patience)
        self._registered: dict[str, float] = {}
        """When each topic is to be registered again."""
        self._shared_calls = SharedCalls()
        self._waiters: Local[int, Waiter] = Local()
        self._waited_for: defaultdict[bytes, int] = defaultdict(count().__next__)
        """The topics that were waited for, one at a time, in their order."""
        self._parts: Local[Callable[[SharedPartHost], Any], Any] = Local()

    def close(self) -> None:
        """Closes the connections for good."""
        self._shared_calls.run("close", self._close)  # a second caller returns when they are closed, too

    def disconnect(self) -> None:
        """Closes the connections. The next verb opens new ones."""
        self._shared_calls.run("disconnect", self._disconnect)

    def _disconnect(self) -> None:
        self._close_parts()
        self.runner.disconnect()

    def _close(self) -> None:
        self._close_parts()
        self.runner.close()
        with suppress(TarryError):
            self._close_parts()  # those of verbs that began meanwhile; no verb begins any more

    def _close_parts(self) -> None:
        for waiter in self._waiters.take_all():
            waiter.close()
        for part in self._parts.take_all():
            part.close()

    def shared_part(self, kind: Callable[[SharedPartHost], P]) -> P:
        """The one part of a kind in this process: made when it is first needed, closed with the engine."""
        found: P = self._parts.get(kind, lambda: kind(self))
        return found

    def run(self, operation: Operation[T], reader: Runner | ReplicaReader | None = None) -> T:
        """Performs a verb's operation: a call, a command or a flow. A ``reader`` performs its requests in the runner's place."""
        answer: T
        reader = reader or self.runner
        if type(operation) is not ScriptCall and type(operation) is not Command:
            assert isinstance(operation, GeneratorType), "a verb returns a request or a flow"
            answer = self.runner.run(operation, reader.perform_step)
            return answer
        try:
            answer = reader.perform(operation)
        except WrongType as fault:
            if isinstance(operation, Command) or operation.on_wrong_type is None:
                raise
            answer = self.runner.run(operation.on_wrong_type(operation, fault), reader.perform_step)
        return answer

    def run_view(self, operation: Operation[T]) -> T:
        """Like ``run`` for a view: its result is only shown, and no verb depends on it. It may come from a replica."""
        if not self.config.address.read_from:
            return self.run(operation)
        from tarry.clients.blocking.replica_reads import ReplicaReader

        return self.run(operation, self.shared_part(ReplicaReader))

    def register_topic(self, topic: str) -> None:
        """Writes a topic into the list of known ones, and once more a minute later: a fail-over may lose that, and workers with a pattern
        find topics in the list."""
        now = self.seconds()
        if topic not in self._registered or self._registered[topic] <= now:
            # calls at the same time wait for the same answer, and so keep their order
            self._shared_calls.run(("register", topic), lambda: self._register(topic))
            self._registered[topic] = now + REGISTER_AGAIN_S

    def _register(self, topic: str) -> None:
        namespace, in_cluster = self.config.namespace, self.config.address.kind == "cluster"
        if self.runner.perform(namespaces.register_topic(namespace, topic)):
            for sharded in (True, False) if in_cluster else (False,):  # Redis 6.2 has no sharded channels
                with suppress(TarryError):  # it is on the list, where workers look every ten seconds
                    self.runner.perform(namespaces.announce_topic(namespace, topic, sharded=sharded))
                    return

    # ── jobs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def take(
        self,
        topics: Sequence[TopicVerbs[Any]],
        limit: int,
        wait: Duration | None,
        ttr: Duration | None,
        gate: Gate | None = None,
    ) -> list[Popped]:
        """Waits for jobs. Returns up to ``limit`` of the first topic that has any. With a ``gate``, as many as that allows at each
        pop of the wait, which ends when it allows none."""
        max_jobs, seconds = job_verbs.pop.checked_limit(limit), wait_seconds(wait)
        until = self.seconds() + seconds
        while True:
            by_topic = [self._partitions(topic) for topic in topics]
            try:
                return self._take_from(by_topic, max_jobs, seconds, ttr, gate)
            except WrongType as fault:
                plain = [
                    topic
                    for topic, partitions in zip(topics, by_topic, strict=True)
                    if partitions[0].keys == topic.keys
                ]
                for topic in plain:  # one of them has got partitions, or more of them, meanwhile
                    with suppress(WrongType):
                        self.run(topic.rediscover(fault))
                if all(topic.single is not None for topic in plain):
                    raise
                seconds = max(until - self.seconds(), 0)

    def _take_from(
        self,
        by_topic: Sequence[Sequence[PartitionVerbs[Any]]],
        max_jobs: int,
        seconds: float,
        ttr: Duration | None,
        gate: Gate | None,
    ) -> list[Popped]:
        if not seconds or (gate is None and self._need_several_waiters(by_topic, max_jobs)):
            # first without waiting, in order
            for index, partitions in enumerate(by_topic):
                popped = self._take_now(index, partitions, max_jobs, ttr)
                if popped:
                    return popped
        return self._wait(by_topic, max_jobs, seconds, ttr, gate) if seconds else []

    def _need_several_waiters(self, by_topic: Sequence[Sequence[PartitionVerbs[Any]]], max_jobs: int) -> bool:
        """Whether the topics lie in several slots of a Cluster, or several jobs are wanted and one wait gives those of one partition."""
        if max_jobs > 1 and any(len(partitions) > 1 for partitions in by_topic):
            return True
        return len({self.runner.group_of(verbs.keys.due) for partitions in by_topic for verbs in partitions}) > 1

    def _partitions(self, topic: TopicVerbs[T]) -> Sequence[PartitionVerbs[T]]:
        only = topic.single
        if only is not None:
            return [only]
        self._shared_calls.run(("partitions", topic.context.name), lambda: self.run(topic.partitions()))
        return self.run(topic.rotated())

    def _take_now(
        self, index: int, partitions: Sequence[PartitionVerbs[Any]], max_jobs: int, ttr: Duration | None
    ) -> list[Popped]:
        """Returns the ready jobs of a topic's partitions, one partition after the other until there are enough."""
        found: list[tuple[PartitionVerbs[Any], PopReply]] = []
        try:
            for verbs in partitions:
                if max_jobs:
                    found.append((verbs, self.run(verbs.pop(max_jobs, ttr))))
                    max_jobs -= len(found[-1][1].jobs)
        except Unavailable:
            if not any(taken.jobs for _, taken in found):
                raise
        except BaseException:
            for verbs, taken in found:
                self.runner.perform_if_possible(job_verbs.pop.give_back_reply(verbs.keys, taken.receipt, taken.jobs))
            raise
        return [(index, taken, taken.jobs) for _, taken in found if taken.jobs]

    def _wait(
        self,
        by_topic: Sequence[Sequence[PartitionVerbs[Any]]],
        max_jobs: int,
        seconds: float,
        ttr: Duration | None,
        gate: Gate | None,
    ) -> list[Popped]:
        caller = self.wait(
            max_jobs, seconds, [verbs.wait_queue_key(ttr) for partitions in by_topic for verbs in partitions], gate
        )
        if caller.result is None:
            return []
        queue, taken, jobs = caller.result
        keys = queue.keys
        index = next(
            index for index, partitions in enumerate(by_topic) if any(verbs.keys == keys for verbs in partitions)
        )
        return [(index, taken, jobs)]

    def wait(
        self, max_jobs: int, seconds: float, queue_keys: Sequence[WaitQueueKey], gate: Gate | None = None
    ) -> Caller:
        """Queues a caller behind the callers that wait already."""
        self.runner.ensure_open()
        if len(queue_keys) == 1:  # where all are in one group, a waiter has a share of the topics
            [(keys, *_)] = queue_keys
            group = self.runner.group_of(keys.due) or -(self._waited_for[keys.wake] // TOPICS_PER_WAITER)
            return self._waiter(group).wait(max_jobs, seconds, queue_keys, gate)
        groups: dict[int, list[WaitQueueKey]] = {}
        for queue_key in queue_keys:
            groups.setdefault(self.runner.group_of(queue_key[0].due), []).append(queue_key)
        entries = [(self._waiter(group), its) for group, its in groups.items()]
        if len(entries) == 1:
            return entries[0][0].wait(max_jobs, seconds, queue_keys, gate)
        from tarry.clients.blocking.race import race

        return race(self.runner, entries, max_jobs, seconds, gate)

    def wait_until_ended(self, topic: TopicVerbs[Any], id: str, seconds: float) -> JobInfo[Any] | None:
        """Waits until a job is finished or dead; returns it as it is then, or at the end of the time."""
        job: JobInfo[Any] | None = (self.run(topic.get([id], True)))[0]
        if job is None or job.state in ENDED or not seconds:
            return job
        from tarry.clients.blocking.finished_jobs import wait_until_ended

        return wait_until_ended(self, topic, id, seconds)

    def open_ends(self, topic: TopicVerbs[Any]) -> ServerEnds:
        """The ends of a topic's jobs, and the news of them. Nothing is missed from now on."""
        from tarry.clients.blocking.ends import ServerEnds

        return ServerEnds(self, topic).open()

    def _waiter(self, group: int) -> Waiter:
        from tarry.clients.blocking.wait_connections import WaitConnections
        from tarry.clients.blocking.waiter import Waiter

        return self._waiters.get(
            group,
            lambda: Waiter(self.runner, self.config.new_waiter_name(), self.shared_part(WaitConnections)),
        )

    # ── queues shared with Java ──────────────────────────────────────────────────────────────────────────────────────

    def keep_moving(self, queues: Sequence[QueueKeys]) -> None:
        """From now on the due elements of these queues are moved."""
        self.runner.ensure_open()
        from tarry.clients.redisson.blocking.duty_loop import DutyLoop
        from tarry.verbs.redisson.delayed.transfer import MovedQueue

        duties = self.shared_part(DutyLoop)
        duties.add(MovedQueue(keys, duties.client_id) for keys in queues)

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """Returns the first payload of any of the queues, which are moved as long as they have a consumer."""
        from tarry.clients.redisson.blocking.list_pops import ListPops

        self.keep_moving(queues)
        return self.shared_part(ListPops).take(queues, seconds)
