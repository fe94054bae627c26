"""The grammar of beanstalkd's commands: a line becomes a ``BeanstalkCommand``, or the error that beanstalkd 1.12 answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

LONGEST_LINE = 224
"""Bytes of a command line, CR and LF included."""
BAD_FORMAT, UNKNOWN = b"BAD_FORMAT\r\n", b"UNKNOWN_COMMAND\r\n"
_U32, _U64 = 2**32, 2**64
_TUBE = rb"([A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199})"
_NUMBER = rb" +([0-9]+)"
_SPAN = rb" +([0-9]+(?:\.[0-9]{1,6})?)"
TUBE_NAME = re.compile(_TUBE.decode())
HTTP = re.compile(rb"[A-Z]+ (/|.* HTTP/[0-9.]+$)")
"""How a web page's request begins, however long its first line is: a browser must be no way in."""


@dataclass(frozen=True, slots=True)
class BeanstalkCommand:
    """A command with its arguments. Of ``put``, ``size`` is that of the body, which follows."""

    name: str
    args: tuple[Any, ...] = ()

    @property
    def size(self) -> int:
        return int(self.args[3])


class ProtocolError(Exception):
    """A line that is no command; ``reply`` is the answer."""

    def __init__(self, reply: bytes) -> None:
        super().__init__(reply)
        self.reply = reply


def _tube(text: bytes) -> str:
    return text.decode()


def _u32(text: bytes) -> int:
    return _below(_U32, text)


def _u64(text: bytes) -> int:
    return _below(_U64, text)


def _below(limit: int, text: bytes) -> int:
    number = int(text)
    if number >= limit:
        raise ProtocolError(BAD_FORMAT)
    return number


def _seconds(text: bytes) -> float:
    """Whole seconds as beanstalkd has them, or a fraction."""
    seconds = float(text) if b"." in text else int(text)
    if seconds >= _U32:
        raise ProtocolError(BAD_FORMAT)
    return seconds


def _timeout(text: bytes) -> int | None:
    """Whole seconds; ``None`` for a negative number: without a limit."""
    seconds = int(text)
    if abs(seconds) >= 2**63:
        raise ProtocolError(BAD_FORMAT)
    return None if seconds < 0 else seconds


_ARGUMENTS = {
    "put": (rb"put" + _NUMBER + _SPAN + _NUMBER + _NUMBER, (_u32, _seconds, _u32, _u32)),
    "use": (rb"use " + _TUBE, (_tube,)),
    "reserve": (rb"reserve", ()),
    "reserve-with-timeout": (rb"reserve-with-timeout +(-?[0-9]{1,19})", (_timeout,)),
    "reserve-job": (rb"reserve-job" + _NUMBER, (_u64,)),
    "delete": (rb"delete" + _NUMBER, (_u64,)),
    "release": (rb"release" + _NUMBER + _NUMBER + _SPAN, (_u64, _u32, _seconds)),
    "bury": (rb"bury" + _NUMBER + _NUMBER, (_u64, _u32)),
    "touch": (rb"touch" + _NUMBER, (_u64,)),
    "watch": (rb"watch " + _TUBE, (_tube,)),
    "ignore": (rb"ignore " + _TUBE, (_tube,)),
    "peek": (rb"peek" + _NUMBER, (_u64,)),
    "peek-ready": (rb"peek-ready", ()),
    "peek-delayed": (rb"peek-delayed", ()),
    "peek-buried": (rb"peek-buried", ()),
    "kick": (rb"kick" + _NUMBER, (_u32,)),
    "kick-job": (rb"kick-job" + _NUMBER, (_u64,)),
    "pause-tube": (rb"pause-tube +" + _TUBE + _SPAN, (_tube, _seconds)),
    "stats": (rb"stats", ()),
    "stats-job": (rb"stats-job" + _NUMBER, (_u64,)),
    "stats-tube": (rb"stats-tube +" + _TUBE, (_tube,)),
    "list-tubes": (rb"list-tubes", ()),
    "list-tube-used": (rb"list-tube-used", ()),
    "list-tubes-watched": (rb"list-tubes-watched", ()),
    "quit": (rb"quit.*", ()),
    "auth": (rb"auth +([!-~]+)", (_tube,)),
}
_PATTERNS = {
    name.encode(): (name, re.compile(pattern, re.S), readers) for name, (pattern, readers) in _ARGUMENTS.items()
}
_NEED_ARGUMENTS = {word for word, (_, _, readers) in _PATTERNS.items() if readers} - {b"pause-tube"}
_KNOWN_BEGINNINGS = (b"reserve", b"peek-ready", b"peek-delayed", b"peek-buried", b"stats", b"list-tube", b"pause-tube")
"""beanstalkd compares beginnings: what goes on differently is a known command in a bad format."""


def parse(line: bytes) -> BeanstalkCommand:
    """Parses a line without its CR and LF. Raises ``ProtocolError``."""
    if b"\0" in line:
        raise ProtocolError(BAD_FORMAT)
    word, space, _ = line.partition(b" ")
    found = _PATTERNS.get(word)
    if found is None or (not space and word in _NEED_ARGUMENTS):
        if line.startswith(b"quit"):
            return BeanstalkCommand("quit")
        raise ProtocolError(BAD_FORMAT if line.startswith(_KNOWN_BEGINNINGS) else UNKNOWN)
    name, pattern, readers = found
    match = pattern.fullmatch(line)
    if match is None:
        raise ProtocolError(BAD_FORMAT)
    return BeanstalkCommand(name, tuple([read(text) for read, text in zip(readers, match.groups(), strict=True)]))


_BELOW = (10, 1024, 65_536)
LEAST_URGENT = 2


def priority_of(pri: int) -> int:
    """tarry's priority, of which the highest comes first, for one of beanstalkd's, of which the smallest does.

    0 to 9              3
    10 to 1,023         2    beanstalkd calls these and the ones above urgent
    1,024 to 65,535     1    Pheanstalk's default is 1,024
    65,536 and more     0    the default of greenstalk and beaneater is 65,536
    """
    return sum(pri < least for least in _BELOW)
