"""``"string"``: StringCodec, text in UTF-8.

    AAAA    41 41 41 41      😀   F0 9F 98 80      the empty text is no bytes

Java writes ``toString()`` of whatever it is given. So do we for what a number or a bool says there; all of it comes
back as text.
"""

from __future__ import annotations

from tarry.errors import BadInput, BodyError
from tarry.verbs.redisson.codecs.decimal import java_decimal
from tarry.verbs.redisson.values import Opaque, java_type


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
