"""Reading what Jackson wrote. The picture is in ``jackson``."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable
from typing import Any

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.codecs.jackson_classes import MAPS, SEQUENCES, WRAPPED, is_class_name, quoted
from tarry.verbs.redisson.codecs.reader import DEPTH, NotReadable, as_set
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
)

FOREIGN_PREFIX = "org.redisson."
"""Classes that stand for something else: a RedissonReference is a Redisson object, not a bean."""


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
