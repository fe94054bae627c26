"""Java's text in bytes: its UTF-16 units, each in one to three bytes.

    U+0001…7F   one byte              é   C3 A9
    …U+07FF     two                   日  E6 97 A5
    …U+FFFF     three                 😀  ED A0 BD  ED B8 80   (two units, three bytes each)

U+0000 is ``C0 80`` in modified UTF-8 (River) and ``00`` in Kryo. Half a pair, which Java allows, comes back as what
Python has for it.
"""

from __future__ import annotations

import re

from tarry.verbs.redisson.codecs.reader import ByteReader, truncated, unexpected

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_PAIRS = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def units(text: str) -> int:
    """How long Java says the text is."""
    return len(text) if text.isascii() else len(text) + sum(1 for _ in _ASTRAL.finditer(text))


def to_bytes(text: str) -> bytes:
    """Each unit in its bytes; U+0000 is ``00``."""
    if text.isascii():
        return text.encode("ascii")
    return _ASTRAL.sub(lambda found: _halves(found[0]), text).encode("utf-8", "surrogatepass")


def read(reader: ByteReader, count: int) -> str:
    """Text of ``count`` units; ``C0 80`` is U+0000 too."""
    start = reader.at
    reader.items(count)
    head = reader.raw[start : start + count]
    if head.isascii():
        reader.at += count
        return head.decode("ascii")
    end = _end(reader.raw, start, count)
    body = reader.take(end - start).replace(b"\xc0\x80", b"\0")
    try:
        text = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise unexpected(start, "this is not text") from None
    return _PAIRS.sub(lambda found: _whole(found[0]), text)


def _end(raw: bytes, at: int, count: int) -> int:
    """The end of a text of ``count`` units."""
    for _ in range(count):
        if at >= len(raw):
            raise truncated(at)
        lead = raw[at]
        if lead < 0x80:
            at += 1
        elif 0xC0 <= lead < 0xE0:
            at += 2
        elif 0xE0 <= lead < 0xF0:
            at += 3
        else:
            raise unexpected(at, "this is not text")
    return at


def _halves(letter: str) -> str:
    rest = ord(letter) - 0x10000
    return chr(0xD800 + (rest >> 10)) + chr(0xDC00 + (rest & 0x3FF))


def _whole(pair: str) -> str:
    return chr(0x10000 + ((ord(pair[0]) - 0xD800) << 10) + ord(pair[1]) - 0xDC00)
