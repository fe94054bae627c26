r"""``"json"``: JsonJacksonCodec, JSON that names Java's classes wherever they are not plain.

    "AAAA"  7  1.5  true  null              String, Integer, Double, Boolean, null
    ["java.lang.Long",7]                    Long
    ["java.util.ArrayList",[1,"a"]]         ArrayList; HashSet likewise
    {"@class":"java.util.HashMap","a":1}    HashMap; LinkedHashMap likewise
    {"@class":"com.shop.Order","id":1}      a bean: Bean("com.shop.Order", {"id": 1})
    "AQID"   or inside   ["[B","AQID"]      byte[]; alone it comes back as text, in Java as well
    1.5 "c"  or inside   ["java.lang.Float",1.5]      Float, Short, Byte, Character likewise

Rules
- Text is UTF-8, but beyond U+FFFF it is ``\uD83D\uDE00``; control characters are escaped, ``/`` is not.
- Keys are text. A None in a map or a bean is left out, in a list it stays.
- A field of a bean may be a bare ``long``: whole numbers stand there without a class; ``Long(7)`` is the boxed one.
- An unknown part of a value becomes ``Opaque``; so does the whole value if there is no other part: a
  RedissonReference, ``{"a":1}`` without a class (which Java refuses), ``["java.util.Date",1700000000000]``.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeGuard

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.codecs.reader import DEPTH, NotReadable, as_set
from tarry.verbs.redisson.codecs.scalars import java_decimal
from tarry.verbs.redisson.java_hash import map_order, set_order
from tarry.verbs.redisson.values import (
    CLASS,
    Bean,
    Byte,
    Char,
    Float,
    HashMap,
    LinkedHashMap,
    Long,
    Opaque,
    Short,
    fits,
    java_type,
)

WRAPPED = {
    "Long": "java.lang.Long",
    "Short": "java.lang.Short",
    "Byte": "java.lang.Byte",
    "Float": "java.lang.Float",
    "Character": "java.lang.Character",
    "byte[]": "[B",
}
SEQUENCES = {"ArrayList": "java.util.ArrayList", "HashSet": "java.util.HashSet"}
MAPS = {"HashMap": "java.util.HashMap", "LinkedHashMap": "java.util.LinkedHashMap"}

_SPECIAL = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
_CLASS_NAME = re.compile(r"[^\s\x00-\x1f]+")
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
FOREIGN_PREFIX = "org.redisson."
"""Classes that stand for something else: a RedissonReference is a Redisson object, not a bean."""


class JacksonCodec:
    """JSON as Jackson writes it with Redisson's settings."""

    __slots__ = ()

    def encode(self, value: Any, /) -> bytes:
        """The value as JsonJacksonCodec writes it."""
        if isinstance(value, Opaque):
            return value.raw
        return _text(value, 0, bare=True).encode()

    def decode(self, raw: bytes, /) -> Any:
        """The value, or ``Opaque`` bytes."""
        try:
            return read_json(raw)
        except NotReadable:
            return Opaque(raw)


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _text(value: Any, depth: int, *, bare: bool) -> str:
    """A value's JSON. ``bare``: at the root, where scalars other than a Long have no class."""
    kind = java_type(value)
    if kind in SEQUENCES or kind in MAPS or kind == "Bean":
        if depth >= DEPTH:
            raise BadInput(f"value: collections nested deeper than {DEPTH}.")
        return _object(kind, value, depth + 1) if kind not in SEQUENCES else _sequence(kind, value, depth + 1)
    text = _scalar(kind, value)
    return f'["{WRAPPED[kind]}",{text}]' if kind in WRAPPED and not (bare and kind != "Long") else text


def _scalar(kind: str, value: Any) -> str:
    if kind in ("null", "Boolean"):
        return "null" if value is None else "true" if value else "false"
    if kind in ("String", "Character"):
        return quoted(value)
    if kind == "byte[]":
        return f'"{base64.b64encode(value).decode()}"'
    if kind == "Opaque":
        return _encode_nested(value)
    if kind not in ("Double", "Float"):
        return str(int(value))
    if not math.isfinite(value):
        raise BadInput(f"value: JSON has no {value}.")
    return java_decimal(value)


def _encode_nested(value: Opaque) -> str:
    """An ``Opaque`` part inside a decoded value."""
    try:
        return value.raw.decode()
    except UnicodeDecodeError:
        raise BadInput("value: Opaque bytes inside of JSON are not JSON.") from None


def _sequence(kind: str, value: Any, depth: int) -> str:
    items = set_order(value) if kind == "HashSet" else value
    return f'["{SEQUENCES[kind]}",[{",".join(_text(item, depth, bare=False) for item in items)}]]'


