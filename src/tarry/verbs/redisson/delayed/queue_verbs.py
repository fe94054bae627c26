"""The verbs of a delayed queue and of its blocking queue, as handles call them. They return requests and flows.

Values are encoded and decoded here. A payload that was taken and that the codec cannot decode is set aside, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from tarry.core.requests import Command, Flow, Reply, ScriptCall, ask
from tarry.values.durations import Duration
from tarry.verbs.redisson.delayed import elements, offers, transfer
from tarry.verbs.redisson.delayed import queue_migration as migration
from tarry.verbs.redisson.delayed.elements import READ_PAGE
from tarry.verbs.redisson.delayed.learnt_format import log_learnt
from tarry.verbs.redisson.delayed.queue_context import DecodedPayloads, QueueContext
from tarry.verbs.redisson.delayed.stats import QueueStats, queue_stats
from tarry.verbs.redisson.delayed.transfer import PoisonElement
from tarry.verbs.redisson.elements import Element, format_of, unpack

T = TypeVar("T")


class QueueVerbs(Generic[T]):
    """The common verbs of both kinds of queues."""

    def __init__(self, context: QueueContext[T]) -> None:
        self.context = context
        self.keys = context.keys

    def stats(self) -> ScriptCall[QueueStats]:
        return queue_stats(self.context)

    def poison_elements(self) -> Command[list[PoisonElement]]:
        """The bytes that were set aside."""

        def decode(reply: Reply) -> list[PoisonElement]:
            flat = [arg for pair in reply.items() for arg in pair] if isinstance(reply, dict) else reply
            texts = [reason.decode("utf-8", "replace").partition(" ")[2] for reason in flat[1::2]]
            return [PoisonElement(raw, text) for raw, text in zip(flat[::2], texts, strict=True)]

        return Command((b"HGETALL", self.keys.poison), decode)

    def add_poison(self, undecodable: Iterable[tuple[bytes, str]]) -> ScriptCall[Any]:
        """Adds payloads to the poison, with the reasons."""
        return transfer.add_poison(self.keys, undecodable)

    def _decoded_of(self, take: ScriptCall[DecodedPayloads]) -> Flow[list[T]]:
        """The values of an answer that has any; taken again if none of its payloads can be decoded."""
        while True:
            taken = yield from ask(take)
            yield from self._add_poison(taken)
            if taken.values or not taken.undecodable:
                return taken.values

    def _add_poison(self, decoded: DecodedPayloads) -> Flow[None]:
        if decoded.undecodable:
            yield from ask(self.add_poison(decoded.undecodable))

    def _decode_payload(self, reply: Reply) -> T | None:
        return None if reply is None else self.context.decode_or_opaque(reply)


class DelayedQueueVerbs(QueueVerbs[T]):
    """The verbs of a delayed queue."""

    def offer(self, value: T, delay: Duration) -> ScriptCall[datetime]:
        return offers.offer(self.context, value, delay)

    def offer_many(self, values: Iterable[T], delay: Duration) -> Flow[list[datetime]]:
        return offers.offer_many(self.context, values, delay)

    def transfer_all(self) -> Flow[transfer.TransferResult]:
        """Moves all elements that are due now."""
        return transfer.transfer_all(self.keys)

    def preview(self, position: int) -> Flow[tuple[list[migration.LeavingElement], int | None]]:
        """A page of the readable elements by due time, and the position of the next page."""
        page, size = yield from ask(migration.preview(self.context, position, claimed=False))
        return page, position + size if size == migration.CLAIM_PAGE else None

    def first_due(self, limit: int) -> Command[list[tuple[int, bytes, str]]]:
        """The elements that are due first: when, in server ms, and the payload, or why it cannot be read."""

        def decode(reply: Reply) -> list[tuple[int, bytes, str]]:
            found = [(int(float(due)), unpack(packed)) for packed, due in zip(reply[::2], reply[1::2], strict=True)]
            return [
                (due, one.payload, "") if isinstance(one, Element) else (due, b"", one.reason) for due, one in found
            ]

        return Command((b"ZRANGE", self.keys.timeouts, b"0", b"%d" % (limit - 1), b"WITHSCORES"), decode)

    def set_format(self, format: str | None) -> Command[Any]:
        """Sets the queue's format, whatever its elements are; ``None`` removes the setting."""
        if format is None:
            return Command((b"UNLINK", self.keys.format), bool)
        return Command((b"SET", self.keys.format, format_of(format).encode() + b" set"), bool)

    def poll(self, limit: int) -> Flow[list[T]]:
        """Takes up to ``limit`` values in the order of offers, due or not."""
        self.context.require_codec()
        return self._decoded_of(elements.poll(self.context, limit))

    def pass_on(self, target: str) -> ScriptCall[T | None]:
        """Moves the last offered element to the head of another queue's list."""
        keys = (*self.keys, self.context.keys_of(target).ready)
        return ScriptCall(
            elements.PASS_ON,
            keys,
            (),
            log_learnt(self.keys, lambda rest: self._decode_payload(rest[0] if rest else None)),
        )

    def remove(self, value: T) -> Flow[bool]:
        """Removes the first equal element."""
        return self._log_if_missed([value], elements.remove_first(self.keys, self.context.encode(value)))

    def remove_all(self, values: Iterable[T]) -> Flow[bool]:
        values = list(values)
        payloads = [self.context.encode(value) for value in values]
        return self._log_if_missed(values, elements.remove_found(self.keys, payloads, inverse=False))

    def retain_all(self, values: Iterable[T]) -> Flow[bool]:
        return elements.remove_found(self.keys, [self.context.encode(value) for value in values], inverse=True)

    def contains_all(self, values: Iterable[T]) -> Flow[bool]:
        values = list(values)
        payloads = {self.context.encode(value) for value in values}
        return self._log_if_missed(values, elements.contains_payloads(self.keys, payloads))

    def _log_if_missed(self, values: Sequence[T], search: Flow[bool]) -> Flow[bool]:
        return self.context.found((yield from search), values)

    def size(self) -> Command[int]:
        return Command((b"LLEN", self.keys.order), int)

    def peek(self) -> Flow[T | None]:
        """The first readable element in the order of offers."""
        values, position = yield from self.page(0, 1)
        while position and not values:
            values, position = yield from self.page(position)
        return values[0] if values else None

    def page(self, position: int, limit: int = READ_PAGE) -> Flow[tuple[list[T], int]]:
        """Values of some 4 MB from a position on, and the position after them: 0 at the end."""
        after, found = yield from ask(elements.read_page(self.keys, position, limit))
        return self._values(found), after

    def read_all(self) -> Flow[list[T]]:
        values, position = yield from self.page(0)
        while position:
            more, position = yield from self.page(position)
            values += more
        return values

    def clear(self) -> Command[bool]:
        return Command((b"UNLINK", self.keys.order, self.keys.timeouts), bool)

    def _values(self, packed: Iterable[bytes]) -> list[T]:
        return [self.context.decode_or_opaque(one.payload) for one in map(unpack, packed) if isinstance(one, Element)]


