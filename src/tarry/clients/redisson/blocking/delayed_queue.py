# Made from src/tarry/clients/redisson/awaited/delayed_queue.py by tools/blocking.py: change that file, then `make blocking`.
"""A delayed queue that is shared with Java applications on Redisson, blocking: the names of its verbs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Never, TypeVar

from tarry.clients.blocking.concurrency import CollectionOperators
from tarry.clients.handle_verbs import DelayedQueueHandleVerbs
from tarry.values.durations import Duration
from tarry.values.other_words import MISSING, OF_POLL_AT_ONCE, OF_POLL_MANY_AT_ONCE, hide_others, refuse_others
from tarry.verbs.redisson.delayed.stats import QueueStats
from tarry.verbs.redisson.delayed.transfer import PoisonElement

if TYPE_CHECKING:
    from tarry.clients.blocking.interfaces import HandleEngine

T = TypeVar("T")


class DelayedQueue(CollectionOperators[T]):
    """Redisson's ``RDelayedQueue``: elements that move to the blocking queue of the same name when they are due.

    Made by ``client.delayed_queue(name)``. You may make, close or drop such objects at any time: nothing changes on the
    server.
    """

    def __init__(self, engine: HandleEngine, verbs: DelayedQueueHandleVerbs[T]) -> None:
        self.engine = engine
        self.verbs = verbs
        self.name: str = verbs.context.name
        """The queue's name, as in Java."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {self.engine.config.address.redacted}>"

    def __enter__(self) -> DelayedQueue[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.destroy()

    def __iter__(self) -> Iterator[T]:
        values, position = self.engine.run(self.verbs.page(0))
        for value in values:
            yield value
        while position:
            values, position = self.engine.run(self.verbs.page(position))
            for value in values:
                yield value

    def offer(self, value: T, delay: Duration) -> datetime:
        """Adds an element, which is moved to the blocking queue after ``delay``. Returns its due time, by the server's clock.

        If the answer to an offer is lost, the offer is repeated. The element is then delivered only once, unless it became due
        before the repetition. Raises ``BadInput`` before anything is written, ``Unavailable`` if the server does not answer.
        """
        return self.engine.run(self.verbs.offer(value, delay))

    def offer_many(self, values: Iterable[T], delay: Duration) -> list[datetime]:
        """Offers many elements with the same delay, in one round trip for each 1,000 elements or 1 MB."""
        return self.engine.run(self.verbs.offer_many(values, delay))

    @hide_others
    def poll(self, *others: Never, **words: Never) -> T | None:
        """Removes and returns the element that was offered first, even if it is not due yet, as Redisson does; ``None`` if
        there is none.

        To get due elements, use the blocking queue.
        """
        if others or words:
            refuse_others(DelayedQueue.poll, self, OF_POLL_AT_ONCE, others, words)
        values = self.poll_many(1)
        return values[0] if values else None

    @hide_others
    def poll_many(self, limit: int, *others: Never, **words: Never) -> list[T]:
        """Like ``poll``, for up to ``limit`` elements (at most 1000), in the order of offers."""
        if others or words or limit is MISSING:
            refuse_others(DelayedQueue.poll_many, self, OF_POLL_MANY_AT_ONCE, others, words)
        return self.engine.run(self.verbs.poll(limit))

    def poll_last_and_offer_first_to(self, queue: str) -> T | None:
        """Removes the element that was offered last, even if it is not due yet, and puts it at the head of the list
        ``queue``."""
        return self.engine.run(self.verbs.pass_on(queue))

    def remove(self, value: T) -> bool:
        """Removes the first element that is equal to the value, compared as bytes. Returns whether there was one."""
        return self.engine.run(self.verbs.remove(value))

    def remove_all(self, values: Iterable[T]) -> bool:
        """Removes every element that is equal to one of these values. Returns whether an element was removed."""
        return self.engine.run(self.verbs.remove_all(values))

    def retain_all(self, values: Iterable[T]) -> bool:
        """Removes every element that is equal to none of these values. Redisson also delivers the elements that it
        removes; this method does not.

        Returns whether an element was removed.
        """
        return self.engine.run(self.verbs.retain_all(values))

    def contains(self, value: T) -> bool:
        """Whether an element is equal to the value, compared as bytes. For this, a dict or set of yours is written in the order of
        Java's ``HashMap`` or ``HashSet``. One that was read from the queue keeps the order in which it was read."""
        return self.engine.run(self.verbs.contains_all([value]))

    def contains_all(self, values: Iterable[T]) -> bool:
        """Whether the queue has an equal element for each of these values."""
        return self.engine.run(self.verbs.contains_all(values))

    def peek(self) -> T | None:
        """The element that was offered first, which stays in the queue."""
        return self.engine.run(self.verbs.peek())

    def size(self) -> int:
        """The number of elements that are not moved to the blocking queue yet."""
        return self.engine.run(self.verbs.size())

    def read_all(self) -> list[T]:
        """All elements in the order of offers. Elements that the codec cannot read are ``Opaque``."""
        return self.engine.run(self.verbs.read_all())

    def set_format(self, format: str | None) -> None:
        """Sets the format of the queue, after an upgrade of Redisson in Java or because the format is wrong. ``format`` is a version of Redisson, or
        one of the formats of ``client.delayed_queue``. With ``None`` the elements in the queue determine the format again.

        From now on elements are offered in this format, even if the queue has elements of another one. Those stay as they
        are, because tarry moves elements of all formats.
        """
        self.engine.run(self.verbs.set_format(format))

    def clear(self) -> bool:
        """Removes all elements that are not moved to the blocking queue yet. Returns whether there were any."""
        return self.engine.run(self.verbs.clear())

    def poison(self) -> list[PoisonElement]:
        """The elements that were set aside because they could not be read, with the reasons."""
        return self.engine.run(self.verbs.poison_elements())

    def stats(self) -> QueueStats:
        """How many elements are waiting, overdue, ready and set aside, and how late the first overdue one is."""
        return self.engine.run_view(self.verbs.stats())

    def destroy(self) -> None:
        """Does nothing, because this object holds nothing. Offered elements are delivered as long as there is a consumer."""