def _object(kind: str, value: Any, depth: int) -> str:
    name = value.java_class if kind == "Bean" else MAPS[kind]
    if not is_class_name(name):
        raise BadInput(f"bean: {name!r} is not the name of a Java class.")
    parts = [f'"{CLASS}":{quoted(name)}']
    for key in map_order(value) if kind == "HashMap" else value:
        item = value[key]
        if not isinstance(key, str):
            raise BadInput(f"value: the key {key!r} is not a str; JSON has no other keys.")
        if key == CLASS:
            raise BadInput(
                f"value: the key {CLASS} would name a Java class. Use Bean(class, fields) if that is intended."
            )
        if item is None:
            continue
        whole = kind == "Bean" and type(item) is int and fits(item, 64)
        parts.append(f"{quoted(key)}:{item if whole else _text(item, depth, bare=False)}")
    return f"{{{','.join(parts)}}}"


def is_class_name(name: object) -> TypeGuard[str]:
    """Whether this is a valid name of a Java class."""
    return isinstance(name, str) and _CLASS_NAME.fullmatch(name) is not None


def quoted(text: str) -> str:
    """Text in quotes, escaped as Jackson escapes it; half a pair, which Jackson reads only, likewise."""
    return f'"{_SPECIAL.sub(lambda found: _escaped(found[0]), text)}"'


def _escaped(letter: str) -> str:
    if letter in _SHORT:
        return _SHORT[letter]
    units = letter.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Real(float):
    """A decimal number, and how it was written."""

    text: str


def read_json(raw: bytes) -> Any:
    """The value. Raises ``NotReadable`` if it cannot be decoded here."""
    try:
        return _parsed(raw)
    except RecursionError:
        raise NotReadable from None  # nested thousands of levels deep


def _parsed(raw: bytes) -> Any:
    try:
        tree = json.loads(raw.decode(), parse_float=_real, parse_constant=_constant)
    except UnicodeDecodeError as fault:
        raise BodyError(f"The bytes are not UTF-8 ({fault}). Was another codec used to write them?") from None
    except json.JSONDecodeError as fault:
        raise BodyError(f"The bytes are not JSON ({fault}). Was another codec used to write them?") from None
    except ValueError:
        raise NotReadable from None  # a number of thousands of digits
    return _value(tree, 0)


def _real(text: str) -> _Real:
    number = _Real(text)
    number.text = text
    return number


def _constant(text: str) -> Any:
    raise BodyError(f"{text} is not JSON. Was another codec used to write it?")


def _value(node: Any, depth: int) -> Any:
    """The Python value of a JSON node. Raises ``NotReadable`` if it has none."""
    if isinstance(node, (list, dict)):
        if depth >= DEPTH:
            raise NotReadable
        return _decode_tagged(node, depth) if isinstance(node, list) else _mapping(node, depth)
    if isinstance(node, _Real):
        if not math.isfinite(node):
            raise NotReadable
        return float(node)
    if isinstance(node, int) and not fits(node, 64):
        raise NotReadable
    return node


def _decode_nested(node: Any, depth: int) -> Any:
    """The Python value of a JSON node; a part that has none stays as it is."""
    try:
        return _value(node, depth)
    except NotReadable:
        return Opaque(_json(node).encode())


def _mapping(node: dict[str, Any], depth: int) -> Any:
    name = node.get(CLASS)
    if not is_class_name(name) or name.startswith(FOREIGN_PREFIX):
        raise NotReadable
    items = {key: _decode_nested(item, depth + 1) for key, item in node.items() if key != CLASS}
    if name == MAPS["HashMap"]:
        return HashMap.of(items)
    return LinkedHashMap(items) if name == MAPS["LinkedHashMap"] else Bean(name, items)


def _decode_tagged(node: list[Any], depth: int) -> Any:
    """``[class, value]``; an array of anything else has no class of its own, and only Java knows it."""
    if len(node) != 2 or not isinstance(node[0], str):
        raise NotReadable
    name, inner = node
    if name in SEQUENCES.values() and isinstance(inner, list):
        items = [_decode_nested(item, depth + 1) for item in inner]
        return items if name == SEQUENCES["ArrayList"] else as_set(items)
    if name not in _SCALARS:
        raise NotReadable
    kinds, make = _SCALARS[name]
    if not isinstance(inner, kinds) or isinstance(inner, bool):
        raise NotReadable
    try:
        return make(inner)
    except (BadInput, binascii.Error, ValueError):
        raise NotReadable from None


_SCALARS: dict[str, tuple[type | tuple[type, ...], Callable[[Any], Any]]] = {
    WRAPPED["Long"]: (int, Long),
    WRAPPED["Short"]: (int, Short),
    WRAPPED["Byte"]: (int, Byte),
    WRAPPED["Float"]: ((int, float), Float),
    WRAPPED["Character"]: (str, Char),
    WRAPPED["byte[]"]: (str, lambda text: base64.b64decode(text, validate=True)),
}


def _json(node: Any) -> str:
    """A node as it was written, without spaces and needless escapes."""
    if isinstance(node, dict):
        return "{" + ",".join(f"{quoted(key)}:{_json(item)}" for key, item in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ",".join(map(_json, node)) + "]"
    if isinstance(node, str):
        return quoted(node)
    if isinstance(node, _Real):
        return node.text
    return {None: "null", True: "true", False: "false"}[node] if node is None or isinstance(node, bool) else str(node)
