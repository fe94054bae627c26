"""Raw inputs of one connection, and what is expected: read by ``test_raw_inputs.py``, and by ``test_random_inputs.py`` as seeds.

Each input is followed by ``NEXT``, a valid request. An input that is judged is answered, and so is the next one; after any other the
connection is closed. Paths carry the mark ``M``, which each client replaces by its own.
"""

from __future__ import annotations

from dataclasses import dataclass

GET = b"GET /M/a HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /M/a HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /M/next HTTP/1.1\r\nHost: x\r\n\r\n"
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\nUpgrade: h2c\r\n"
BODY = b"abc"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
"""A body; it is nobody's request."""


@dataclass(frozen=True)
class RawInput:
    """Bytes, and the statuses that answer them and the next request; ``is_last`` if the connection is closed then."""

    name: str
    sent: bytes
    statuses: tuple[int, ...]
    is_last: bool
    haproxy: tuple[int, ...]
    """Debian's HAProxy answers so, or lets the service answer."""
    nginx: tuple[int, ...]


def _good(
    name: str, sent: bytes, haproxy: tuple[int, ...] = (200, 200), nginx: tuple[int, ...] = (200, 200)
) -> RawInput:
    return RawInput(name, sent, (200, 200), False, haproxy, nginx)


def _refused(
    name: str, sent: bytes, status: int = 400, haproxy: tuple[int, ...] = (400,), nginx: tuple[int, ...] = (400,)
) -> RawInput:
    return RawInput(name, sent, (status,), True, haproxy, nginx)


def _length(value: bytes) -> bytes:
    return POST + b"Content-Length:" + value + b"\r\n\r\n" + BODY


def _coding(value: bytes) -> bytes:
    return POST + b"Transfer-Encoding:" + value + b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n"


