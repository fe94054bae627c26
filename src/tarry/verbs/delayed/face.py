"""The verbs of a delayed queue and of its destination as a user calls them; nothing here does them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.core.requests import Command, Flow, ScriptCall
from tarry.values.durations import Duration
from tarry.verbs.delayed import finding, moving, offering, taking, telling
from tarry.verbs.delayed.desk import QueueDesk

T = TypeVar("T")


class DelayedVerbs(Generic[T]):
    """What is not due yet."""

    def __init__(self, desk: QueueDesk[T]) -> None:
        self.desk = desk
        self.keys = desk.keys

    def offer(self, value: T, delay: Duration) -> ScriptCall[datetime]:
        return offering.offer(self.desk, value, delay)

    def offer_many(self, values: Iterable[T], delay: Duration) -> Flow[list[datetime]]:
        return offering.offer_many(self.desk, values, delay)

    def poll(self, n: int) -> Flow[list[T]]:
        return taking.poll(self.desk, n)

    def pass_on(self, target: str) -> ScriptCall[T | None]:
        return finding.pass_on(self.desk, target)

    def remove(self, value: T) -> Flow[bool]:
        return finding.remove(self.desk, value)

    def remove_all(self, values: Iterable[T]) -> Flow[bool]:
        return finding.remove_all(self.desk, values)

    def retain_all(self, values: Iterable[T]) -> Flow[bool]:
        return finding.retain_all(self.desk, values)

    def contains_all(self, values: Iterable[T]) -> Flow[bool]:
        return finding.contains_all(self.desk, values)

    def peek(self) -> Flow[T | None]:
        return finding.peek(self.desk)

    def page(self, at: int, most: int = finding.READ_PAGE) -> Flow[tuple[list[T], int]]:
        return finding.page(self.desk, at, most)

    def read_all(self) -> Flow[list[T]]:
        return finding.read_all(self.desk)

    def size(self) -> Command[int]:
        return finding.size(self.keys)

    def set_format(self, format: str | None) -> Command[Any]:
        return offering.set_format(self.keys, format)

    def clear(self) -> Command[bool]:
        return finding.clear(self.keys)

    def poison(self) -> Command[list[moving.SetAside]]:
        return moving.poison(self.keys)

    def stats(self) -> ScriptCall[telling.QueueStats]:
        return telling.stats(self.desk)


class BlockingVerbs(Generic[T]):
    """What may be taken."""

    def __init__(self, desk: QueueDesk[T]) -> None:
        self.desk = desk
        self.keys = desk.keys

    def another(self, name: str) -> BlockingVerbs[T]:
        """Those of another queue of the same application, with the same codec."""
        return BlockingVerbs(self.desk.another(name))

    def put(self, value: T) -> Command[int]:
        return moving.put(self.desk, value)

    def poll(self, n: int) -> Flow[list[T]]:
        return taking.poll_ready(self.desk, n)

    def read(self, payload: bytes) -> Flow[list[T]]:
        return taking.read(self.desk, payload)

    def peek(self) -> Command[T | None]:
        return moving.peek_ready(self.desk)

    def contains(self, value: T) -> Command[bool]:
        return moving.contains_ready(self.desk, value)

    def size(self) -> Command[int]:
        return moving.size_ready(self.keys)

    def poison(self) -> Command[list[moving.SetAside]]:
        return moving.poison(self.keys)

    def stats(self) -> ScriptCall[telling.QueueStats]:
        return telling.stats(self.desk)

    def aside(self, unread: Iterable[tuple[bytes, str]]) -> ScriptCall[Any]:
        return moving.aside(self.keys, unread)
