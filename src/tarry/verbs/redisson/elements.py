"""The packed element: what a delayed queue keeps in its list and, the same bytes, in its sorted set.

    ≥ 3.21.1   Bc0Lc0    08 │ mark, 8 bytes        │ length, u64 LE │ payload      17 + n bytes
    ≤ 3.21.0   dLc0           mark as double, 8 LE │ length, u64 LE │ payload      16 + n bytes

The mark is random and makes equal payloads different members. The old format keeps it as the nearest double.

Rules
- A queue may contain both. ``unpack`` tells them apart by the length alone, never raises, and returns ``BadElement`` for bytes that
  are neither. Bytes that could be both (17 bytes, an old element with the payload ``00``) are read as new, as Redisson does.
- Elements of Redis on Windows, whose lengths have four bytes, are poison.
- Elements with equal due times are ordered by their bytes, so ``pack`` must return the same bytes as Redisson.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import StrEnum

from tarry.errors import BadInput

_CURRENT_FORMAT = struct.Struct("<B8sQ")
_LEGACY_FORMAT = struct.Struct("<dQ")
_LENGTH = struct.Struct("<Q")
_MARK = 8


class Format(StrEnum):
    """The two formats, named by their format strings in Redisson's script for ``struct.pack``."""

    NEW = "Bc0Lc0"
    OLD = "dLc0"


NOBODY = "tarry"
"""The value of ``format`` for a queue that no Java application reads."""
CHANGED = (3, 21, 1)
"""The first Redisson that writes and reads the new format."""
VERSION = re.compile(r"\d{1,4}(?:\.\d{1,4}){0,2}")


def format_of(value: str, what: str = "format") -> Format:
    """The format for an argument: a format, a version of Redisson, or "tarry" if only tarry reads the queue. Raises
    ``BadInput``."""
    if value in tuple(Format):
        return Format(value)
    if value == NOBODY:
        return Format.NEW
    if not isinstance(value, str) or not VERSION.fullmatch(value):
        raise BadInput(
            f'{what}: {value!r}; it is one of {", ".join(Format)}, a version of Redisson such as "3.16.8", or "{NOBODY}" '
            "if no Java application reads the queue."
        )
    version = tuple(map(int, value.split(".")))
    if version < CHANGED and version == CHANGED[: len(version)]:
        raise BadInput(f"{what}: {value!r}; Redisson changed the format with 3.21.1, so give the complete version.")
    return Format.NEW if version >= CHANGED else Format.OLD


@dataclass(frozen=True, slots=True)
class Element:
    """A recognized element."""

    format: Format
    payload: bytes


@dataclass(frozen=True, slots=True)
class BadElement:
    """Bytes in no known format. They are set aside; nothing is raised."""

    reason: str


def pack(payload: bytes, mark: bytes, format: Format = Format.NEW) -> bytes:
    """The element for a payload; ``mark`` is eight random bytes."""
    if len(mark) != _MARK:
        raise BadInput(f"mark: {len(mark)} bytes given; it has eight.")
    if format is Format.NEW:
        return _CURRENT_FORMAT.pack(_MARK, mark, len(payload)) + payload
    # in Java a random long; its decimal text goes through Lua's tonumber, which rounds to the nearest double
    return _LEGACY_FORMAT.pack(float(int.from_bytes(mark, "little", signed=True)), len(payload)) + payload


def unpack(element: bytes) -> Element | BadElement:
    """Parses an element of either format."""
    size = len(element)
    if size >= _CURRENT_FORMAT.size and element[0] == _MARK and _length(element, 9) == size - _CURRENT_FORMAT.size:
        return Element(Format.NEW, element[_CURRENT_FORMAT.size :])
    if size >= _LEGACY_FORMAT.size and _length(element, 8) == size - _LEGACY_FORMAT.size:
        return Element(Format.OLD, element[_LEGACY_FORMAT.size :])
    if size < _LEGACY_FORMAT.size:
        return BadElement(f"{size} bytes: an element has at least sixteen")
    return BadElement(f"{size} bytes, and no length in it says so: neither {Format.NEW} nor {Format.OLD}")


def _length(element: bytes, at: int) -> int:
    length: int = _LENGTH.unpack_from(element, at)[0]
    return length
