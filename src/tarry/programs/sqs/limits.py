r"""The limits of a request, and how one of the largest is read: linearly, in steps of a few milliseconds of the event loop.

on the wire   6.5 MiB: a message of 1 MiB all of whose characters are escaped, as JSON (\u0041) has them
decoded       1 MiB of messages, and the names around them
at a time     8 that are large, of one access key in a process; further ones are told to try again
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tarry.programs.sqs.faults import SqsError, too_long
from tarry.programs.sqs.queues import MOST_BYTES

MOST_ON_THE_WIRE = 6 * MOST_BYTES + (1 << 19)
MOST_DECODED = MOST_BYTES + (1 << 17)
LARGE = 1 << 19
MOST_LARGE = 8
STEP = 1 << 14
"""Bytes of a step: some two milliseconds of escapes."""
LARGE_STEP = 1 << 17
MOST_STRINGS = 5_000
MOST_BETWEEN = 1 << 16
"""Bytes outside the strings of a JSON request: braces, numbers, blanks."""


class LargeRequests:
    """How many large requests a process has in hand, by their access keys. A stranger who knows the id of a key can use up its share
    before the signature can be checked; not that of another key."""

    def __init__(self, _: Any) -> None:
        self.counts = Counter[str]()

    def stop(self) -> None:
        """Nothing runs."""

    @contextmanager
    def one(self, key: str, length: bytes | None) -> Generator[None]:
        """Counts a request while it is in hand, if it is large or does not say. Raises ``SqsError`` if there are too many."""
        if length is not None and length.isdigit() and len(length) <= 9 and int(length) <= LARGE:
            yield
            return
        if self.counts[key] >= MOST_LARGE:
            told = f"{MOST_LARGE} large requests of this access key are in hand; try again."
            raise SqsError("ServiceUnavailable", told, 503)
        self.counts[key] += 1
        try:
            yield
        finally:
            self.counts[key] -= 1
            self.counts += Counter()  # forgets those without any


class Steps:
    """Lets the event loop run whenever another step is done."""

    def __init__(self) -> None:
        self._done = 0

    async def take(self, done: int) -> None:
        self._done += done
        if self._done >= STEP:
            self._done = 0
            await asyncio.sleep(0)


def check_decoded(size: int, action: str = "") -> None:
    """Raises ``SqsError`` for more than a request may have: AWS's own where it sends messages."""
    if size > MOST_DECODED:
        raise too_long(action, size, MOST_BYTES, is_counted=False)


async def count(body: bytes, byte: bytes) -> int:
    """How often a byte is in a body."""
    found = 0
    for at in range(0, len(body), LARGE_STEP):
        found += body.count(byte, at, at + LARGE_STEP)
        await asyncio.sleep(0)
    return found


async def check_json(body: bytes, action: str = "") -> None:
    """Counts the strings of a JSON text, and the bytes between them, before anything of it is decoded. Raises ``SqsError``."""
    inside, strings, between, decoded, at = False, 0, 0, 0, 0
    while at < len(body):
        piece = body[at : at + LARGE_STEP]
        at += len(piece)
        if at < len(body):  # an escape stays whole
            tail = len(piece) - len(piece.rstrip(b"\\"))
            piece, at = (piece[:-1], at - 1) if tail % 2 and len(piece) > 1 else (piece, at)
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        decoded += (len(piece) + len(plain)) // 2 - plain.count(b"\\") - 4 * plain.count(b"\\u")
        check_decoded(decoded, action)
        quotes = plain.count(b'"')
        strings += quotes
        if strings > 2 * MOST_STRINGS:
            raise _too_many()
        for number, part in enumerate(plain.split(b'"')):
            inside = inside != (number > 0)
            between += 0 if inside else len(part)
        if between > MOST_BETWEEN:
            raise _too_many()
        await asyncio.sleep(0)


def _too_many() -> SqsError:
    return SqsError("SerializationException", "The request has too many values.")
