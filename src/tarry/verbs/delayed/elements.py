"""Elements that are not due yet: poll them in order, find and remove them by value, read them.

    first ── offer order ── last        scripts read PAGE elements at a time, from the last one back

Rules
- Redisson compares encoded bytes, and so does tarry.
- The list may change between two pages. Elements are appended at the end and taken from the front, neither of which hides an
  element from a search that goes back from the end; if the list became shorter, pages overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from tarry.core.requests import Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.keys import QUEUE_PARTS, QueueKeys
from tarry.verbs.delayed.context import DecodedPayloads, QueueContext
from tarry.verbs.redisson.elements import Element, unpack

T = TypeVar("T")

POLL = Script("delayed/poll", args=("count",), keys=QUEUE_PARTS)
PUT_BACK = Script("delayed/put_back", item=("element", "due"), keys=QUEUE_PARTS)
PASS_ON = Script("delayed/pass_on", keys=(*QUEUE_PARTS, "target"))
FIND = Script("delayed/find", args=("from", "limit", "inverse"), item=("payload",), keys=QUEUE_PARTS)
PAGES = Script("delayed/page", args=("from", "limit"), keys=QUEUE_PARTS)
DROP = Script("delayed/drop", item=("element",), keys=QUEUE_PARTS)
MOST_ELEMENTS = 1000
"""One script returns no more elements."""
PAGE, OVERLAP = 5000, 1000
READ_PAGE = 1000
DROP_PAGE = 500


# ── by place ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def poll(context: QueueContext[T], n: int) -> ScriptCall[DecodedPayloads]:
    """Takes up to ``n`` elements in the order of offers; an answer that is no longer wanted is put back."""
    raw: list[tuple[bytes, bytes]] = []

    def decode(reply: Reply) -> DecodedPayloads:
        raw[:] = zip(reply[::2], reply[1::2], strict=True)
        return context.decode_all(_payload(element) for element, _ in raw)

    def undo(taken: DecodedPayloads) -> ScriptCall[Any] | None:
        if not taken.values and not taken.undecodable:
            return None
        items = [arg for pair in reversed(raw) for arg in pair]
        return ScriptCall(PUT_BACK, context.keys, (), list, items=items, never_merged=True)

    return ScriptCall(POLL, context.keys, (b"%d" % checked_count(n),), decode, undo=undo)


def checked_count(n: int) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or not 1 <= n <= MOST_ELEMENTS:
        raise BadInput(f"n: {n!r}; it is a whole number from 1 to {MOST_ELEMENTS}.")
    return n


def pass_on(context: QueueContext[T], target: str) -> ScriptCall[T | None]:
    """Moves the last offered element to the head of another queue's list."""
    keys = (*context.keys, context.keys_of(target).ready)
    return ScriptCall(PASS_ON, keys, (), lambda reply: None if reply is None else context.decode_or_opaque(reply))


def clear(keys: QueueKeys) -> Command[bool]:
    return Command((b"UNLINK", keys.order, keys.timeouts), bool)


# ── by value ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _find(keys: QueueKeys, payloads: Iterable[bytes], *, inverse: bool = False) -> Flow[list[bytes]]:
    """The elements that carry one of the payloads, or none of them (``inverse``), in the order of offers."""
    wanted = list(dict.fromkeys(payloads))
    found: dict[bytes, None] = {}
    seen, length = 0, 0
    while True:
        start, before = max(seen - OVERLAP, 0), length
        args = (b"%d" % start, b"%d" % PAGE, b"1" if inverse else b"0")
        length, *page = yield from ask(ScriptCall(FIND, keys, args, list, items=wanted, never_merged=True))
        found.update(dict.fromkeys(reversed(page)))
        gone = before - length  # if more than the overlap, then perhaps from behind this page: look there again
        seen = start + PAGE if gone <= OVERLAP else max(seen - gone, 0)
        if seen >= length:
            return list(reversed(found))


def _drop(keys: QueueKeys, elements: Sequence[bytes]) -> Flow[int]:
    """Deletes elements. Returns how many still existed."""
    gone = position = 0
    while position < len(elements):
        some = elements[position : position + DROP_PAGE]
        answers = yield from ask(ScriptCall(DROP, keys, (), list, items=some, never_merged=True))
        gone += sum(answers)
        position += len(answers)
    return gone


def remove(context: QueueContext[T], value: T) -> Flow[bool]:
    """Removes the first equal element."""
    payload = context.encode(value)
    return _log_if_missed(context, [value], _remove_first(context.keys, payload))


def _log_if_missed(context: QueueContext[T], values: Sequence[T], search: Flow[bool]) -> Flow[bool]:
    return context.found((yield from search), values)


def _remove_first(keys: QueueKeys, payload: bytes) -> Flow[bool]:
    while found := (yield from _find(keys, [payload])):
        if (yield from _drop(keys, found[:1])):
            return True
    return False


def remove_all(context: QueueContext[T], values: Iterable[T]) -> Flow[bool]:
    values = list(values)
    return _log_if_missed(
        context, values, _remove_found(context.keys, [context.encode(value) for value in values], inverse=False)
    )


def retain_all(context: QueueContext[T], values: Iterable[T]) -> Flow[bool]:
    return _remove_found(context.keys, [context.encode(value) for value in values], inverse=True)


def _remove_found(keys: QueueKeys, payloads: list[bytes], *, inverse: bool) -> Flow[bool]:
    if not payloads and not inverse:
        return False
    found = yield from _find(keys, payloads, inverse=inverse)
    return (yield from _drop(keys, found)) > 0


def contains_all(context: QueueContext[T], values: Iterable[T]) -> Flow[bool]:
    values = list(values)
    return _log_if_missed(context, values, _contains_all(context.keys, {context.encode(value) for value in values}))


def _contains_all(keys: QueueKeys, payloads: set[bytes]) -> Flow[bool]:
    if not payloads:
        return True
    found = yield from _find(keys, payloads)
    return payloads == {_payload(element) for element in found}


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def size(keys: QueueKeys) -> Command[int]:
    return Command((b"LLEN", keys.order), int)


def peek(context: QueueContext[T]) -> Flow[T | None]:
    """The first readable element in the order of offers."""
    position = 0
    while page := (yield from ask(_page(context, position, 1 if position == 0 else READ_PAGE))):
        for value in _values(context, page):
            return value
        position += len(page)
    return None


def page(context: QueueContext[T], position: int, limit: int = READ_PAGE) -> Flow[tuple[list[T], int]]:
    """Values from a position on, and the position after them: 0 at the end."""
    found = yield from ask(_page(context, position, limit))
    return _values(context, found), position + limit if len(found) == limit else 0


def read_all(context: QueueContext[T]) -> Flow[list[T]]:
    values, position = yield from page(context, 0)
    while position:
        more, position = yield from page(context, position)
        values += more
    return values


def _page(context: QueueContext[T], position: int, size: int) -> ScriptCall[list[bytes]]:
    return ScriptCall(PAGES, context.keys, (b"%d" % position, b"%d" % size), list, never_merged=True)


def _values(context: QueueContext[T], elements: Iterable[bytes]) -> list[T]:
    return [context.decode_or_opaque(found.payload) for found in map(unpack, elements) if isinstance(found, Element)]


def _payload(element: bytes) -> bytes:
    found = unpack(element)
    assert isinstance(found, Element), "the script returns only readable elements"
    return found.payload
