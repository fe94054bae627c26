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
import math
from typing import Any

from tarry.errors import BadInput
from tarry.verbs.redisson.codecs.decimal import java_decimal
from tarry.verbs.redisson.codecs.jackson_classes import MAPS, SEQUENCES, WRAPPED, is_class_name, quoted
from tarry.verbs.redisson.codecs.jackson_decoder import read_json
from tarry.verbs.redisson.codecs.reader import DEPTH, NotReadable
from tarry.verbs.redisson.java_hash import map_order, set_order
from tarry.verbs.redisson.values import CLASS, Opaque, fits, java_type


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
