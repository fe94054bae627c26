"""``"bytes"``: ByteArrayCodec, bytes as they are."""

from __future__ import annotations

from tarry.errors import BadInput
from tarry.verbs.redisson.values import Opaque


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
