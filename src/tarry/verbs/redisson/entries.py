"""The packed value of a map cache, and the events that its channels carry.

    value     dLc0             idle time in ms as double, 8 LE (0 = none) │ length, u64 LE │ value
    event     Lc0Lc0           length │ key │ length │ value                    created, removed, expired
              Lc0Lc0Lc0        length │ key │ length │ new │ length │ old       updated

The value's format is the same in all versions of Redisson, 4.7 included. Key and value are what the codecs made of them.
Nothing here raises for foreign bytes: they are ``BadElement``.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from tarry.errors import BadInput
from tarry.verbs.redisson.elements import BadElement

_HEAD = struct.Struct("<dQ")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class PackedEntry:
    """A map cache's value with the idle time that each touch grants it; 0 = none."""

    value: bytes
    idle_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class EntryEvent:
    """An event of an entry; ``old`` only if it was updated."""

    key: bytes
    value: bytes
    old: bytes | None = None


def pack_entry(entry: PackedEntry) -> bytes:
    """The field's value in the hash."""
    if not (math.isfinite(entry.idle_ms) and entry.idle_ms >= 0):
        raise BadInput(f"max_idle: {entry.idle_ms} ms; give zero or more.")
    return _HEAD.pack(entry.idle_ms, len(entry.value)) + entry.value


def unpack_entry(packed: bytes) -> PackedEntry | BadElement:
    """Parses the value of a field of the hash."""
    if len(packed) < _HEAD.size:
        return BadElement(f"{len(packed)} bytes: a value has sixteen at least")
    idle_ms, length = _HEAD.unpack_from(packed)
    if length != len(packed) - _HEAD.size:
        return BadElement(f"the length says {length} bytes, {len(packed) - _HEAD.size} follow")
    if not math.isfinite(idle_ms):
        return BadElement(f"the idle time is {idle_ms}")
    return PackedEntry(packed[_HEAD.size :], idle_ms)


def pack_event(event: EntryEvent) -> bytes:
    """The message of an event."""
    parts = [event.key, event.value] if event.old is None else [event.key, event.value, event.old]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def unpack_event(message: bytes, *, updated: bool = False) -> EntryEvent | BadElement:
    """Parses a message; that of the channel ``updated`` has three parts, the others two."""
    parts: list[bytes] = []
    at, wanted = 0, 3 if updated else 2
    while len(parts) < wanted and len(message) - at >= _LENGTH.size:
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack_from(message, at)[0]
        parts.append(message[start:at])
    if len(parts) != wanted or at != len(message):
        return BadElement(f"{len(message)} bytes that are not {wanted} parts with their lengths")
    return EntryEvent(*parts)
