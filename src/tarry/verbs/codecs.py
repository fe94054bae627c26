"""Codecs: how a body becomes bytes and comes back.

    ``type=None``    JSON for everything, ``bytes`` unchanged (a flag in the job's head tells which)
    ``type=bytes``   bytes unchanged
    ``type=Order``   JSON by msgspec, validated against ``Order`` (a Struct, dataclass, TypedDict, …) when read

A custom codec is any object with ``encode(body) -> bytes`` and ``decode(bytes) -> body``.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from tarry.errors import BadInput, BodyError

T = TypeVar("T")
JSON, RAW = 0, 1
"""Flags in a job's head: the body is JSON (or the output of a custom codec), or plain bytes."""
_TEXT = frozenset((str,))
_INEXACT = frozenset((set, frozenset, Decimal, datetime))
"""Types whose values JSON returns as others; also ``date``, ``UUID``, ``Enum`` and the like, which are text that says all they say."""
_DICTS = frozenset((dict, Counter, OrderedDict, defaultdict))
_EXACT = frozenset((str, int, bool, type(None)))
"""Types whose values JSON returns as they were."""


class Codec(Protocol[T]):
    """Encodes and decodes the bodies of a topic."""

    def encode(self, body: T, /) -> bytes: ...
    def decode(self, raw: bytes, /) -> T: ...


class BodyCodec(Generic[T]):
    """The codec of one topic, with the limit of a body's size."""

    __slots__ = ("_class", "_codec", "_raw", "is_custom", "limit")

    def __init__(self, kind: type[T] | Codec[T] | None, limit: int) -> None:
        self.limit = limit
        self._raw = kind is None or kind is bytes
        self._class: type[Any] | None = bytes if kind is bytes else None
        self._codec: Codec[T]
        self.is_custom = False
        """Whether the codec is a custom one."""
        if kind is None or kind is bytes:
            self._codec = cast("Codec[T]", _Json(Any))
        elif hasattr(kind, "encode") and hasattr(kind, "decode") and not isinstance(kind, type):
            self._codec, self.is_custom = kind, True
        else:
            self._codec = cast("Codec[T]", _Json(kind))
            if isinstance(kind, type) and not getattr(kind, "_is_protocol", False) and kind is not float:
                self._class = kind if not _is_typed_dict(kind) else dict

    def encode(self, body: T) -> tuple[bytes, int]:
        """The body's bytes and flag. Raises ``BadInput`` if it cannot be encoded."""
        flag = JSON
        value: Any = body
        is_dict = type(value) is dict  # as most are: they need fewer checks
        if not is_dict and self._raw and isinstance(body, (bytes, bytearray, memoryview)):
            raw, flag = bytes(body), RAW
        elif self._class is not None and not isinstance(body, self._class):
            raise BadInput(f"body: {type(body).__name__} given, the topic's type is {self._class.__name__}.")
        else:
            try:
                raw = self._codec.encode(body)
            except (TypeError, ValueError, RecursionError) as fault:
                raise BadInput(f"body: {fault}; give JSON data, bytes, or a type= to the topic.") from fault
        if not is_dict or not (_EXACT.issuperset(map(type, value.values())) and {*map(type, value)} <= _TEXT):
            self._refuse_inexact(body, raw, flag)
        if len(raw) > self.limit:
            raise BadInput(
                f"body: {len(raw)} bytes; the limit is {self.limit}. Store it elsewhere and add its address."
            )
        return raw, flag

    def _refuse_inexact(self, body: T, raw: bytes, flag: int) -> None:
        """Refuses what would come back as something else."""
        if self._raw and flag == JSON and (problem := problem_of_json(body)) is not None:
            raise BadInput(f"body: {problem}, or a type= to the topic.")
        if b"null" in raw and _has_nan(body):
            raise BadInput("body: it contains a number that is not finite, which JSON does not have; use None or text.")

    def decode(self, raw: bytes, flag: int) -> T:
        """The body. Raises ``BodyError`` if it is not of the topic's type."""
        if flag == RAW:
            if self._raw:
                return cast("T", raw)
            raise BodyError("body: it is plain bytes, and the topic's type is another. Read job.raw.")
        if self._class is bytes:
            return cast("T", raw)
        try:
            return self._codec.decode(raw)
        except Exception as fault:
            raise BodyError(f"body: {fault}. Bury the job, or read job.raw.") from fault


class _Json(Generic[T]):
    __slots__ = ("decode", "encode")

    def __init__(self, kind: Any) -> None:
        try:
            self.decode = msgspec.json.Decoder(kind).decode
        except TypeError as fault:
            raise BadInput(f"type: {fault}.") from fault
        self.encode = msgspec.json.Encoder().encode


def _is_typed_dict(kind: type[Any]) -> bool:
    return hasattr(kind, "__required_keys__")


def problem_of_json(value: Any) -> str | None:
    """Why a value, or one of its own values, or a key of these, would come back as another one, and what to give. Deeper ones are not looked
    for: that would cost more than the encoding."""
    inner: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    )
    kinds = {type(value), *map(type, inner)}
    if not _INEXACT.isdisjoint(kinds):
        for one in (value, *inner):
            if isinstance(one, (set, frozenset)):
                return "JSON has no set, it would come back as a list; give a list"
            if isinstance(one, Decimal):
                return f"JSON has no Decimal, {one} would come back as text; give text or a float"
            if isinstance(one, datetime) and one.tzinfo is None:
                return f"the datetime {one} has no time zone, and would come back as text; give one with a time zone"
    if isinstance(value, dict) or not _DICTS.isdisjoint(kinds):
        dicts = [one for one in (value, *inner) if isinstance(one, dict)]
        if not {*map(type, chain.from_iterable(dicts))} <= _TEXT:
            for key in chain.from_iterable(dicts):
                if not isinstance(key, str):
                    return f"JSON has only text as keys, {key!r} would come back as {str(key)!r}; give text"
    return None


def _has_nan(body: Any) -> bool:
    """Whether it contains a number that JSON would silently turn into ``null``."""
    if isinstance(body, float):
        return not math.isfinite(body)
    if isinstance(body, dict):
        return any(map(_has_nan, body.values()))
    if isinstance(body, (list, tuple, set, frozenset)):
        return any(map(_has_nan, body))
    fields: Iterable[str] = getattr(body, "__struct_fields__", ()) or getattr(body, "__dataclass_fields__", ())
    return any(_has_nan(getattr(body, name, None)) for name in fields)
