"""The codecs of one scalar: ``"string"``, ``"long"`` and ``"bytes"``.

    StringCodec      text in UTF-8                AAAA    41 41 41 41      😀   F0 9F 98 80      the empty text is no bytes
    LongCodec        a number as decimal text     42      34 32            -7   2D 37
    ByteArrayCodec   bytes as they are

For StringCodec Java writes ``toString()`` of whatever it is given. tarry writes what that says of a number or a bool; all of it
comes back as text. How Java writes a Double or a Float (``Double.toString``):

    0.001 ≤ |x| < 10⁷     plain, with a digit after the point        1.5  100.0  9999999.0
    else                  one digit, point, digits, E, exponent      1.0E7  1.0E-5  1.5E300

The digits are the fewest that read back as the same number, as in Python, and in Java since 19; where one would do,
Java takes the nearest of two (4.9E-324). Older Javas write a needless digit for a few numbers.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.values import Opaque, fits, java_type, shortest

_NUMBER = re.compile(rb"[+-]?[0-9]{1,19}")


class StringCodec:
    """Text in UTF-8."""

    __slots__ = ()

    def encode(self, value: str | float | Opaque, /) -> bytes:
        """The text's bytes; of a number or a bool, of what Java's ``toString`` says."""
        if isinstance(value, Opaque):
            return value.raw
        if isinstance(value, str):
            try:
                return value.encode()
            except UnicodeEncodeError:
                raise BadInput("value: the text has half a surrogate pair, which UTF-8 cannot say.") from None
        if isinstance(value, bool):
            return b"true" if value else b"false"
        if isinstance(value, (int, float)):
            java_type(value)
            return java_decimal(value).encode() if isinstance(value, float) else b"%d" % value
        raise BadInput(f"value: {type(value).__name__} given, the codec is string: give a str or a number.")

    def decode(self, raw: bytes, /) -> str:
        """The text."""
        try:
            return raw.decode()
        except UnicodeDecodeError as fault:
            raise BodyError(f"The bytes are not UTF-8 ({fault}). Was another codec used to write them?") from None


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


class BytesCodec:
    """Bytes as they are."""

    __slots__ = ()

    def encode(self, value: bytes | Opaque, /) -> bytes:
        """The bytes."""
        if isinstance(value, Opaque):
            return value.raw
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise BadInput(f"value: {type(value).__name__} given, the codec is bytes.")
        return bytes(value)

    def decode(self, raw: bytes, /) -> bytes:
        """The bytes."""
        return raw


def java_decimal(value: float) -> str:
    """The number as Java's ``toString`` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = shortest(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text
    number = Decimal(text)
    if len(_digits(number)) == 1 and type(value)(float(two := f"{float(value):.1e}")) == value:
        number = Decimal(two)
    digits = _digits(number)
    return f"{'-' * (value < 0)}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"


def _digits(number: Decimal) -> str:
    return "".join(map(str, number.as_tuple().digits)).rstrip("0")
