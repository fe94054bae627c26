"""``"kryo5"``: Kryo5Codec with references off, the default of Redisson since 3.19.

    tag │ body
    00  null                         06  Byte        i8
    01  a class by name, see below   07  Character   u16 LE
    02  Integer   zig-zag varint     08  Short       i16 LE
    03  String    see below          09  Long        zig-zag varint of at most 9 bytes, the 9th holds 8 bits
    04  Float     f32 LE             0A  Double      f64 LE
    05  Boolean   00, 01

    01 │ number │ name │ body        the name only when its number is new; then
         [B                          n+1 │ bytes
         java.util.ArrayList         same, n+1 │ items   same: class, nulls, then bodies; else each with its tag
         java.util.HashSet           likewise
         java.util.HashMap           n+1 │ key, value, each with its tag; LinkedHashMap likewise

    String     2 to 32 characters, all ASCII    the last has its high bit set
               else                             1, units+1 │ UTF-16 units in one to three bytes (80 = null, 81 = "")

Rules
- "same, n+1" is a varint whose first byte has a flag in its highest bit: six bits of the number, 40 = more follow.
- In a collection with nulls each item without a null of its own is preceded by 00 or 01.
- A bean has its fields without names, so its class is needed: ``Opaque``, as everything else.
"""

from __future__ import annotations

from typing import Any

from tarry.errors import BadInput
from tarry.verbs.redisson.codecs import utf16
from tarry.verbs.redisson.codecs.kryo_decoder import read_value
from tarry.verbs.redisson.codecs.kryo_tags import CLASSES, LAYOUTS, NULLABLE, TAGS, flagged, varint, zigzag
from tarry.verbs.redisson.codecs.reader import DEPTH, ByteReader, NotReadable
from tarry.verbs.redisson.java_hash import map_order, set_order
from tarry.verbs.redisson.values import Opaque, java_type


class Kryo5Codec:
    """Scalars, lists, sets and maps as Kryo 5 writes them."""

    __slots__ = ()

    def encode(self, value: Any, /) -> bytes:
        """The value as Kryo5Codec writes it."""
        if isinstance(value, Opaque):
            return value.raw
        writer = _Writer()
        writer.value(value, 0)
        return bytes(writer.out)

    def decode(self, raw: bytes, /) -> Any:
        """The value, or ``Opaque`` bytes."""
        reader = ByteReader(raw)
        try:
            value = read_value(reader)
        except NotReadable:
            return Opaque(raw)
        reader.end()
        return value


class _Writer:
    """The bytes written so far, and the names of classes in them."""

    __slots__ = ("names", "out")

    def __init__(self) -> None:
        self.out = bytearray()
        self.names: dict[str, int] = {}

    def value(self, value: Any, depth: int) -> None:
        """The tag or name of its class, and the value."""
        kind = java_type(value)
        self.kind(kind)
        if kind != "null":
            self.body(kind, value, depth)

    def kind(self, kind: str) -> None:
        """The tag of a class, or its number and, the first time, its name."""
        if kind in TAGS:
            self.out.append(TAGS[kind])
            return
        if kind not in CLASSES:
            raise BadInput(f"value: the kryo5 codec cannot write a {kind} here. Give plain data, or use json.")
        self.out.append(TAGS["by name"])
        known = kind in self.names
        number = self.names.setdefault(kind, len(self.names))
        self.out += varint(number)
        if not known:
            self.text(CLASSES[kind])

    def body(self, kind: str, value: Any, depth: int) -> None:
        """The value without its class."""
        if kind == "String":
            self.text(value)
        elif kind in ("Integer", "Long"):
            self.out += varint(zigzag(value), most=9)
        elif kind == "Character":
            self.out += LAYOUTS[kind].pack(ord(value))
        elif kind in LAYOUTS:
            self.out += LAYOUTS[kind].pack(value)
        elif kind == "byte[]":
            self.out += varint(len(value) + 1) + value
        elif depth >= DEPTH:
            raise BadInput(f"value: collections nested deeper than {DEPTH}.")
        elif kind in ("HashMap", "LinkedHashMap"):
            self.out += varint(len(value) + 1)
            for key in map_order(value) if kind == "HashMap" else value:
                self.value(key, depth + 1)
                self.value(value[key], depth + 1)
        else:
            self.items(set_order(value) if kind == "HashSet" else value, depth)

    def items(self, items: Any, depth: int) -> None:
        """The items of a list or set: the class once if it is the same for all."""
        kinds = {java_type(item) for item in items}
        nulls = "null" in kinds
        kinds.discard("null")
        if not items:
            self.out.append(1)
        elif len(kinds) > 1:
            self.out += flagged(False, len(items) + 1)
            for item in items:
                self.value(item, depth + 1)
        else:
            self.out += flagged(True, len(items) + 1)
            kind = kinds.pop() if kinds else "null"
            self.kind(kind)
            if kind != "null":
                self.out.append(nulls)
                for item in items:
                    self.same(kind, item, depth, nulls=nulls)

    def same(self, kind: str, item: Any, depth: int, *, nulls: bool) -> None:
        """An item whose class was said."""
        if nulls and kind not in NULLABLE:
            self.out.append(item is not None)
        if item is not None:
            self.body(kind, item, depth + 1)
        elif kind in NULLABLE:
            self.out.append(NULLABLE[kind])

    def text(self, text: str) -> None:
        """A String, or the name of a class."""
        if text.isascii() and 2 <= len(text) <= 32:
            self.out += text.encode("ascii")
            self.out[-1] |= 0x80
            return
        self.out += flagged(True, utf16.units(text) + 1)
        self.out += utf16.to_bytes(text)
