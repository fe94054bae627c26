"""The order of a Java HashMap or HashSet, so that a dict or a set is written as the bytes that Java writes.

    hash of a key  →  h xor h >>> 16  →  its lowest bits choose one of 16 buckets, or 32, 64, … : three quarters filled
    the order is that of the buckets; in a bucket it is the one in which Java got the keys

Rules
- Entries that came from Java go back in their order (``HashMap``, ``HashSet`` in ``values``), as long as nothing is added.
- Java's hashes are fixed by its documentation: of a String 31·h + unit over its UTF-16 units, of an Integer itself.
- A dict is taken to have been filled in its own order, one entry after the other: into 16 buckets, which double when more
  than three quarters as many entries are there, or a ninth comes into one bucket of fewer than 64.
- ``reason_to_differ`` says where Java may have another order: keys in one bucket that Java got in another order (that of a set is by their
  text here, the same in every process); a map or set that was copied from another, or made with a capacity, so that it has more buckets;
  one that was larger once; nine keys in one of 64 buckets or more, which Java makes a tree of; keys without a fixed hash.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from tarry.verbs.redisson.values import HashMap, HashSet, java_type, plain

_BITS = 0xFFFF_FFFF
_NOT_A_NUMBER = 0x7FF8_0000_0000_0000
FIRST_BUCKETS = 16
TREE, TREES_FROM = 8, 64
"""More keys than ``TREE`` in a bucket: more buckets, or a tree where there are ``TREES_FROM`` buckets."""
FIXED = {"null", "Boolean", "Integer", "Long", "Short", "Byte", "Float", "Double", "String", "Character"}
"""Types whose hash is the same in every Java process."""


def map_order(entries: dict[Any, Any]) -> Iterable[Any]:
    """The keys of a dict in the order of a Java HashMap; in their own order if they came from Java."""
    if len(entries) < 2 or (isinstance(entries, HashMap) and entries.is_as_read()):
        return entries
    return java_order(entries)


def set_order(items: Collection[Any]) -> list[Any]:
    """The members of a set in the order of a Java HashSet; in their own order if they came from Java."""
    if isinstance(items, HashSet):
        read = items.in_order()
        if len(read) == len(items):
            return read
        return java_order([*read, *_by_text(items - set(read))])
    return java_order(_by_text(items))


def _by_text(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: (java_type(item), repr(plain(item))))


def java_order(keys: Iterable[Any]) -> list[Any]:
    """Orders keys, given in the order of insertion, as a Java HashMap iterates over them."""
    known = list(keys)
    places = [_spread_bits(java_hash(key)) for key in known]
    mask = buckets_of(places) - 1
    return [known[at] for at in sorted(range(len(known)), key=lambda at: places[at] & mask)]


def buckets_of(places: list[int]) -> int:
    """The number of buckets of a Java HashMap after inserting keys with these spread hashes."""
    buckets = FIRST_BUCKETS
    for size, place in enumerate(places, 1):
        if buckets < TREES_FROM:
            mask = buckets - 1
            if sum(other & mask == place & mask for other in places[:size]) > TREE:
                buckets *= 2
        if size > buckets * 3 // 4:
            buckets *= 2
    return buckets


def reason_to_differ(value: Any) -> str | None:
    """Why Java may have written an equal value as other bytes; ``None`` if it cannot."""
    if isinstance(value, (set, frozenset)):
        came = isinstance(value, HashSet) and len(value.in_order()) == len(value)
        return None if came else _reason_for(list(value), "set")
    if isinstance(value, dict):
        came = isinstance(value, HashMap) and value.is_as_read()
        hashed = java_type(value) == "HashMap" and not came
        found = _reason_for(list(value), "map") if hashed else None
        return found or next(filter(None, map(reason_to_differ, value.values())), None)
    if isinstance(value, (list, tuple)):
        return next(filter(None, map(reason_to_differ, value)), None)
    return None


def _reason_for(keys: list[Any], what: str) -> str | None:
    if len(keys) < 2:
        return None
    for key in keys:
        if java_type(key) not in FIXED:
            return f"a {what} with a {java_type(key)} in it, which may have another hash in Java"
    places = [_spread_bits(java_hash(key)) for key in keys]
    buckets = most = buckets_of(places)
    while most >= TREES_FROM:  # it had this many once, while these keys were there
        if _fullest(places[: most * 3 // 4 + 1], most) > TREE:
            return f"a {what} with more than {TREE} keys in one bucket, of which Java makes a tree"
        most //= 2
    if _fullest(places, buckets) > 1:
        return (
            f"a {what} of which some keys share a bucket in Java, where they stand in the order in which they were put"
        )
    least = FIRST_BUCKETS if what == "set" else 1
    order = sorted(places, key=lambda place: place & (buckets - 1))
    for wanted in (-(-len(keys) * 4 // 3), len(keys) * 4 // 3 + 1):  # Java from 19 on, and before
        copied = max(1 << (wanted - 1).bit_length(), least)
        if sorted(order, key=lambda place: place & (copied - 1)) != order:
            return f"a {what} that has {copied} buckets, not {buckets}, if Java copied it from another collection"
    return None


def _fullest(places: list[int], buckets: int) -> int:
    return max(Counter(place & (buckets - 1) for place in places).values())


def java_hash(value: Any) -> int:
    """``hashCode()`` as an unsigned 32-bit number; 0 for values whose hash differs between processes."""
    kind = java_type(value)
    if kind == "Boolean":
        return 1231 if value else 1237
    if kind in ("Integer", "Short", "Byte"):
        return int(value) & _BITS
    if kind == "Long":
        return _fold(int(value))
    if kind == "Double":
        return _fold(_NOT_A_NUMBER if value != value else struct.unpack("<q", struct.pack("<d", value))[0])
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


def _fold(bits: int) -> int:
    return (bits ^ bits >> 32) & _BITS


def _spread_bits(hashed: int) -> int:
    return hashed ^ hashed >> 16
