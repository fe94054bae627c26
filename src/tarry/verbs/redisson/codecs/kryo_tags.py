"""Kryo's tags, names and numbers, for both directions. The picture is in ``kryo``."""

from __future__ import annotations

import struct

from tarry.verbs.redisson.codecs.reader import ByteReader, unexpected

TAGS = {
    "null": 0,
    "by name": 1,
    "Integer": 2,
    "String": 3,
    "Float": 4,
    "Boolean": 5,
    "Byte": 6,
    "Character": 7,
    "Short": 8,
    "Long": 9,
    "Double": 10,
}
CLASSES = {
    "byte[]": "[B",
    "ArrayList": "java.util.ArrayList",
    "HashSet": "java.util.HashSet",
    "HashMap": "java.util.HashMap",
    "LinkedHashMap": "java.util.LinkedHashMap",
}
LAYOUTS = {
    "Float": struct.Struct("<f"),
    "Boolean": struct.Struct("<?"),
    "Byte": struct.Struct("<b"),
    "Character": struct.Struct("<H"),
    "Short": struct.Struct("<h"),
    "Double": struct.Struct("<d"),
}
NULLABLE = {"String": 0x80, "byte[]": 0, "ArrayList": 0, "HashSet": 0, "HashMap": 0, "LinkedHashMap": 0}
"""Those with a null of their own."""

_FLAG, _MORE = 0x80, 0x40


def zigzag(value: int) -> int:
    """0, -1, 1, -2 … become 0, 1, 2, 3 …"""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """And back."""
    return -(value >> 1) - 1 if value & 1 else value >> 1


def varint(value: int, *, most: int = 5) -> bytes:
    """Seven bits a byte, the lowest first; a ninth byte holds eight."""
    out = bytearray()
    while value > 0x7F and len(out) < most - 1:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def flagged(flag: bool, value: int) -> bytes:
    """A number with a flag in its first byte."""
    low = value & 0x3F | (_FLAG if flag else 0)
    rest = value >> 6
    return bytes((low | _MORE,)) + varint(rest) if rest else bytes((low,))


def read_varint(reader: ByteReader, *, bits: int = 32) -> int:
    """A number of at most ``bits`` bits."""
    value = shift = 0
    while True:
        byte = reader.byte()
        if bits == 64 and shift == 56:
            return value | byte << shift
        value |= (byte & 0x7F) << shift
        if value >> bits:
            raise unexpected(reader.at - 1, f"a number of more than {bits} bits")
        if byte < 0x80:
            return value
        shift += 7
        if shift >= bits:
            raise unexpected(reader.at - 1, f"a number of more than {bits} bits")


def read_flagged(reader: ByteReader) -> tuple[bool, int]:
    """A number with a flag in its first byte."""
    first = reader.byte()
    value = first & 0x3F
    if first & _MORE:
        value |= read_varint(reader) << 6
    if value >> 32:
        raise unexpected(reader.at - 1, "a number of more than 32 bits")
    return first >= _FLAG, value