class BlockingQueueVerbs(QueueVerbs[T]):
    """The verbs of a blocking queue."""

    def for_queue(self, name: str) -> BlockingQueueVerbs[T]:
        """The verbs of another queue of the same application, with the same codec."""
        return BlockingQueueVerbs(self.context.for_queue(name))

    def put(self, value: T) -> Command[int]:
        """Adds one payload at the end of the list. If it is sent again after a lost answer, it may be there twice."""
        return Command((b"RPUSH", self.keys.ready, self.context.encode(value)), int)

    def poll(self, limit: int) -> Flow[list[T]]:
        """Moves due elements, and takes up to ``limit`` ready values."""
        self.context.require_codec()
        return self._decoded_of(transfer.poll_ready(self.context, limit))

    def read(self, payload: bytes) -> Flow[list[T]]:
        """The value of a payload that was taken, in a list; empty if it was set aside."""
        taken = self.context.decode_all([payload])
        yield from self._add_poison(taken)
        return taken.values

    def peek(self) -> Command[T | None]:
        return Command((b"LINDEX", self.keys.ready, b"0"), self._decode_payload)

    def contains(self, value: T) -> Command[bool]:
        args = (b"LPOS", self.keys.ready, self.context.encode(value))
        return Command(args, lambda reply: self.context.found(reply is not None, [value]))

    def size(self) -> Command[int]:
        return Command((b"LLEN", self.keys.ready), int)

    def give_back(self, payloads: Sequence[bytes]) -> Command[int]:
        """Puts payloads back to the head, in their order."""
        return transfer.give_back(self.keys.ready, payloads)
