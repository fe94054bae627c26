# Made from src/tarry/clients/redisson/awaited/blocking_queue.py by tools/blocking.py: change that file, then `make blocking`.
"""A blocking queue that is shared with Java applications on Redisson, blocking: waiting for what is due, and handlers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, TypeVar

from tarry.clients.blocking.concurrency import LONGEST_WAIT_S, Background, CollectionOperators, Event
from tarry.clients.config import wait_seconds
from tarry.clients.handle_verbs import BlockingQueueHandleVerbs
from tarry.clients.redisson.queue_waits import Taken, failure_reason
from tarry.connections.faults import CONNECTION_ERRORS
from tarry.core.patience import LONGEST_DELAY_S
from tarry.errors import BadInput, TarryError
from tarry.values.durations import Duration
from tarry.values.functions import refuse_generator, refuse_unfinished
from tarry.values.keys import QueueKeys
from tarry.values.other_words import MISSING, OF_POLL, OF_POLL_MANY, hide_others, refuse_others
from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.verbs.redisson.delayed.transfer import PoisonElement

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine

T = TypeVar("T")
logger = logging.getLogger("tarry")
WORK = "tarry-queue"


class BlockingQueue(CollectionOperators[T]):
    """Redisson's ``RBlockingQueue``: a list, to which a delayed queue of the same name moves its due elements.

    Made by ``client.blocking_queue(name)``. While a consumer waits here, it also moves the due elements. Nothing is acknowledged: a
    consumer that dies loses the element that it took. For work that must survive its worker, use a topic.
    """

    def __init__(self, engine: HandleEngine, verbs: BlockingQueueHandleVerbs[T]) -> None:
        self.engine = engine
        self.verbs = verbs
        self.name: str = verbs.context.name
        """The queue's name, as in Java."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self.engine.config.address.redacted}>"

    def put(self, value: T) -> None:
        """Puts an element at the end of the list. It can be taken at once."""
        self.engine.run(self.verbs.put(value))

    def offer(self, value: T) -> bool:
        """The same as ``put``, because the list is never full."""
        self.put(value)
        return True

    def take(self) -> T:
        """Removes and returns the first element; waits for one as long as necessary. An interrupted or cancelled call loses no element."""
        while True:
            taken = take_next(self, float("inf"))
            if taken is not None:
                return taken.value

    @hide_others
    def poll(self, *others: Never, wait: Duration | None = 0, **words: Never) -> T | None:
        """Removes and returns the first element; ``None`` when none comes within ``wait``.

        First moves the due elements of the delayed queue. ``wait=None`` waits forever.
        """
        if others or words:
            refuse_others(BlockingQueue.poll, self, OF_POLL, others, words)
        values = self.poll_many(1, wait=wait)
        return values[0] if values else None

    @hide_others
    def poll_many(self, limit: int, *others: Never, wait: Duration | None = 0, **words: Never) -> list[T]:
        """Removes and returns up to ``limit`` elements (at most 1000), as soon as there is one. The list is empty if none
        comes within ``wait``."""
        if others or words or limit is MISSING:
            refuse_others(BlockingQueue.poll_many, self, OF_POLL_MANY, others, words)
        seconds = wait_seconds(wait)
        values = self.engine.run(self.verbs.poll(limit))
        if not values and seconds and (taken := take_next(self, seconds)) is not None:
            values = [taken.value]
        return values

    def poll_from_any(self, *queues: str, wait: Duration | None = 0) -> T | None:
        """Removes and returns the first element of this queue or, if this queue is empty, of the first of the other queues that has one.
        This queue's codec decodes it."""
        found = self.poll_from_any_with_name(*queues, wait=wait)
        return None if found is None else found[1]

    def poll_from_any_with_name(self, *queues: str, wait: Duration | None = 0) -> tuple[str, T] | None:
        """Like ``poll_from_any``, but returns the name of the queue and the element."""
        seconds = wait_seconds(wait)
        others = [BlockingQueue(self.engine, self.verbs.for_queue(name)) for name in queues]
        for queue in (self, *others):
            if values := self.engine.run(queue.verbs.poll(1)):
                return queue.name, values[0]
        if not seconds or (taken := take_next(self, seconds, *[queue.verbs.keys for queue in others])) is None:
            return None
        return next(queue.name for queue in (self, *others) if queue.verbs.keys.ready == taken.ready), taken.value

    def drain_to(self, target: list[T], limit: int | None = None) -> int:
        """Removes all elements, or at most ``limit``, and appends them to a list of yours. Returns how many."""
        if not isinstance(target, list):
            raise BadInput(f"target: a {type(target).__name__}; it is a list, to which the elements are appended.")
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise BadInput(f"limit: {limit!r}; it is a whole number, 0 or more, or None for all elements.")
        done = 0
        while limit is None or done < limit:
            values = self.engine.run(self.verbs.poll(1000 if limit is None else min(limit - done, 1000)))
            if not values:
                break
            target += values
            done += len(values)
        return done

    def peek(self) -> T | None:
        """The first element, which stays in the queue."""
        return self.engine.run(self.verbs.peek())

    def contains(self, value: T) -> bool:
        """Whether an element is equal to the value, compared as bytes."""
        return self.engine.run(self.verbs.contains(value))

    def size(self) -> int:
        """The number of elements that can be taken now."""
        return self.engine.run(self.verbs.size())

    def stats(self) -> QueueStats:
        """How many elements are waiting, overdue, ready and set aside, and how late the first overdue one is."""
        return self.engine.run_view(self.verbs.stats())

    def poison(self) -> list[PoisonElement]:
        """The elements that were set aside because they could not be read or handled, with the reasons."""
        return self.engine.run(self.verbs.poison_elements())

    def subscribe(self, handler: Callable[[T], Any]) -> Subscription:
        """Calls a handler with each element, one after the other, until the subscription is stopped.

        If the handler fails, the element is set aside with the error (see ``poison``), and the handler is called with the next
        element. Raises ``BadInput`` if the handler is a generator function.
        """
        refuse_generator(handler, "handler")
        self.verbs.context.require_codec()
        return Subscription(self, handler)


