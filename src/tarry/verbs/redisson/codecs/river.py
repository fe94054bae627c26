"""``"river"``: MarshallingCodec, the River protocol of JBoss Marshalling; the default of Redisson 3.13 to 3.18.

    04 │ code │ …
         01                   null             49 i8      Byte          4D u16   Character
         3D                   ""               4A i16     Short         4E f32   Float
         3E n8   │ text       String           4B i32     Integer       4F f64   Double
         3F n16  │ text                        4C i64     Long          50, 51   true, false
         40 n32  │ text                        52 5A              ArrayList, empty
         41 21                byte[], empty    53 n8 5A │ items   ArrayList
         42 n8  21 │ bytes    byte[]           54 n16, 55 n32
         43 n16, 44 n32                        39 i8, 3A i16, 02 i32   a String or byte[] again

Rules
- Numbers are big endian. An n8 of 0 means 256, an n16 of 0 means 65536. A text's length counts UTF-16 units, its bytes are
  modified UTF-8.
- Java writes the same object once, and then how far back it was. We read that and write the object again: right for
  every reader, but not the same bytes.
- Everything else (maps, sets, dates, beans) comes with a class descriptor: ``Opaque``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from tarry.errors import BadInput
from tarry.verbs.redisson.codecs import utf16
from tarry.verbs.redisson.codecs.reader import DEPTH, ByteReader, NotReadable, unexpected
from tarry.verbs.redisson.values import Byte, Char, Float, Long, Opaque, Short, java_type

VERSION = 0x04
NULL, AGAIN_FAR, AGAIN, AGAIN_FARTHER = 0x01, 0x02, 0x39, 0x3A
EMPTY_STRING, STRING, EMPTY_ARRAY, ARRAY = 0x3D, 0x3E, 0x41, 0x42
EMPTY_COLLECTION, COLLECTION = 0x52, 0x53
TRUE, FALSE = 0x50, 0x51
OF_BYTES, ARRAY_LIST = 0x21, 0x5A

_I8, _U8 = struct.Struct(">b"), struct.Struct(">B")
_I16, _U16 = struct.Struct(">h"), struct.Struct(">H")
_I32, _I64 = struct.Struct(">i"), struct.Struct(">q")
_F32, _F64 = struct.Struct(">f"), struct.Struct(">d")
_SIZES = (_U8, _U16, _I32)
_PLAIN = {NULL: None, TRUE: True, FALSE: False, EMPTY_STRING: ""}
_MISSING = object()
REPEATED = 1 << 20
"""How many bytes may come again: a few bytes must not become a list of gigabytes when it is written."""

_NUMBERS: dict[int, tuple[str, struct.Struct, Callable[[Any], Any]]] = {
    0x49: ("Byte", _I8, Byte),
    0x4A: ("Short", _I16, Short),
    0x4B: ("Integer", _I32, int),
    0x4C: ("Long", _I64, Long),
    0x4D: ("Character", _U16, lambda unit: Char(chr(unit))),
    0x4E: ("Float", _F32, Float),
    0x4F: ("Double", _F64, float),
}
_CODES = {name: (code, layout) for code, (name, layout, _) in _NUMBERS.items()}


class RiverCodec:
    """Scalars and lists of them in the River protocol."""

    __slots__ = ()

    def encode(self, value: Any, /) -> bytes:
        """The value as MarshallingCodec writes it."""
        if isinstance(value, Opaque):
            return value.raw
        out = bytearray((VERSION,))
        _write(out, value, 0)
        return bytes(out)

    def decode(self, raw: bytes, /) -> Any:
        """The value, or ``Opaque`` bytes."""
        stream = _Stream(raw)
        try:
            if stream.byte() != VERSION:
                raise NotReadable
            value = _read(stream, 0)
        except NotReadable:
            return Opaque(raw)
        stream.end()
        return value


def _write(out: bytearray, value: Any, depth: int) -> None:
    kind = java_type(value)
    if kind in _CODES:
        code, layout = _CODES[kind]
        out.append(code)
        out += layout.pack(ord(value) if kind == "Character" else value)
    elif kind == "null":
        out.append(NULL)
    elif kind == "Boolean":
        out.append(TRUE if value else FALSE)
    elif kind == "String":
        _sized(out, STRING, EMPTY_STRING, utf16.units(value))
        out += utf16.to_bytes(value).replace(b"\0", b"\xc0\x80")
    elif kind == "byte[]":
        _sized(out, ARRAY, EMPTY_ARRAY, len(value))
        out.append(OF_BYTES)
        out += value
    elif kind == "ArrayList":
        if depth >= DEPTH:
            raise BadInput(f"value: lists nested deeper than {DEPTH}.")
        _sized(out, COLLECTION, EMPTY_COLLECTION, len(value))
        out.append(ARRAY_LIST)
        for item in value:
            _write(out, item, depth + 1)
    else:
        raise BadInput(f"value: the river codec cannot write a {kind}. Give scalars and lists, or use json or kryo5.")


def _sized(out: bytearray, code: int, empty: int, count: int) -> None:
    """The code for a size of one, two or four bytes, and the size."""
    if count == 0:
        out.append(empty)
        return
    step = (count > 0x100) + (count > 0x10000)
    out.append(code + step)
    out += _SIZES[step].pack(count if step == 2 else count & (0xFF, 0xFFFF)[step])


class _Stream(ByteReader):
    """The bytes, and the objects so far that may come again."""

    __slots__ = ("repeated", "seen")

    def __init__(self, raw: bytes) -> None:
        super().__init__(raw)
        self.seen: list[Any] = []
        self.repeated = 0

    def remember(self, value: Any) -> Any:
        """Number an object, so that it may come again."""
        self.seen.append(value)
        return value


def _read(stream: _Stream, depth: int) -> Any:
    """The value that is next."""
    code = stream.byte()
    if code in _NUMBERS:
        _, layout, make = _NUMBERS[code]
        return make(stream.unpack_one(layout))
    if code in _PLAIN:
        return _PLAIN[code]
    if STRING <= code < STRING + 3:
        return stream.remember(utf16.read(stream, _size(stream, code - STRING)))
    if code == EMPTY_ARRAY or ARRAY <= code < ARRAY + 3:
        return stream.remember(_bytes(stream, 0 if code == EMPTY_ARRAY else _size(stream, code - ARRAY)))
    if code == EMPTY_COLLECTION or COLLECTION <= code < COLLECTION + 3:
        return _list(stream, 0 if code == EMPTY_COLLECTION else _size(stream, code - COLLECTION), depth)
    if code in (AGAIN, AGAIN_FARTHER, AGAIN_FAR):
        return _repeated(stream, code)
    raise NotReadable


def _size(stream: _Stream, step: int) -> int:
    size: int = stream.unpack_one(_SIZES[step])
    if size < 0:
        raise unexpected(stream.at, f"a size of {size}")
    return size or (0x100, 0x10000, 0)[step]


def _bytes(stream: _Stream, size: int) -> bytes:
    if stream.byte() != OF_BYTES:
        raise NotReadable  # an array of something else
    return stream.take(size)


def _list(stream: _Stream, size: int, depth: int) -> list[Any]:
    if stream.byte() != ARRAY_LIST or depth >= DEPTH:
        raise NotReadable  # another collection
    stream.remember(_MISSING)  # it may come again in Java; two names for one list would surprise in Python
    return [_read(stream, depth + 1) for _ in stream.items(size)]


def _repeated(stream: _Stream, code: int) -> Any:
    """An object that was there before."""
    place: int
    if code == AGAIN_FAR:
        place = stream.unpack_one(_I32)
    elif code == AGAIN:
        place = len(stream.seen) + stream.byte() - 0x100
    else:
        place = len(stream.seen) + stream.unpack_one(_U16) - 0x10000
    if not 0 <= place < len(stream.seen):
        raise unexpected(stream.at, "an object that never was is said to come again")
    found = stream.seen[place]
    if found is _MISSING:
        raise NotReadable
    stream.repeated += len(found)
    if stream.repeated > REPEATED:
        raise NotReadable
    return found