INPUTS = [
    # ── framing by Content-Length
    _good("a length", _length(b" 3")),
    _good("a length with a blank behind it", _length(b" 3 ")),
    _good("a length with a zero before it", _length(b" 03")),
    _good("no body", GET + b"\r\n"),
    _good("a body of a GET", GET + b"Content-Length: 3\r\n\r\n" + BODY),
    _refused("two lengths", POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"),
    _refused("two equal lengths", POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", haproxy=(200, 200)),
    _refused("a list of lengths", _length(b" 3, 3"), haproxy=(200, 200)),
    _refused("two numbers as a length", _length(b" 3 3")),
    _refused("a length with a plus", _length(b" +5")),
    _refused("a length with a minus", _length(b" -5")),
    _refused("a hexadecimal length", _length(b" 0x3")),
    _refused("an empty length", _length(b"")),
    _refused("a length of 23 digits", _length(b" " + b"9" * 23)),
    _refused("a length behind a vertical tab", _length(b"\x0b3")),
    _refused("a folded length", _length(b"\r\n 3"), haproxy=(200, 200)),
    # ── framing by Transfer-Encoding
    _good("chunks", _coding(b" chunked")),
    _good("chunks in capitals", _coding(b" CHUNKED")),
    _good("chunks behind a tab", _coding(b"\tchunked"), nginx=(501,)),
    _good("a chunk with an extension", CHUNKED + b"3;a=b\r\nabc\r\n0\r\n\r\n"),
    _good("a trailer", CHUNKED + b"3\r\nabc\r\n0\r\nHost: evil\r\nTrailing: y\r\n\r\n"),
    _refused(
        "a length and chunks",
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        haproxy=(200,),
    ),
    _refused(
        "chunks and a length",
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        haproxy=(200,),
    ),
    _refused("gzip, chunked", _coding(b" gzip, chunked"), 501, haproxy=(422,), nginx=(501,)),
    _refused("chunked, gzip", _coding(b" chunked, gzip"), nginx=(501,)),
    _refused("gzip and chunked in two lines", _coding(b" gzip\r\nTransfer-Encoding: chunked"), 501, haproxy=(422,)),
    _refused("chunked in two lines", _coding(b" chunked\r\nTransfer-Encoding: chunked")),
    _refused("an unknown coding", _coding(b" xchunked"), 501, nginx=(501,)),
    _refused("identity", _coding(b" identity"), 501, nginx=(501,)),
    _refused("chunks behind a vertical tab", _coding(b"\x0bchunked"), nginx=(501,)),
    _refused("chunks in a folded line", _coding(b"\r\n chunked"), haproxy=(200, 200)),
    _refused("chunks with a blank before the colon", POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    _refused("chunks in HTTP/1.0", b"POST /M/a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    _refused("a hexadecimal mark of a chunk", CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n"),
    _refused("a chunk with a plus", CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n"),
    _refused("a chunk with a minus", CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n"),
    _refused("a chunk with a blank", CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n", haproxy=(200, 200), nginx=(200, 200)),
    _refused("a chunk of 17 digits", CHUNKED + b"f" * 17 + b"\r\nabc"),
    _refused("a chunk that is longer than it says", CHUNKED + b"3\r\nabcx\r\n0\r\n\r\n"),
    _refused("chunks with a bare LF", CHUNKED + b"3\nabc\n0\n\n", haproxy=(200, 200), nginx=(200, 200)),
    _refused("a bare LF in an extension", CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n"),
    _refused("a line end in a quoted extension", CHUNKED + b'3;x="\r\n"\r\nabc\r\n0\r\n\r\n'),
    _refused(
        "a length in a trailer",
        CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
        haproxy=(400, 200),
        nginx=(200, 200),
    ),
    # ── Host
    _good("an empty Host", b"GET /M/a HTTP/1.1\r\nHost:\r\n\r\n", nginx=(400,)),
    _refused("two Hosts", GET + b"Host: y\r\n\r\n"),
    _refused("two equal Hosts", GET + b"Host: x\r\n\r\n", haproxy=(200, 200)),
    _refused("no Host", b"GET /M/a HTTP/1.1\r\n\r\n", haproxy=(400, 200)),
    _refused("two Hosts in HTTP/1.0", b"GET /M/a HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", haproxy=(200,)),
    # ── lines
    _good("an empty line before", b"\r\n" + GET + b"\r\n"),
    _good("a byte beyond ASCII in a value", GET + b"A: \xff\r\n\r\n"),
    _refused(
        "a bare LF behind the first line", b"GET /M/a HTTP/1.1\nHost: x\r\n\r\n", haproxy=(200, 200), nginx=(200, 200)
    ),
    _refused("a bare LF behind a header", GET + b"A: b\nB: c\r\n\r\n", haproxy=(200, 200), nginx=(200, 200)),
    _refused("bare LFs at the end", b"GET /M/a HTTP/1.1\r\nHost: x\n\n", haproxy=(200, 200), nginx=(200, 200)),
    _refused("bare LFs only", b"GET /M/a HTTP/1.1\nHost: x\n\n", haproxy=(200, 200), nginx=(200, 200)),
    _refused("a bare CR", GET + b"A: b\rc\r\n\r\n"),
    _refused("a folded line", GET + b"A: b\r\n c\r\n\r\n", haproxy=(200, 200)),
    _refused("a folded first header", b"GET /M/a HTTP/1.1\r\n Host: x\r\n\r\n"),
    _refused("NUL in a value", GET + b"A: b\0c\r\n\r\n", haproxy=(400, 200)),
    _refused("NUL in a name", GET + b"A\0: b\r\n\r\n"),
    _refused("NUL in the path", b"GET /M/a\0b HTTP/1.1\r\nHost: x\r\n\r\n"),
    _refused("a control character", GET + b"A: \x01\r\n\r\n", haproxy=(400, 200), nginx=(400, 200)),
    _refused("a blank before the colon", GET + b"A : b\r\n\r\n"),
    _refused("no colon", GET + b"A\r\n\r\n", nginx=(200, 200)),
    _refused("no name", GET + b": b\r\n\r\n"),
    _refused("a blank before", b" " + GET + b"\r\n"),
    _refused("tabs in the first line", b"GET\t/M/a\tHTTP/1.1\r\nHost: x\r\n\r\n", haproxy=(200, 200)),
    _refused("a method in small letters", b"get /M/a HTTP/1.1\r\nHost: x\r\n\r\n", haproxy=(400, 200)),
    _refused("an unknown method", b"FOO /M/a HTTP/1.1\r\nHost: x\r\n\r\n", haproxy=(400, 200), nginx=(400, 200)),
    _refused("a path without its slash", b"GET M/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    _refused("a path beyond ASCII", b"GET /M/\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", nginx=(400, 200)),
    _good("a whole URL as target", b"GET http://x/M/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    _good("a whole URL in capitals", b"GET HTTP://x/M/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    _refused(
        "a target of another scheme",
        b"GET hp://x/M/a HTTP/1.1\r\nHost: x\r\n\r\n",
        haproxy=(400, 200),
        nginx=(200, 200),
    ),
    _refused("an authority with a bad port", b"GET http://a@y:99999/M/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    _refused("a greeting of TLS", bytes.fromhex("16030100a5010000a10303") + b"\0" * 90),
    # ── versions
    RawInput("HTTP/1.0", b"GET /M/a HTTP/1.0\r\nHost: x\r\n\r\n", (200,), True, (200,), (200,)),
    RawInput("Connection: close", GET + b"Connection: close\r\n\r\n", (200,), True, (200,), (200,)),
    _refused("HTTP/2.0", b"GET /M/a HTTP/2.0\r\nHost: x\r\n\r\n", 505, haproxy=(200, 200), nginx=(505,)),
    _refused("HTTP/1.2", b"GET /M/a HTTP/1.2\r\nHost: x\r\n\r\n", haproxy=(200, 200), nginx=(200, 200)),
    _refused("HTTP/0.9", b"GET /M/a HTTP/0.9\r\nHost: x\r\n\r\n", 505, haproxy=(505,)),
    _refused("no version", b"GET /M/a\r\n\r\n", 505, nginx=()),
    _refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", haproxy=()),
    # ── other protocols
    _good("an offer of h2c with a body", POST + OFFER + b"Content-Length: 3\r\n\r\n" + BODY),
    _good("an offer of a WebSocket", GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", haproxy=(400,)),
    _good("an offer without Connection", GET + b"Upgrade: h2c\r\n\r\n"),
    RawInput(
        "a pipelined offer",
        GET + b"\r\n" + POST + OFFER + b"Content-Length: 3\r\n\r\n" + BODY,
        (200, 400),
        True,
        (200, 200, 200),
        (200, 200, 200),
    ),
    _refused("an offer with NUL", GET + b"Upgrade: w\0ebsocket\r\n\r\n", haproxy=(400, 200)),
    _refused("CONNECT", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"),
    _good("a body that is a request", POST + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN),
    _good("a body that is an offer", POST + b"Content-Length: %d\r\n\r\n\r\n" % (len(OFFER) + 4) + OFFER + b"\r\n"),
    _good(
        "an offer, and a body that is one",
        POST + OFFER + b"Content-Length: %d\r\n\r\n\r\n" % (len(OFFER) + 4) + OFFER + b"\r\n",
    ),
    # ── answers before the body
    RawInput(
        "an early answer with its body",
        b"POST /M/early HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        (200, 200),
        False,
        (200, 200),
        (200, 200),
    ),
    RawInput(
        "Expect: 100-continue",
        POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
        (200, 200),  # a body that has come is not asked for
        False,
        (200, 200),
        (100, 200, 200),
    ),
]
