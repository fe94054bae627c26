"""Reading foreign bytes: a place in them that never runs past their end."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from tarry.errors import BodyError
from tarry.verbs.redisson.values import HashSet

DEPTH = 100
"""How deep collections may be nested. Deeper ones are not read and not written."""


class NotReadable(Exception):
    """The bytes may be valid, but tarry cannot read them: the value becomes ``Opaque``."""


class ByteReader:
    """Bytes, and how far they were read."""

    __slots__ = ("at", "raw")

    def __init__(self, raw: bytes, at: int = 0) -> None:
        self.raw = raw
        self.at = at

    def byte(self) -> int:
        """The next byte."""
        if self.at >= len(self.raw):
            raise truncated(self.at)
        self.at += 1
        return self.raw[self.at - 1]

    def take(self, size: int) -> bytes:
        """So many bytes."""
        start, end = self.at, self.at + size
        if end > len(self.raw):
            raise truncated(start)
        self.at = end
        return self.raw[start:end]

    def unpack_one(self, layout: struct.Struct) -> Any:
        """The only value of a layout."""
        return layout.unpack(self.take(layout.size))[0]

    def items(self, count: int) -> range:
        """A range to read ``count`` items by. Each has a byte at least: a count that the rest cannot contain is not believed."""
        if count > len(self.raw) - self.at:
            raise truncated(self.at)
        return range(count)

    def end(self) -> None:
        """Nothing may follow."""
        if self.at != len(self.raw):
            raise unexpected(self.at, f"the value ends here, {len(self.raw) - self.at} bytes follow")


def truncated(at: int) -> BodyError:
    return BodyError(f"The bytes end too early, at byte {at}. Was another codec used to write them?")


def unexpected(at: int, what: str) -> BodyError:
    return BodyError(f"At byte {at}: {what}. Was another codec used to write them?")


def as_set(items: list[Any]) -> HashSet:
    """The items as a set that knows their order; ``NotReadable`` if Python would make fewer of them or cannot hold them."""
    try:
        made = HashSet.of(items)
    except TypeError:
        raise NotReadable from None
    if len(made) != len(items):
        raise NotReadable  # 1, 1L and true differ in Java
    return made


def as_pairs(items: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Pairs whose keys make a dict; ``NotReadable`` if Python would make fewer of them or cannot hold them."""
    pairs = list(items)
    as_set([key for key, _ in pairs])
    return pairs
