"""The context of a guarded queue's verbs, and the layouts of its items.

layout      member                         score          equal payloads
"tarry"     mark (8 bytes) flag payload    server µs      are different items
"java"   JSON text                      server ms      are one item; the last push decides when
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from tarry.core.requests import Command
from tarry.errors import BadInput, BodyError, FallenBehind
from tarry.values import names
from tarry.values.durations import MILLISECOND, Duration, as_datetime, as_text, as_timedelta, duration_us
from tarry.values.keys import JAVA_PREFIX, SHARED, GuardedKeys, guarded_keys, java_keys
from tarry.verbs.codecs import JSON, BodyCodec
from tarry.verbs.redisson.names import fits_cluster, prefix_name

T = TypeVar("T")
MARK_BYTES = 8
MOST = 1000
LAYOUTS = ("tarry", "java")


@dataclass(frozen=True, slots=True)
class GuardedItem(Generic[T]):
    """An item that was polled from a guarded queue."""

    value: T
    """The value that was pushed; as bytes if it cannot be decoded."""
    due: datetime
    """When the item was due, by the server's clock."""
    lateness: timedelta
    """How long after its due time the item was polled."""


@dataclass(frozen=True, slots=True)
class GuardedStats:
    """The numbers of a guarded queue at one moment."""

    size: int
    """How many items the queue has, due or not."""
    overdue: int
    """How many items are due."""
    next_due: datetime | None
    """The due time of the first item, which may be past; ``None`` if the queue is empty."""
    lateness: timedelta
    """How late the first item is; zero if none is due."""


@dataclass(frozen=True, slots=True)
class PollReply:
    """The result of one poll."""

    members: list[tuple[bytes, int]]
    """The removed members, with their due times in units."""
    now: int
    next_due: int | None
    """When the next item is due, in server µs."""


class PolledItems(list[GuardedItem[T]]):
    """The items of a poll, which a program may put back (``GuardedContext.give_back``)."""

    def __init__(self, items: Iterable[GuardedItem[T]], reply: PollReply) -> None:
        super().__init__(items)
        self.reply = reply


@dataclass(frozen=True, slots=True)
class GuardedContext(Generic[T]):
    """The context of one guarded queue's verbs: its name, keys, codec, layout. No connection."""

    name: str
    keys: GuardedKeys
    codec: BodyCodec[T]
    random: Callable[[int], bytes]
    is_java: bool
    max_lateness_us: int | None
    """The greatest lateness of the first item."""

    @property
    def unit(self) -> int:
        return MILLISECOND if self.is_java else 1

    def members(self, items: Mapping[T, Duration] | Iterable[tuple[T, Duration]]) -> list[tuple[bytes, int]]:
        """Members and delays in µs; all are encoded before anything is written."""
        return [(self._member(raw, flag), delay) for raw, flag, delay in self.encoded(items)]

    def encoded(self, items: Mapping[T, Duration] | Iterable[tuple[T, Duration]]) -> list[tuple[bytes, int, int]]:
        """Bodies, their flags and delays in µs. Raises ``BadInput``."""
        return [self._encoded(pair) for pair in (items.items() if isinstance(items, Mapping) else items)]

    def _encoded(self, pair: Any) -> tuple[bytes, int, int]:
        try:
            value, delay = pair
        except (TypeError, ValueError):
            raise BadInput(f"push: {pair!r} is not a pair of a value and its delay.") from None
        if value is None or delay is None:
            raise BadInput(f"push: {'the value' if value is None else 'the delay'} is None; leave the item out.")
        raw, flag = self.codec.encode(value)
        if self.is_java and flag != JSON:
            raise BadInput('push: layout="java" stores JSON, not bytes.')
        return raw, flag, duration_us(delay)

    def _member(self, raw: bytes, flag: int) -> bytes:
        return raw if self.is_java else self.random(MARK_BYTES) + bytes([flag]) + raw

    def score(self, now: int, delay: int, index: int, count: int) -> int:
        """When an item is due, in units; lua/guarded/push.lua has the same."""
        if not delay:
            return (now if self.is_java else now - count + index) // self.unit
        return -(-(now + delay + (0 if self.is_java else index)) // self.unit)

    def item(self, member: bytes, score: int, now: int) -> GuardedItem[T]:
        due = score * self.unit
        value = self._value(member)
        return GuardedItem(value, as_datetime(due), as_timedelta(max(now - due, 0)))

    def _value(self, member: bytes) -> Any:
        try:
            if self.is_java:
                return self.codec.decode(member, JSON)
            return self.codec.decode(member[MARK_BYTES + 1 :], member[MARK_BYTES])
        except (BodyError, IndexError):
            return member  # it is out of the queue already: returned as bytes rather than lost

    def items_of(self, reply: PollReply) -> PolledItems[T]:
        """The items of a reply."""
        return PolledItems([self.item(member, score, reply.now) for member, score in reply.members], reply)

    def give_back(self, items: Sequence[GuardedItem[T]]) -> Command[int]:
        """Puts polled items back with their due times, when they are no longer wanted."""
        assert isinstance(items, PolledItems), "a poll returned them"
        args = [arg for member, score in items.reply.members for arg in (b"%d" % score, member)]
        return Command((b"ZADD", self.keys.items, *args), int)

    def without_max_lateness(self) -> GuardedContext[T]:
        return replace(self, max_lateness_us=None)

    def refuse_late(self, late: int) -> None:
        if self.max_lateness_us is not None and late > self.max_lateness_us:
            raise FallenBehind(
                f"The queue {self.name} has fallen behind: its first item is {as_text(late)} late, and "
                f"{as_text(self.max_lateness_us)} is allowed. Nothing was taken.",
                lateness=as_timedelta(late),
            )


def keys_of(namespace: str, name: str, layout: str, *, cluster: bool) -> GuardedKeys:
    if layout not in LAYOUTS:
        raise BadInput(f"layout: {layout!r}; it is one of {', '.join(LAYOUTS)}.")
    if layout == "tarry":
        return guarded_keys(namespace, name)
    if name not in names.DOTS:  # Java's, which knows no URLs
        names.check_name(name, "queue")
    items = JAVA_PREFIX + name
    if cluster and not fits_cluster(items):
        raise BadInput(f"queue: the keys of {items!r} are in several slots of the Cluster; rename it.")
    return java_keys(items, prefix_name(SHARED, items))


def checked_limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to {MOST}.")
    return limit
