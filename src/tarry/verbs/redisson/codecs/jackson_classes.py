"""The classes that Jackson names in JSON, and its way to write text. The picture is in ``jackson``."""

from __future__ import annotations

import re
from typing import TypeGuard

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
