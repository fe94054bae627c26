"""Heads of requests that are refused, though the parser takes them: two servers could read them as different requests."""

from __future__ import annotations

from collections.abc import Sequence

from tarry.errors import BadInput
from tarry.programs.serving.problems import LongHead, UnknownTransferCoding, UnknownVersion

LONGEST_HEAD = 64 << 10
VERSIONS = ("1.1", "1.0")
_SCHEMES = (b"http://", b"https://")
"""Of a whole URL as target. The parser finds a path in one of any other scheme, too."""
_DECIDING = frozenset({b"upgrade", b"transfer-encoding"})


def fault_of(
    version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]], *, size: int, upgrades: bool
) -> Exception | None:
    """Why a head is refused, if it is. ``size`` is at least that of the head. The names of the headers are in lower case."""
    hosts, decides = 0, False
    for name, _ in headers:
        if name == b"host":
            hosts += 1
        elif name in _DECIDING:
            decides = True
    if hosts == 1 and version == "1.1" and size <= LONGEST_HEAD and not upgrades and not decides and url[:1] == b"/":
        return None
    if size > LONGEST_HEAD and _size_of(url, headers) > LONGEST_HEAD:
        return LongHead()
    if version not in VERSIONS:
        return UnknownVersion(f"The request is of HTTP/{version}; this service speaks HTTP/1.1.")
    if url[:1] != b"/" and url != b"*" and not url.lower().startswith(_SCHEMES):
        return BadInput("request: its target begins with a slash, or with http:// or https://.")
    if upgrades or b"upgrade" in dict(headers):
        return BadInput("request: the protocol stays HTTP/1.1; leave out the line Upgrade.")
    if hosts > 1:
        return BadInput("request: Host is given twice.")
    if hosts == 0 and version == "1.1":
        return BadInput("request: it has no Host header, which HTTP/1.1 requires.")
    codings = [value.strip().lower() for name, value in headers if name == b"transfer-encoding"]
    if codings and version == "1.0":
        return BadInput("request: HTTP/1.0 has no Transfer-Encoding.")
    return None if codings in ([], [b"chunked"]) else UnknownTransferCoding()


def _size_of(url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> int:
    """How many bytes the head has, about."""
    return len(url) + sum(len(name) + len(value) + len(": \r\n") for name, value in headers)
