"""Codecs: how a body becomes bytes and comes back.

    ``type=None``    JSON for everything, ``bytes`` unchanged (a flag in the job's head tells which)
    ``type=bytes``   bytes unchanged
    ``type=Order``   JSON by msgspec, validated against ``Order`` (a Struct, dataclass, TypedDict, …) when read

A custom codec is any object with ``encode(body) -> bytes`` and ``decode(bytes) -> body``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, Protocol, TypeVar, cast

import msgspec

from tarry.errors import BadInput, BodyError

T = TypeVar("T")
JSON, RAW = 0, 1
"""Flags in a job's head: the body is JSON (or the output of a custom codec), or plain bytes."""
JSON_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The exceptions of msgspec for bytes that are no JSON, or not that of a type, or nested too deeply."""
_TEXT = frozenset((str,))
_INEXACT = frozenset((set, frozenset, Decimal, datetime))
"""Types whose values JSON returns as others; also ``date``, ``UUID``, ``Enum`` and the like, which are text that says all they say."""
_EXACT = frozenset((str, int, bool, type(None)))
"""Types whose values JSON returns as they were."""
_TOO_DEEP = "body: it is nested too deeply; give a flatter one, or a type= to the topic."
_encode_with_text_keys = msgspec.json.Encoder(order="deterministic").encode
"""Raises ``TypeError`` for a dict with other keys than text, because it sorts them. Nothing else finds one as fast, at any depth."""


class Codec(Protocol[T]):
    """Encodes and decodes the bodies of a topic."""

    def encode(self, body: T, /) -> bytes:
        """Returns the bytes to store for a body."""
        ...

    def decode(self, raw: bytes, /) -> T:
        """Returns the body that the stored bytes encode."""
        ...


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
        is_dict = type(value) is dict  # as most are; these need fewer checks
        if not is_dict and self._raw and isinstance(body, (bytes, bytearray, memoryview)):
            raw, flag = bytes(body), RAW
        elif self._class is not None and not isinstance(body, self._class):
            raise BadInput(f"body: {type(body).__name__} given, the topic's type is {self._class.__name__}.")
        else:
            try:
                raw = self._codec.encode(body)
            except RecursionError as fault:
                raise BadInput(_TOO_DEEP) from fault
            except (TypeError, ValueError) as fault:
                raise BadInput(f"body: {fault}; give JSON data, bytes, or a type= to the topic.") from fault
        if not is_dict or not (_EXACT.issuperset(map(type, value.values())) and {*map(type, value)} <= _TEXT):
            try:
                self._refuse_inexact(body, raw, flag)
            except RecursionError as fault:
                raise BadInput(_TOO_DEEP) from fault
        if len(raw) > self.limit:
            raise BadInput(
                f"body: {len(raw)} bytes; the limit is {self.limit}. Store it elsewhere and add its address."
            )
        return raw, flag

    def _refuse_inexact(self, body: T, raw: bytes, flag: int) -> None:
        """Refuses what would come back as something else."""
        if self._raw and flag == JSON and (problem := problem_of_json(body)) is not None:
            raise BadInput(f"body: {problem}, or a type= to the topic.")
        if b"null" in raw and has_nan(body):
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
    """Why a value, one of its own values, or a key anywhere in it would come back as another one, and what to give. Other values deeper
    inside are not looked for, because that would cost more than the encoding."""
    inner = _values_in(value) if isinstance(value, (dict, list, tuple)) else ()
    kinds = {*map(type, inner)}
    if type(value) in _INEXACT or not _INEXACT.isdisjoint(kinds):
        for one in (value, *inner):
            if isinstance(one, (set, frozenset)):
                return "JSON has no set, it would come back as a list; give a list"
            if isinstance(one, Decimal):
                return f"JSON has no Decimal, {one} would come back as text; give text or a float"
            if isinstance(one, datetime) and one.tzinfo is None:
                return f"the datetime {one} has no time zone, and would come back as text; give one with a time zone"
    if not _EXACT.issuperset(kinds if isinstance(value, (list, tuple)) else {type(value)}):
        try:
            _encode_with_text_keys(value)
        except (TypeError, ValueError, RecursionError):
            for key in _other_keys(value):
                return f"JSON has only text as keys, {key!r} would come back as {str(key)!r}; give text"
    return None


def _other_keys(value: Any) -> Iterator[Any]:
    """The keys that are not text, of all dicts in a value."""
    if isinstance(value, dict):
        yield from (key for key in value if not isinstance(key, str))
    for one in _values_in(value):
        yield from _other_keys(one)


def has_nan(body: Any) -> bool:
    """Whether it contains a number that JSON would silently turn into ``null``."""
    return not math.isfinite(body) if isinstance(body, float) else any(map(has_nan, _values_in(body)))


def _values_in(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    fields: Iterable[str] = getattr(value, "__struct_fields__", ()) or getattr(value, "__dataclass_fields__", ())
    return [getattr(value, name, None) for name in fields]
