"""``"long"``: LongCodec, a number of 64 bits as decimal text.

42      34 32          -7      2D 37
"""

from __future__ import annotations

import re

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.values import Opaque, fits

_NUMBER = re.compile(rb"[+-]?[0-9]{1,19}")


class LongCodec:
    """A number as decimal text."""

    __slots__ = ()

    def encode(self, value: int | Opaque, /) -> bytes:
        """The number's digits."""
        if isinstance(value, Opaque):
            return value.raw
        if not isinstance(value, int) or isinstance(value, bool):
            raise BadInput(f"value: {type(value).__name__} given, the codec is long: give an int.")
        if not fits(value, 64):
            raise BadInput("value: the number does not fit 64 bits, so it is no Java Long.")
        return b"%d" % value

    def decode(self, raw: bytes, /) -> int:
        """The number."""
        value = int(raw) if _NUMBER.fullmatch(raw) else None
        if value is None or not fits(value, 64):
            raise BodyError(f"{raw[:40]!r} is no number of 64 bits. Was another codec used to write it?")
        return value
