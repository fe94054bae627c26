"""``tarry.AsyncClient``: delayed jobs, awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar, overload

from tarry.clients.aio.mover import Mover
from tarry.clients.aio.queues import AsyncBlockingQueue, AsyncDelayedQueue
from tarry.clients.aio.runner import Runner
from tarry.clients.aio.takers import Pair, Takers
from tarry.clients.aio.topic import AsyncJob, AsyncTopic
from tarry.clients.aio.waiter import Waiter
from tarry.clients.migrating import MovedOver, move_to_topic, rehearse
from tarry.clients.origin import MAX_BODY, PATIENCE, Origin, seconds_of
from tarry.clients.queueing import desk_of
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


class AsyncClient:
    """The same as ``Client``, awaited: calls made at the same time leave in one pipeline, adds of a topic in one script.

    Cancelling or timing out any awaited verb loses nothing: a pop that was sent is read to its end, and what it handed
    out is given back, its attempt not counted.
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
        self._introducing: dict[tuple[asyncio.AbstractEventLoop, str], asyncio.Task[None]] = {}
        self._waiters: dict[tuple[Any, int, int], Waiter] = {}
        self._consuming: dict[tuple[Any, int], tuple[Mover, Takers]] = {}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Waits for what is on its way, then closes the connections. The next verb would open them again."""
        loop = asyncio.get_running_loop()
        for waiter in [waiter for place, waiter in self._waiters.items() if place[0] is loop]:
            await waiter.close()
        self._waiters = {}
        if (consuming := self._consuming.pop((loop, os.getpid()), None)) is not None:
            await consuming[0].close()
            await consuming[1].close()
        await self.runner.close()

    # ── topics ───────────────────────────────────────────────────────────────────────────────────────────────────────

    @overload
    def topic(self, name: str, *, type: type[T] | Codec[T]) -> AsyncTopic[T]: ...
    @overload
    def topic(self, name: str, *, type: None = None) -> AsyncTopic[Any]: ...
    def topic(self, name: str, *, type: type[Any] | Codec[Any] | None = None) -> AsyncTopic[Any]:
        """A topic by its name. ``type`` is what its bodies are: nothing (JSON, and bytes as they are), ``bytes``, a
        msgspec Struct or dataclass (JSON, validated when read), or a codec of your own."""
        return AsyncTopic(self, self._origin.verbs(name, type))

    async def topics(self) -> list[str]:
        """The topics that have been added to, by name. A hint: a purged one stays in it."""
        return await self.run(registry.known(self.namespace))

    async def introduce(self, topic: str) -> None:
        """Writes a topic into the list of known ones, once a process."""
        if topic in self._introduced:
            return
        await self.runner.ready()
        place = (asyncio.get_running_loop(), topic)
        task = self._introducing.get(place)
        if task is None or task.done():
            request = registry.introduce(self.namespace, topic)
            task = self._introducing[place] = asyncio.ensure_future(self.runner.perform(request))
        await asyncio.shield(task)  # all who add at once wait for the same, and so keep their order
        self._introduced.add(topic)
        self._introducing.pop(place, None)

    async def pop(
        self, *topics: AsyncTopic[Any] | str, wait: Duration | None = 0, ttr: Duration | None = None
    ) -> AsyncJob[Any] | None:
        """A job of the first topic, in the order given, that has one ready; ``None`` when none is due within ``wait``."""
        chosen = [self.topic(topic) if isinstance(topic, str) else topic for topic in topics]
        jobs = await self.take(chosen, 1, wait, ttr)
        return jobs[0] if jobs else None

    # ── queues shared with Java ──────────────────────────────────────────────────────────────────────────────────────

    def delayed_queue(
        self, name: str, *, codec: str | Codec[Any] = "kryo5", format: str | None = None
    ) -> AsyncDelayedQueue[Any]:
        """The delayed queue that Redisson calls ``getDelayedQueue(getBlockingQueue(name))``.

        ``codec`` is the one of the Java application: ``"kryo5"`` (Redisson's default since 3.19), ``"river"``, ``"json"``,
        ``"string"``, ``"long"``, ``"bytes"``, or one of your own. ``format`` is what is written: ``"Bc0Lc0"`` (Redisson from
        3.21.1), ``"dLc0"`` (older ones), or ``None`` to follow the queue. Both are read.
        """
        return AsyncDelayedQueue(self, DelayedVerbs(desk_of(self._origin, name, codec, format)))

    def blocking_queue(self, name: str, *, codec: str | Codec[Any] = "kryo5") -> AsyncBlockingQueue[Any]:
        """The queue that Redisson calls ``getBlockingQueue(name)``, where a delayed queue delivers."""
        return AsyncBlockingQueue(self, BlockingVerbs(desk_of(self._origin, name, codec, None)))

    async def move_to_topic(
        self, queue: AsyncDelayedQueue[Any], topic: AsyncTopic[Any] | str, *, dry_run: bool = False
    ) -> MovedOver:
        """Moves what is not due yet out of a queue into a topic, with its due times; ``dry_run`` only says what would be.

        Safe to break off and to call again, while others offer and take. Each job has an id made of its element.
        """
        chosen = self.topic(topic) if isinstance(topic, str) else topic
        if dry_run:
            return await self.run(rehearse(queue.verbs.desk, chosen.verbs))
        await self.introduce(chosen.name)
        return await self.run(move_to_topic(queue.verbs.desk, chosen.verbs))

    # ── what topics use ──────────────────────────────────────────────────────────────────────────────────────────────

    async def run(self, operation: Call[T] | Command[T] | Flow[T]) -> T:
        """Performs what a verb said: a call, a command or a flow."""
        if isinstance(operation, (Call, Command)):
            return await self.runner.perform(operation)
        return await self.runner.run(operation)

    async def take(
        self, topics: Sequence[AsyncTopic[T]], n: int, wait: Duration | None, ttr: Duration | None
    ) -> list[AsyncJob[T]]:
        """Up to ``n`` jobs of the first topic that has any, waiting for them."""
        if not topics:
            raise BadInput("pop: name a topic at least.")
        want = taking.want_of(n)
        seconds = seconds_of(wait)
        if seconds:
            return await self._wait(topics, want, seconds, ttr)
        for topic in topics:
            taken = await self.run(topic.verbs.pop(want, ttr))
            if taken.jobs:
                return _jobs(topic, taken, taken.jobs)
        return []

    async def _wait(
        self, topics: Sequence[AsyncTopic[T]], want: int, seconds: float, ttr: Duration | None
    ) -> list[AsyncJob[T]]:
        caller = await self.wait(want, seconds, [topic.verbs.post(ttr) for topic in topics])
        if caller.found is None:
            return []
        post, taken, jobs = caller.found
        topic = next(topic for topic in topics if topic.verbs.keys == post.keys)
        return _jobs(topic, taken, jobs)

    async def wait(self, want: int, seconds: float, posts: Sequence[PostAddress]) -> Caller:
        """Queues a caller at its posts, behind those who wait already."""
        key = posts[0][0].due
        server = await self.runner.server_of(key)
        groups = {self.runner.group_of(keys.due) for keys, _, _ in posts}
        if len(groups) > 1:
            raise BadInput(SEVERAL_SLOTS)
        place = (asyncio.get_running_loop(), os.getpid(), groups.pop())
        waiter = self._waiters.get(place)
        if waiter is None:
            self._waiters = {where: one for where, one in self._waiters.items() if not where[0].is_closed()}
            waiter = self._waiters[place] = Waiter(self.runner, server, self._origin.watcher())
        return await waiter.wait(want, seconds, posts)

    async def take_payload(self, queues: Sequence[QueueKeys], seconds: float) -> Pair | None:
        """The first payload of any of the queues, which move while somebody consumes them."""
        await self.runner.ready()
        place = (asyncio.get_running_loop(), os.getpid())
        if place not in self._consuming:
            self._consuming[place] = Mover(self.runner, self._origin.watcher()), Takers(self.runner)
        mover, takers = self._consuming[place]
        for keys in queues:
            mover.keep(keys)
        return await takers.take(queues, seconds)


def _jobs(topic: AsyncTopic[T], taken: Any, raws: Sequence[taking.RawJob]) -> list[AsyncJob[T]]:
    desk = topic.verbs.desk
    jobs = [AsyncJob(desk.name, desk.bodies, taken.receipt, taken.now, raw) for raw in raws]
    for job in jobs:
        job.belongs_to(topic)
    return jobs
