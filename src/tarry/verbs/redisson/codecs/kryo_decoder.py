"""Reading what Kryo 5 wrote. The picture is in ``kryo``."""

from __future__ import annotations

import re
from typing import Any

from tarry.verbs.redisson.codecs import utf16
from tarry.verbs.redisson.codecs.kryo_tags import (
    CLASSES,
    LAYOUTS,
    NULLABLE,
    TAGS,
    read_flagged,
    read_varint,
    unzigzag,
)
from tarry.verbs.redisson.codecs.reader import DEPTH, ByteReader, NotReadable, as_pairs, as_set, truncated, unexpected
from tarry.verbs.redisson.values import Byte, Char, Float, HashMap, LinkedHashMap, Long, Short

NULLS = 1000
"""How many nulls there may be in lists that have nothing else. Nulls need no bytes, so a length could say anything."""

_BY_TAG = {tag: kind for kind, tag in TAGS.items()}
_BY_NAME = {name: kind for kind, name in CLASSES.items()}
_NAMES = {"Float": Float, "Byte": Byte, "Short": Short}
_LAST = re.compile(rb"[\x80-\xff]")


def read_value(reader: ByteReader) -> Any:
    """The value that is next; ``NotReadable`` if it, or anything in it, is not ours to read."""
    return _Kryo(reader).value(0)


class _Kryo:
    """A reader, and the classes that were named so far."""

    __slots__ = ("names", "nulls", "reader")

    def __init__(self, reader: ByteReader) -> None:
        self.reader = reader
        self.names: dict[int, str] = {}
        self.nulls = 0

    def value(self, depth: int) -> Any:
        """A value with its class before it."""
        kind = self.kind()
        return None if kind == "null" else self.body(kind, depth)

    def kind(self) -> str:
        """The class that is next; ``NotReadable`` if it is none of ours."""
        kind = _BY_TAG.get(read_varint(self.reader))
        if kind is None:
            raise NotReadable
        if kind != "by name":
            return kind
        number = read_varint(self.reader)
        if number not in self.names:
            name = self.text()
            if name is None:
                raise unexpected(self.reader.at, "a class without a name")
            if name not in _BY_NAME:
                raise NotReadable
            self.names[number] = _BY_NAME[name]
        return self.names[number]

    def body(self, kind: str, depth: int) -> Any:
        """A value whose class is known."""
        reader = self.reader
        if kind == "String":
            return self.text()
        if kind == "Integer":
            return unzigzag(read_varint(reader))
        if kind == "Long":
            return Long(unzigzag(read_varint(reader, bits=64)))
        if kind == "Boolean":
            return self.yes()
        if kind == "Character":
            return Char(chr(reader.unpack_one(LAYOUTS[kind])))
        if kind in LAYOUTS:
            number = reader.unpack_one(LAYOUTS[kind])
            return _NAMES[kind](number) if kind in _NAMES else number
        if kind == "byte[]":
            size = read_varint(reader)
            return reader.take(size - 1) if size else None
        if depth >= DEPTH:
            raise NotReadable
        if kind in ("HashMap", "LinkedHashMap"):
            return self.mapping(kind, depth)
        items = self.items(depth)
        return as_set(items) if kind == "HashSet" and items is not None else items

    def mapping(self, kind: str, depth: int) -> Any:
        """A map: pairs of values, each with its class."""
        size = read_varint(self.reader)
        if size == 0:
            return None
        pairs = as_pairs((self.value(depth + 1), self.value(depth + 1)) for _ in self.reader.items(size - 1))
        return LinkedHashMap(pairs) if kind == "LinkedHashMap" else HashMap.of(pairs)

    def items(self, depth: int) -> list[Any] | None:
        """The items of a list or set."""
        same, size = read_flagged(self.reader)
        if size == 0:
            return None
        if size == 1:
            return []
        if not same:
            return [self.value(depth + 1) for _ in self.reader.items(size - 1)]
        kind = self.kind()
        if kind == "null":
            self.nulls += size - 1
            if self.nulls > NULLS:
                raise NotReadable
            return [None] * (size - 1)
        optional = self.yes() and kind not in NULLABLE
        return [
            None if optional and not self.yes() else self.body(kind, depth + 1) for _ in self.reader.items(size - 1)
        ]

    def yes(self) -> bool:
        """A byte that is 00 or 01."""
        byte = self.reader.byte()
        if byte > 1:
            raise unexpected(self.reader.at - 1, f"{byte:02x} is neither true nor false")
        return byte == 1

    def text(self) -> str | None:
        """A String, or the name of a class."""
        reader = self.reader
        start = reader.at
        if start < len(reader.raw) and reader.raw[start] < 0x80:
            last = _LAST.search(reader.raw, start)
            if last is None:
                raise truncated(len(reader.raw))
            body = reader.take(last.start() + 1 - start)
            return (body[:-1] + bytes((body[-1] & 0x7F,))).decode("ascii")
        _, size = read_flagged(reader)
        return utf16.read(reader, size - 1) if size else None
