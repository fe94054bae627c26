"""Queues that are shared with Java applications on Redisson, awaited: the names of their verbs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from tarry.clients.origin import seconds_of
from tarry.clients.queueing import desk_of, failure
from tarry.errors import TarryError
from tarry.idea.patience import LONGEST
from tarry.verbs.delayed.desk import Taken
from tarry.verbs.delayed.face import BlockingVerbs, DelayedVerbs
from tarry.verbs.delayed.moving import SetAside
from tarry.words.durations import Duration
from tarry.words.keys import QueueKeys

if TYPE_CHECKING:
    from tarry.clients.aio.engine import Engine

T = TypeVar("T")
logger = logging.getLogger("tarry")
LISTENING_S = 1.0


class AsyncDelayedQueue(Generic[T]):
    """Redisson's ``RDelayedQueue``: elements that move to the blocking queue of the same name when they are due.

    Made by ``client.delayed_queue(name)``. A handle: making it, closing it and losing it changes nothing on the server.
    """

    def __init__(self, engine: Engine, verbs: DelayedVerbs[T]) -> None:
        self.engine = engine
        self.verbs = verbs
        self.name = verbs.desk.name

    def __repr__(self) -> str:
        return f"<AsyncDelayedQueue {self.name}>"

    async def __aenter__(self) -> AsyncDelayedQueue[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.destroy()

    async def __aiter__(self) -> AsyncIterator[T]:
        values, at = await self.engine.run(self.verbs.page(0))
        for value in values:
            yield value
        while at:
            values, at = await self.engine.run(self.verbs.page(at))
            for value in values:
                yield value

    async def offer(self, value: T, delay: Duration) -> datetime:
        """Puts an element in, to be moved after ``delay``. Answers when it is due, by the server's clock.

        Raises ``BadInput`` before anything is written, ``Unavailable`` when the server does not answer. Offered again
        after a lost answer it is there once, unless it became due in between.
        """
        return await self.engine.run(self.verbs.offer(value, delay))

    async def offer_many(self, values: Iterable[T], delay: Duration) -> list[datetime]:
        """Offers many with one delay, in one round trip for each 1,000 elements or 1 MB."""
        return await self.engine.run(self.verbs.offer_many(values, delay))

    @overload
    async def poll(self) -> T | None: ...
    @overload
    async def poll(self, n: int) -> list[T]: ...
    async def poll(self, n: int | None = None) -> T | list[T] | None:
        """Ignores the delay: takes out what was offered first, whenever it is due, as Redisson does.

        Without ``n`` one element or ``None``, with it a list of up to ``n`` (at most 1000). For what is due, use the
        blocking queue.
        """
        values = await self._values(1 if n is None else n)
        return values if n is not None else values[0] if values else None

    async def poll_last_and_offer_first_to(self, queue: str) -> T | None:
        """Takes out what was offered last, whenever it is due, and puts it first into the list ``queue``."""
        return await self.engine.run(self.verbs.pass_on(queue))

    async def remove(self, value: T) -> bool:
        """Takes out the first element that is equal, as bytes. Answers whether there was one."""
        return await self.engine.run(self.verbs.remove(value))

    async def remove_all(self, values: Iterable[T]) -> bool:
        """Takes out every element that is equal to one of these. Answers whether there was one."""
        return await self.engine.run(self.verbs.remove_all(values))

    async def retain_all(self, values: Iterable[T]) -> bool:
        """Takes out every element that is equal to none of these; none of them will be delivered (Redisson's are).

        Answers whether there was one.
        """
        return await self.engine.run(self.verbs.retain_all(values))

    async def contains(self, value: T) -> bool:
        """Whether an element is equal, as bytes."""
        return await self.engine.run(self.verbs.contains_all([value]))

    async def contains_all(self, values: Iterable[T]) -> bool:
        """Whether for each of these an element is equal."""
        return await self.engine.run(self.verbs.contains_all(values))

    async def peek(self) -> T | None:
        """The element that was offered first; it stays."""
        return await self.engine.run(self.verbs.peek())

    async def size(self) -> int:
        """How many elements are not moved yet."""
        return await self.engine.run(self.verbs.size())

    async def read_all(self) -> list[T]:
        """All elements in the order of offers; ``Opaque`` where the codec cannot read one."""
        return await self.engine.run(self.verbs.read_all())

    async def clear(self) -> bool:
        """Takes out everything. Answers whether there was something. What was moved already stays."""
        return await self.engine.run(self.verbs.clear())

    async def poison(self) -> list[SetAside]:
        """What could not be read and was set aside, with the reasons."""
        return await self.engine.run(self.verbs.poison())

    async def destroy(self) -> None:
        """Nothing: a handle holds nothing. What was offered is delivered as long as anybody consumes the queue."""

    async def _values(self, n: int) -> list[T]:
        while True:
            taken = await self.engine.run(self.verbs.poll(n))
            if not taken.unread:
                return taken.values
            await self.engine.run(self.verbs.aside(taken.unread))
            if taken.values:
                return taken.values


class AsyncBlockingQueue(Generic[T]):
    """Redisson's ``RBlockingQueue``: a list, and where a delayed queue of the same name moves what is due.

    Made by ``client.blocking_queue(name)``. Who waits here keeps the delayed queue moving. Nothing is acknowledged: an
    element belongs to whoever took it. For work that must survive its worker, use a topic.
    """

    def __init__(self, engine: Engine, verbs: BlockingVerbs[T]) -> None:
        self.engine = engine
        self.verbs = verbs
        self.name = verbs.desk.name

    def __repr__(self) -> str:
        return f"<AsyncBlockingQueue {self.name}>"

    async def put(self, value: T) -> None:
        """Puts an element at the end, to be taken at once."""
        await self.engine.run(self.verbs.put(value))

    async def offer(self, value: T) -> bool:
        """The same as ``put``; the list is never full."""
        await self.put(value)
        return True

    async def take(self) -> T:
        """The first element, waiting for it as long as it takes. Interrupted or cancelled, it loses none."""
        while True:
            values = await self._wait([], float("inf"))
            if values:
                return values[0]

    @overload
    async def poll(self, *, wait: Duration | None = 0) -> T | None: ...
    @overload
    async def poll(self, n: int, *, wait: Duration | None = 0) -> list[T]: ...
    async def poll(self, n: int | None = None, *, wait: Duration | None = 0) -> T | list[T] | None:
        """The first element, or ``None`` when none comes within ``wait``; with ``n`` (at most 1000) a list of up to ``n``.

        ``wait=None`` waits for ever. What is due is moved first.
        """
        seconds = seconds_of(wait)
        values = await self._values(1 if n is None else n)
        if not values and seconds:
            values = await self._wait([], seconds)
        return values if n is not None else values[0] if values else None

    async def poll_from_any(self, *queues: str, wait: Duration | None = 0) -> T | None:
        """The first element of this queue, or of the first of the others that has one, read by this queue's codec."""
        seconds, codec = seconds_of(wait), self.verbs.desk.codec
        desks = [desk_of(self.engine.origin, name, codec, None) for name in queues]
        others = [AsyncBlockingQueue(self.engine, BlockingVerbs(desk)) for desk in desks]
        values: list[T] = []
        for queue in (self, *others):
            values = values or await queue._values(1)
        if not values and seconds:
            values = await self._wait([queue.verbs.keys for queue in others], seconds)
        return values[0] if values else None

    async def drain_to(self, target: list[T], n: int | None = None) -> int:
        """Appends what is there, or ``n`` elements at most, to a list. Answers how many."""
        done = 0
        while n is None or done < n:
            values = await self._values(1000 if n is None else min(n - done, 1000))
            if not values:
                break
            target += values
            done += len(values)
        return done

    async def peek(self) -> T | None:
        """The first element; it stays."""
        return await self.engine.run(self.verbs.peek())

    async def contains(self, value: T) -> bool:
        """Whether an element is equal, as bytes."""
        return await self.engine.run(self.verbs.contains(value))

    async def size(self) -> int:
        """How many elements may be taken."""
        return await self.engine.run(self.verbs.size())

    async def poison(self) -> list[SetAside]:
        """What could not be read or handled and was set aside, with the reasons."""
        return await self.engine.run(self.verbs.poison())

    def subscribe(self, handler: Callable[[T], Awaitable[Any]]) -> AsyncSubscription:
        """Calls a handler with each element, one after the other, until the subscription is stopped.

        An element whose handler fails is set aside with the error (see ``poison``), and the next one comes.
        """
        return AsyncSubscription(self, handler)

    async def _values(self, n: int) -> list[T]:
        while True:
            taken = await self.engine.run(self.verbs.poll(n))
            if not await self._aside(taken) or taken.values:
                return taken.values

    async def _wait(self, others: list[QueueKeys], seconds: float) -> list[T]:
        until = asyncio.get_running_loop().time() + seconds
        while True:
            pair = await self.engine.take_payload([self.verbs.keys, *others], seconds)
            if pair is None:
                return []
            taken = self.verbs.desk.taken([pair[1]])
            if not await self._aside(taken):
                return taken.values
            seconds = max(until - asyncio.get_running_loop().time(), 0)

    async def _aside(self, taken: Taken) -> bool:
        if taken.unread:
            await self.engine.run(self.verbs.aside(taken.unread))
        return bool(taken.unread)


class AsyncSubscription:
    """A handler that is called with each element of a queue. A context manager; ``stop`` ends it."""

    def __init__(self, queue: AsyncBlockingQueue[Any], handler: Callable[[Any], Awaitable[Any]]) -> None:
        self._queue = queue
        self._handler = handler
        self._handling = False
        self._stopped = False
        self._task = asyncio.ensure_future(self._run())

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Ends it, when the handler that runs is done."""
        self._stopped = True
        if not self._handling:
            self._task.cancel()
        if self._task is not asyncio.current_task():
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        while not self._stopped:
            try:
                value = await self._queue.poll(1, wait=LISTENING_S)
            except Exception as fault:  # noqa: BLE001  # whatever it is, the subscription goes on
                logger.warning("The queue %s cannot be read, trying again: %s", self._queue.name, fault)
                await asyncio.sleep(LONGEST)
                continue
            self._handling = True
            for element in value:
                await self._handle(element)
            self._handling = False

    async def _handle(self, element: Any) -> None:
        try:
            await self._handler(element)
        except Exception as fault:
            logger.exception("The handler of the queue %s failed; its element is set aside.", self._queue.name)
            payload = self._queue.verbs.desk.encode(element)
            try:
                await self._queue.engine.run(self._queue.verbs.aside([(payload, failure(fault))]))
            except TarryError:
                logger.exception("It could not be set aside: %r", element)