def take_next(queue: BlockingQueue[T], seconds: float, *others: QueueKeys) -> Taken[T] | None:
    """The first payload of a queue, or of others, that comes in time, and its value."""
    queue.verbs.context.require_codec()
    until = time.monotonic() + seconds
    while True:
        pair = queue.engine.take_payload([queue.verbs.keys, *others], seconds)
        if pair is None:
            return None
        for value in queue.engine.run(queue.verbs.read(pair[1])):
            return Taken(pair[0], pair[1], value)
        seconds = max(until - time.monotonic(), 0)


class Subscription:
    """A handler that is called with each element of a queue. A context manager; ``stop`` ends it."""

    def __init__(self, queue: BlockingQueue[Any], handler: Callable[[Any], Any]) -> None:
        self._queue = queue
        self._handler = handler
        self._in_handler = False
        self._stopped = Event()
        self._background = Background(WORK, self._run)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} to {self._queue.name!r}>"

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the subscription when the handler has returned."""
        self._stopped.set()
        if not self._in_handler:
            self._background.interrupt()
        self._background.join(float("inf"))

    def _run(self) -> None:
        self._in_handler = False
        while not self._stopped.is_set():
            try:
                taken = take_next(self._queue, LONGEST_WAIT_S)
            except (TarryError, *CONNECTION_ERRORS) as fault:
                logger.warning("The queue %s cannot be read, trying again: %s", self._queue.name, fault)
                self._stopped.wait(LONGEST_DELAY_S)
                continue
            if taken is not None:
                self._in_handler = True
                self._handle(taken.payload, taken.value)
                self._in_handler = False

    def _handle(self, payload: bytes, value: Any) -> None:
        try:
            refuse_unfinished(self._handler(value))
        except Exception as fault:
            logger.exception("The handler of the queue %s failed; its element is set aside.", self._queue.name)
            try:
                self._queue.engine.run(self._queue.verbs.add_poison([(payload, failure_reason(fault))]))
            except TarryError:
                logger.exception("It could not be set aside: %r", payload)
