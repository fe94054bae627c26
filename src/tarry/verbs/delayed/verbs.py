"""The verbs of a delayed queue and of its blocking queue, as handles call them. They return requests and flows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.core.requests import Command, Flow, ScriptCall
from tarry.values.durations import Duration
from tarry.verbs.delayed import elements, offers, poll, stats, transfer
from tarry.verbs.delayed.context import QueueContext

T = TypeVar("T")


class DelayedQueueVerbs(Generic[T]):
    """The verbs of a delayed queue."""

    def __init__(self, context: QueueContext[T]) -> None:
        self.context = context
        self.keys = context.keys

    def offer(self, value: T, delay: Duration) -> ScriptCall[datetime]:
        return offers.offer(self.context, value, delay)

    def offer_many(self, values: Iterable[T], delay: Duration) -> Flow[list[datetime]]:
        return offers.offer_many(self.context, values, delay)

    def poll(self, n: int) -> Flow[list[T]]:
        return poll.poll(self.context, n)

    def pass_on(self, target: str) -> ScriptCall[T | None]:
        return elements.pass_on(self.context, target)

    def remove(self, value: T) -> Flow[bool]:
        return elements.remove(self.context, value)

    def remove_all(self, values: Iterable[T]) -> Flow[bool]:
        return elements.remove_all(self.context, values)

    def retain_all(self, values: Iterable[T]) -> Flow[bool]:
        return elements.retain_all(self.context, values)

    def contains_all(self, values: Iterable[T]) -> Flow[bool]:
        return elements.contains_all(self.context, values)

    def peek(self) -> Flow[T | None]:
        return elements.peek(self.context)

    def page(self, position: int, limit: int = elements.READ_PAGE) -> Flow[tuple[list[T], int]]:
        return elements.page(self.context, position, limit)

    def read_all(self) -> Flow[list[T]]:
        return elements.read_all(self.context)

    def size(self) -> Command[int]:
        return elements.size(self.keys)

    def set_format(self, format: str | None) -> Command[Any]:
        return offers.set_format(self.keys, format)

    def clear(self) -> Command[bool]:
        return elements.clear(self.keys)

    def set_aside_elements(self) -> Command[list[transfer.SetAside]]:
        return transfer.set_aside_elements(self.keys)

    def stats(self) -> ScriptCall[stats.QueueStats]:
        return stats.queue_stats(self.context)


class BlockingQueueVerbs(Generic[T]):
    """The verbs of a blocking queue."""

    def __init__(self, context: QueueContext[T]) -> None:
        self.context = context
        self.keys = context.keys

    def for_queue(self, name: str) -> BlockingQueueVerbs[T]:
        """The verbs of another queue of the same application, with the same codec."""
        return BlockingQueueVerbs(self.context.for_queue(name))

    def put(self, value: T) -> Command[int]:
        return transfer.put_element(self.context, value)

    def poll(self, n: int) -> Flow[list[T]]:
        return poll.poll_ready(self.context, n)

    def read(self, payload: bytes) -> Flow[list[T]]:
        return poll.read(self.context, payload)

    def peek(self) -> Command[T | None]:
        return transfer.peek_ready(self.context)

    def contains(self, value: T) -> Command[bool]:
        return transfer.contains_ready(self.context, value)

    def size(self) -> Command[int]:
        return transfer.size_ready(self.keys)

    def set_aside_elements(self) -> Command[list[transfer.SetAside]]:
        return transfer.set_aside_elements(self.keys)

    def stats(self) -> ScriptCall[stats.QueueStats]:
        return stats.queue_stats(self.context)

    def set_aside(self, undecodable: Iterable[tuple[bytes, str]]) -> ScriptCall[Any]:
        return transfer.set_aside(self.keys, undecodable)
