"""``tarry.Client``: delayed jobs, blocking."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from tarry.clients.migrating import MovedOver, move_to_topic, rehearse
from tarry.clients.origin import MAX_BODY, PATIENCE, Origin, seconds_of
from tarry.clients.queueing import desk_of
from tarry.clients.sync.mover import Mover
from tarry.clients.sync.queues import BlockingQueue, DelayedQueue
from tarry.clients.sync.runner import Runner
from tarry.clients.sync.takers import Pair, Takers
from tarry.clients.sync.topic import Job, Topic
from tarry.clients.sync.waiter import Waiter
from tarry.errors import BadInput
from tarry.idea.calls import Call, Command, Flow
from tarry.idea.watch import Caller
from tarry.verbs import registry
from tarry.verbs.codecs import Codec
from tarry.verbs.delayed.face import BlockingVerbs, DelayedVerbs
from tarry.verbs.jobs import taking
from tarry.verbs.jobs.waiting import SEVERAL_SLOTS, PostAddress
from tarry.words.durations import Duration
from tarry.words.keys import QueueKeys

T = TypeVar("T")


class Client:
    """Delayed jobs on one server. Thread-safe, fork-safe, a context manager; connects at the first verb.

    ``url``        ``redis://``, ``rediss://``, ``unix://``, ``redis+cluster://``, ``embedded://…``; else ``TARRY_URL``,
                   else the embedded server of this user
    ``namespace``  keeps applications apart on one server
    ``max_body``   bytes that a body may have
    ``patience``   how long a lost answer is asked for again, before ``Unavailable`` says so
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str = "default",
        max_body: int = MAX_BODY,
        patience: Duration = PATIENCE,
    ) -> None:
        self._origin = Origin(url, namespace, max_body, patience)
        self.namespace = namespace
        self.runner = Runner(self._origin.address, self._origin.patience)
        self._introduced: set[str] = set()
        self._waiters: dict[tuple[int, int], Waiter] = {}
        self._lock = threading.Lock()
        self._mover: tuple[int, Mover] | None = None
        self._takers = Takers(self.runner)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections. The next verb would open them again."""
        for waiter in self._waiters.values():
            waiter.close()
        self._waiters = {}
        if self._mover is not None and self._mover[0] == os.getpid():
            self._mover[1].close()
        self._mover = None
        self._takers.close()
        self.runner.close()

    # ── topics ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def topic(self, name: str, *, type: type[T] | Codec[T]) -> Topic[T]: ...
    @overload
    def topic(self, name: str, *, type: None = None) -> Topic[Any]: ...
    def topic(self, name: str, *, type: type[Any] | Codec[Any] | None = None) -> Topic[Any]:
        """A topic by its name. ``type`` is what its bodies are: nothing (JSON, and bytes as they are), ``bytes``, a
        msgspec Struct or dataclass (JSON, validated when read), or a codec of your own."""
        return Topic(self, self._origin.verbs(name, type))

    def topics(self) -> list[str]:
        """The topics that have been added to, by name. A hint: a purged one stays in it."""
        return self.run(registry.known(self.namespace))

    def introduce(self, topic: str) -> None:
        """Writes a topic into the list of known ones, once a process."""
        if topic not in self._introduced:
            self.run(registry.introduce(self.namespace, topic))
            self._introduced.add(topic)

    def pop(self, *topics: Topic[Any] | str, wait: Duration | None = 0, ttr: Duration | None = None) -> Job[Any] | None:
        """A job of the first topic, in the order given, that has one ready; ``None`` when none is due within ``wait``."""
        jobs = self.take([self.topic(topic) if isinstance(topic, str) else topic for topic in topics], 1, wait, ttr)
        return jobs[0] if jobs else None

    # ── queues shared with Java ──────────────────────────────────────────────────────────────────────────────────────

    def delayed_queue(
        self, name: str, *, codec: str | Codec[Any] = "kryo5", format: str | None = None
    ) -> DelayedQueue[Any]:
        """The delayed queue that Redisson calls ``getDelayedQueue(getBlockingQueue(name))``.

        ``codec`` is the one of the Java application: ``"kryo5"`` (Redisson's default since 3.19), ``"river"``, ``"json"``,
        ``"string"``, ``"long"``, ``"bytes"``, or one of your own. ``format`` is what is written: ``"Bc0Lc0"`` (Redisson from
        3.21.1), ``"dLc0"`` (older ones), or ``None`` to follow the queue. Both are read.
        """
        return DelayedQueue(self, DelayedVerbs(desk_of(self._origin, name, codec, format)))

    def blocking_queue(self, name: str, *, codec: str | Codec[Any] = "kryo5") -> BlockingQueue[Any]:
        """The queue that Redisson calls ``getBlockingQueue(name)``, where a delayed queue delivers."""
        return BlockingQueue(self, BlockingVerbs(desk_of(self._origin, name, codec, None)))

    def move_to_topic(self, queue: DelayedQueue[Any], topic: Topic[Any] | str, *, dry_run: bool = False) -> MovedOver:
        """Moves what is not due yet out of a queue into a topic, with its due times; ``dry_run`` only says what would be.

        Safe to break off and to call again, while others offer and take. Each job has an id made of its element.
        """
        chosen = self.topic(topic) if isinstance(topic, str) else topic
        if dry_run:
            return self.run(rehearse(queue.verbs.desk, chosen.verbs))
        self.introduce(chosen.name)
        return self.run(move_to_topic(queue.verbs.desk, chosen.verbs))

    # ── what topics use ──────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, operation: Call[T] | Command[T] | Flow[T]) -> T:
        """Performs what a verb said: a call, a command or a flow."""
        if isinstance(operation, (Call, Command)):
            return self.runner.perform(operation)
        return self.runner.run(operation)

    def take(self, topics: Sequence[Topic[T]], n: int, wait: Duration | None, ttr: Duration | None) -> list[Job[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        want = taking.want_of(n)
        seconds = seconds_of(wait)
        if seconds:
            return self._wait(topics, want, seconds, ttr)
        for topic in topics:
            taken = self.run(topic.verbs.pop(want, ttr))
            if taken.jobs:
                return _jobs(topic, taken, taken.jobs)
        return []

    def _wait(self, topics: Sequence[Topic[T]], want: int, seconds: float, ttr: Duration | None) -> list[Job[T]]:
        caller = self.wait(want, seconds, [topic.verbs.post(ttr) for topic in topics])
        if caller.found is None:
            return []
        post, taken, jobs = caller.found
        topic = next(topic for topic in topics if topic.verbs.keys == post.keys)
        return _jobs(topic, taken, jobs)

    def wait(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Caller:
        """Queues a caller at its posts, behind those who wait already."""
        key = posts[0][0].due
        groups = {self.runner.group_of(keys.due) for keys, _, _ in posts}
        if len(groups) > 1:
            raise BadInput(SEVERAL_SLOTS)
        place = (os.getpid(), groups.pop())
        waiter = self._waiters.get(place)
        if waiter is None:
            server, name = self.runner.server_of(key), self._origin.watcher()
            with self._lock:
                waiter = self._waiters.setdefault(place, Waiter(self.runner, server, name))
        return waiter.wait(want, seconds, posts)

    def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, which move while somebody consumes them."""
        if self._mover is None or self._mover[0] != os.getpid():
            with self._lock:
                if self._mover is None or self._mover[0] != os.getpid():
                    self._mover = os.getpid(), Mover(self.runner, self._origin.watcher())
        for keys in queues:
            self._mover[1].keep(keys)
        return self._takers.take(queues, seconds)


def _jobs(topic: Topic[T], taken: Any, raws: Sequence[taking.RawJob]) -> list[Job[T]]:
    desk = topic.verbs.desk
    jobs = [Job(desk.name, desk.bodies, taken.receipt, taken.now, raw) for raw in raws]
    for job in jobs:
        job.belongs_to(topic)
    return jobs
