"""Packed elements that are not due yet: poll them in order, find and remove them by payload, read them.

    first ── offer order ── last        scripts read PAGE elements at a time, from the last one back

Rules
- Redisson compares encoded bytes, and so does tarry.
- The list may change between two pages. Elements are appended at the end and taken from the front, neither of which hides an
  element from a search that goes back from the end; if the list became shorter, pages overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.keys import QUEUE_PARTS, QueueKeys
from tarry.verbs.redisson.delayed.learnt_format import log_learnt
from tarry.verbs.redisson.delayed.queue_context import DecodedPayloads, QueueContext
from tarry.verbs.redisson.elements import Element, unpack

POLL = Script("redisson/delayed/poll", args=("limit",), keys=QUEUE_PARTS)
PUT_BACK = Script("redisson/delayed/put_back", item=("element", "due"), keys=QUEUE_PARTS)
PASS_ON = Script("redisson/delayed/pass_on", keys=(*QUEUE_PARTS, "target"))
FIND = Script("redisson/delayed/find", args=("from", "limit", "inverse"), item=("payload",), keys=QUEUE_PARTS)
PAGES = Script("redisson/delayed/page", args=("from", "limit"), keys=QUEUE_PARTS)
DROP = Script("redisson/delayed/drop", item=("element",), keys=QUEUE_PARTS)
MOST_ELEMENTS = 1000
"""One script returns no more elements."""
PAGE, OVERLAP = 5000, 1000
READ_PAGE = 1000
DROP_PAGE = 500


# ── by place ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def poll(context: QueueContext[Any], limit: int) -> ScriptCall[DecodedPayloads]:
    """Takes up to ``limit`` elements in the order of offers; an answer that is no longer wanted is put back."""
    raw: list[tuple[bytes, bytes]] = []

    def decode(reply: Reply) -> DecodedPayloads:
        raw[:] = zip(reply[::2], reply[1::2], strict=True)
        return context.decode_all(_payload(element) for element, _ in raw)

    def undo(taken: DecodedPayloads) -> ScriptCall[Any] | None:
        if not taken.values and not taken.undecodable:
            return None
        items = [arg for pair in reversed(raw) for arg in pair]
        return ScriptCall(PUT_BACK, context.keys, (), list, items=items, never_merged=True)

    return ScriptCall(POLL, context.keys, (b"%d" % checked_limit(limit),), log_learnt(context.keys, decode), undo=undo)


def checked_limit(limit: int) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_ELEMENTS:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to {MOST_ELEMENTS}.")
    return limit


# ── by payload ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _find(keys: QueueKeys, payloads: Iterable[bytes], *, inverse: bool = False) -> Flow[list[bytes]]:
    """The elements that carry one of the payloads, or none of them (``inverse``), in the order of offers."""
    wanted = list(dict.fromkeys(payloads))
    found: dict[bytes, None] = {}
    seen, length = 0, 0
    while True:
        start, before = max(seen - OVERLAP, 0), length
        args = (b"%d" % start, b"%d" % PAGE, b"1" if inverse else b"0")
        length, *page = yield from ask(
            ScriptCall(FIND, keys, args, log_learnt(keys, list), items=wanted, never_merged=True)
        )
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


def remove_first(keys: QueueKeys, payload: bytes) -> Flow[bool]:
    """Removes the first element with a payload."""
    while found := (yield from _find(keys, [payload])):
        if (yield from _drop(keys, found[:1])):
            return True
    return False


def remove_found(keys: QueueKeys, payloads: list[bytes], *, inverse: bool) -> Flow[bool]:
    """Removes all elements with one of the payloads, or (``inverse``) with none of them."""
    if not payloads and not inverse:
        return False
    found = yield from _find(keys, payloads, inverse=inverse)
    return (yield from _drop(keys, found)) > 0


def contains_payloads(keys: QueueKeys, payloads: set[bytes]) -> Flow[bool]:
    """Whether there is an element for each payload."""
    if not payloads:
        return True
    found = yield from _find(keys, payloads)
    return payloads == {_payload(element) for element in found}


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_page(keys: QueueKeys, position: int, size: int) -> ScriptCall[tuple[int, list[bytes]]]:
    """The position of the next page, 0 at the end; packed elements from a position on, in the order of offers."""
    given = (b"%d" % position, b"%d" % size)
    return ScriptCall(PAGES, keys, given, log_learnt(keys, lambda reply: (int(reply[0]), reply[1:])), never_merged=True)


def _payload(element: bytes) -> bytes:
    found = unpack(element)
    assert isinstance(found, Element), "the script returns only readable elements"
    return found.payload
