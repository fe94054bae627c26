"""The codecs that tarry and Redisson both speak, by name.

    "string"   StringCodec        text in UTF-8
    "long"     LongCodec          a number as decimal text
    "json"     JsonJacksonCodec   JSON with Java's classes in it
    "river"    MarshallingCodec   JBoss Marshalling's River; the default of 3.13 to 3.18
    "kryo5"    Kryo5Codec         the default since 3.19
    "bytes"    ByteArrayCodec     bytes as they are

Which Python type becomes which Java type, and what comes back, is the table in ``tarry.verbs.redisson.values``.

Rules
- ``encode`` takes what the table has (the binary codecs not all of it), else ``BadInput``; ``Opaque`` goes out as it is.
- ``decode`` answers the value; ``Opaque`` for what Java may know and we do not, a ``RedissonReference`` for instance;
  ``BodyError`` for bytes that no Java would have written: truncated, garbage, something after the end.
- Nothing is looked up, imported or executed by what foreign bytes say. Lengths are believed only as far as there are
  bytes; deeper than ``DEPTH`` is Opaque.
- Redisson compares encoded bytes. ``remove`` and ``contains`` find what Java offered if Python encodes the same bytes: always for
  scalars, lists, and what came from Java; for other maps and sets unless ``java_hash.reason_to_differ`` says why not.
  ``log_if_missed`` warns of it, once, when a value was not found that Java may have written as other bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tarry.errors import BadInput
from tarry.verbs.codecs import Codec
from tarry.verbs.redisson.codecs.jackson import JacksonCodec
from tarry.verbs.redisson.codecs.kryo import Kryo5Codec
from tarry.verbs.redisson.codecs.river import RiverCodec
from tarry.verbs.redisson.codecs.scalars import BytesCodec, LongCodec, StringCodec
from tarry.verbs.redisson.java_hash import reason_to_differ
from tarry.verbs.redisson.versions import RedissonVersion

logger = logging.getLogger("tarry")
CODECS: dict[str, Codec[Any]] = {
    "string": StringCodec(),
    "long": LongCodec(),
    "json": JacksonCodec(),
    "river": RiverCodec(),
    "kryo5": Kryo5Codec(),
    "bytes": BytesCodec(),
}
MOST_LOGGED = 256
"""The number of warnings that are remembered."""
HASHED = (CODECS["kryo5"], CODECS["json"])
"""The codecs that write maps and sets in the order of their hashes."""


def codec_for(codec: str | Codec[Any]) -> Codec[Any]:
    """The codec of a name; an object with ``encode`` and ``decode`` is one itself."""
    if isinstance(codec, str):
        if codec not in CODECS:
            raise BadInput(f"codec: {codec!r} is unknown; it is one of {', '.join(CODECS)}.")
        return CODECS[codec]
    if callable(getattr(codec, "encode", None)) and callable(getattr(codec, "decode", None)):
        return codec
    raise BadInput(f"codec: {type(codec).__name__} is not a codec; give a name, or an object with encode and decode.")


_FST = (
    "redisson: {} writes with FstCodec by default, which tarry does not speak. Set another codec in Java, for instance "
    'JsonJacksonCodec, and give its name here, too: codec="json".'
)
_UNKNOWN = (
    "redisson: it is not known which Redisson shares the {}, and its codec is never guessed. Give one of:",
    'redisson="3.15.1" (its version in Java; for all of a process TARRY_REDISSON);',
)
UNKNOWN_OF_DELAYED = "\n  ".join(
    (
        *_UNKNOWN,
        'codec="json", format="dLc0" (where Java sets another codec: its name; with "Bc0Lc0" from 3.21.1 on);',
        'codec="json", format="tarry" (where no Java application reads it).',
    )
)
UNKNOWN_OF_BLOCKING = "\n  ".join(
    (
        *_UNKNOWN,
        'codec="string" (where Java sets another codec: its name);',
        'codec="json" (where no Java application writes it).',
    )
)
UNKNOWN_OF_MAP = "\n  ".join(
    (
        *_UNKNOWN,
        'codec="json" (where Java sets another codec: its name);',
        'backend="native" (where no Java application shares it: a map of the client\'s namespace).',
    )
)


class UnknownCodec:
    """The codec of a queue or map of which nobody said who shares it. Raises ``BadInput`` with the arguments to choose from."""

    def __init__(self, refusal: str) -> None:
        self.refusal = refusal

    def encode(self, value: Any) -> bytes:  # noqa: ARG002  # a codec's signature
        raise BadInput(self.refusal)

    def decode(self, raw: bytes) -> Any:  # noqa: ARG002  # a codec's signature
        raise BadInput(self.refusal)


def codec_of(codec: str | Codec[Any] | None, version: RedissonVersion | None, unknown: str) -> Codec[Any]:
    """The codec that is given, else that of the version; without both one that refuses values with ``unknown``."""
    if codec is not None:
        return codec_for(codec)
    if version is None:
        return UnknownCodec(unknown)
    return UnknownCodec(_FST.format(version.text)) if version.codec is None else CODECS[version.codec]


def require_codec(codec: Codec[Any]) -> None:
    """Raises ``BadInput`` if nobody said which codec it is: for verbs that take values out."""
    if isinstance(codec, UnknownCodec):
        raise BadInput(codec.refusal)


def log_if_missed(found: bool, codec: Codec[Any], values: Iterable[Any], where: str) -> bool:
    """Returns ``found``; if false, logs why that may be wrong."""
    if not found and codec in HASHED:
        for why in filter(None, map(reason_to_differ, values)):
            _log(where, why)
    return found


@lru_cache(MOST_LOGGED)
def _log(where: str, why: str) -> None:
    logger.warning(
        "%s: a value was not found, but Java may have written it as other bytes: it has %s. Look for what was read from there, "
        "or let Java use a LinkedHashMap, a list or the string codec.",
        where,
        why,
    )
