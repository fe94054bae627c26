"""The order of a Java HashSet, so that a set is written as the bytes that Java writes.

    hash of an item  →  h xor h >>> 16  →  its lowest bits choose one of 16 buckets, or 32, 64, … : three quarters filled
    the order is that of the buckets

Rules
- Java's hashes are fixed by its documentation: of a String 31·h + unit over its UTF-16 units, of an Integer itself.
- Two items in one bucket stand in the order in which Java got them, which is not known here: ours is by their text, the
  same in every process. A HashSet that was made larger than it had to be has another order too.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any

from tarry.verbs.redisson.values import java_type, plain

_BITS = 0xFFFF_FFFF
_NOT_A_NUMBER = 0x7FF8_0000_0000_0000


def java_order(items: Collection[Any]) -> list[Any]:
    """The items of a set in the order of a Java HashSet."""
    buckets = 16
    while len(items) > buckets * 3 // 4:
        buckets *= 2
    known = sorted(items, key=lambda item: (java_type(item), repr(plain(item))))
    return sorted(known, key=lambda item: _spread(java_hash(item)) & (buckets - 1))


def java_hash(value: Any) -> int:
    """``hashCode()`` as 32 bits without sign; 0 for what has none that is the same every time."""
    kind = java_type(value)
    if kind == "Boolean":
        return 1231 if value else 1237
    if kind in ("Integer", "Short", "Byte"):
        return int(value) & _BITS
    if kind == "Long":
        return _folded(int(value))
    if kind == "Double":
        return _folded(_NOT_A_NUMBER if value != value else struct.unpack("<q", struct.pack("<d", value))[0])
    if kind == "Float":
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return bits
    hashed = 0
    if kind in ("String", "Character"):
        for (unit,) in struct.iter_unpack("<H", value.encode("utf-16-le", "surrogatepass")):
            hashed = 31 * hashed + unit & _BITS
    elif kind == "ArrayList":
        hashed = 1
        for item in value:
            hashed = 31 * hashed + java_hash(item) & _BITS
    elif kind == "HashSet":
        hashed = sum(map(java_hash, value)) & _BITS
    return hashed


def _folded(bits: int) -> int:
    return (bits ^ bits >> 32) & _BITS


def _spread(hashed: int) -> int:
    return hashed ^ hashed >> 16
