"""Java's types in Python, and classes for Java types that Python does not have.

    Python                            Java               and back
    None                              null               None
    bool                              Boolean            bool
    int, fits 32 bits                 Integer            int
    int, fits 64 bits; Long(7)        Long               Long
    float                             Double             float
    Float(1.5) Short(7) Byte(7)       Float, Short, Byte the same
    str; Char("c")                    String, Character  str, Char
    bytes, bytearray                  byte[]             bytes
    list, tuple                       ArrayList          list
    dict; LinkedHashMap(…)            HashMap, …         HashMap, a dict; LinkedHashMap
    set, frozenset                    HashSet            HashSet, a set
    Bean("com.shop.Order", {…})       a bean             Bean                      (JSON only)
    Opaque(b"…")                      anything else      Opaque, the same bytes

Rules
- A value that is read and written again has the same bytes, because each type of Java is a type here: a Long comes back as
  ``Long``, which is an ``int`` and equal to it, and a ``HashSet`` is a ``set`` that remembers the order in which it came.
  ``plain`` takes these names off again.
- A dict or set of Python's own is written in the order in which Java's HashMap or HashSet would have it (``hashing``).
- A value that Java cannot hold (an int of 65 bits) is ``BadInput``, before anything is written.
- ``Bean`` is explicit because Java creates an object of the class that it names. A plain dict with the key ``@class`` is
  refused: it may have come from a stranger.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tarry.errors import BadInput

CLASS = "@class"


class _Whole(int):
    bits: ClassVar[int]

    def __new__(cls, value: int) -> _Whole:
        if not fits(value, cls.bits):
            raise BadInput(f"{cls.__name__.lower()}: {value} does not fit {cls.bits} bits.")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"


class Long(_Whole):
    """A ``java.lang.Long``, small as it may be."""

    bits = 64


class Short(_Whole):
    """A ``java.lang.Short``."""

    bits = 16


class Byte(_Whole):
    """A ``java.lang.Byte``, which is signed."""

    bits = 8


class Float(float):
    """A ``java.lang.Float``: the nearest number of 32 bits."""

    def __new__(cls, value: float) -> Float:
        near = _nearest(value)
        if near is None:
            raise BadInput(f"float: {value} does not fit 32 bits.")
        return super().__new__(cls, near)

    def __repr__(self) -> str:
        return f"Float({shortest(self)})"


class Char(str):
    """A ``java.lang.Character``: one UTF-16 unit."""

    __slots__ = ()

    def __new__(cls, value: str) -> Char:
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise BadInput(f"char: {value!r} is not one UTF-16 unit.")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"Char({super().__repr__()})"


class HashMap(dict[Any, Any]):
    """A ``java.util.HashMap`` from Java: a dict that remembers its order, so that it is written as the same bytes."""

    read: tuple[Any, ...] = ()

    @classmethod
    def of(cls, pairs: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> HashMap:
        """As it came."""
        made = cls(pairs)
        made.read = tuple(made)
        return made

    def is_as_read(self) -> bool:
        """Whether its keys are those that came, or some of them, in their order."""
        left = iter(self.read)
        return all(any(_is(key, other) for other in left) for key in self)


class HashSet(set[Any]):
    """A ``java.util.HashSet`` from Java: a set that remembers its order, so that it is written as the same bytes."""

    read: tuple[Any, ...] = ()

    @classmethod
    def of(cls, items: Iterable[Any]) -> HashSet:
        """As it came."""
        read = tuple(items)
        made = cls(read)
        made.read = read
        return made

    def in_order(self) -> list[Any]:
        """Those of its members that came, in their order."""
        here = {item: item for item in self}
        return [item for item in self.read if item in here and _is(item, here[item])]


def _is(one: Any, other: Any) -> bool:
    """Whether two values are equal, and of the same Java type."""
    return one is other or (type(one) is type(other) and bool(one == other))


class LinkedHashMap(dict[Any, Any]):
    """A ``java.util.LinkedHashMap``, Java's map with an order."""

    def __repr__(self) -> str:
        return f"LinkedHashMap({super().__repr__()})"


class Bean(dict[str, Any]):
    """An object of a Java class with its fields, under the JSON codec.

    Java creates an object of the class that is named here: never take the name from input.
    """

    def __init__(self, java_class: str, fields: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        super().__init__(fields)
        self.java_class = java_class

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bean) and self.java_class == other.java_class and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as with every dict

    def __reduce__(self) -> tuple[Any, ...]:
        return Bean, (self.java_class, dict(self))

    def __repr__(self) -> str:
        return f"Bean({self.java_class!r}, {super().__repr__()})"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value that tarry cannot decode, as its bytes. Every codec encodes it to the same bytes again."""

    raw: bytes
    """The bytes of the value."""


_EXACT: dict[type, str] = {
    type(None): "null",
    bool: "Boolean",
    Long: "Long",
    Short: "Short",
    Byte: "Byte",
    Float: "Float",
    float: "Double",
    Char: "Character",
    str: "String",
    bytes: "byte[]",
    bytearray: "byte[]",
    Opaque: "Opaque",
    Bean: "Bean",
    LinkedHashMap: "LinkedHashMap",
    HashMap: "HashMap",
    dict: "HashMap",
    list: "ArrayList",
    tuple: "ArrayList",
    HashSet: "HashSet",
    set: "HashSet",
    frozenset: "HashSet",
}


def java_type(value: object) -> str:
    """The Java type of a value, by the table above. Raises ``BadInput`` if there is none."""
    name = _EXACT.get(type(value))
    if name is None and not isinstance(value, int):
        name = next((name for kind, name in _EXACT.items() if isinstance(value, kind)), None)
    if name is not None:
        return name
    if not isinstance(value, int):
        raise BadInput(f"value: {type(value).__name__} has no Java type here. Give plain data, or Opaque bytes.")
    if not fits(value, 64):
        raise BadInput("value: the number does not fit 64 bits, so it is no Java Long.")
    return "Integer" if fits(value, 32) else "Long"


def plain(value: Any) -> Any:
    """The value without Java's type names: ``Long(7)`` is 7, a ``Bean`` is a dict with ``@class``. ``Opaque`` stays."""
    if isinstance(value, dict):
        named = {CLASS: value.java_class} if isinstance(value, Bean) else {}
        return named | {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, set)):
        return (list if isinstance(value, list) else set)(plain(item) for item in value)
    if isinstance(value, _Whole):
        return int(value)
    if isinstance(value, Float):
        return float(value)
    return str(value) if isinstance(value, Char) else value


def shortest(value: float) -> str:
    """The shortest decimal that Java parses as the same number: of 32 bits for a ``Float``, else of 64."""
    if not isinstance(value, Float):
        return float.__repr__(value)
    texts = (f"{float(value):.{digits}g}" for digits in range(1, 10))
    return float.__repr__(float(next((text for text in texts if _nearest(float(text)) == value), "nan")))


def _nearest(value: float) -> float | None:
    """The nearest 32-bit number."""
    try:
        near: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return near


def fits(value: int, bits: int) -> bool:
    """Whether a value fits a signed number of ``bits`` bits."""
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)
