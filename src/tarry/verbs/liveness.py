"""Whether the worker processes that hold jobs still live: what such a process says, and how others find out that it is dead.

    process   subscribed to its channel, as long as it lives
              announce ── it is there; it holds jobs, or none ──▶  tarry:{NAMESPACE}:holders, :busy
    observer  find_absent ── every 0.7 s while another one holds jobs ──▶  those that nobody is subscribed for
              its jobs are released, unless it shows a sign of life; then it is forgotten

An observer is another worker process; there are at most two of them in a namespace, and others that stand by (lua/lib/observers.lua).
The server counts the subscribers of a channel, so the end of a process shows when its connection ends, and costs the process nothing.

A process whose subscription alone has ended lives. So it is asked before it is absent, and any of its other connections answers:

    blocked connection   BLPOP holder_channel        the server itself hands it the token: also while the process stands still
    pop, finish, touch   see that the topic misses their holder, and note that it lives (lua/lib/missed.lua)
    is_asked             by which a process that holds jobs sees the token itself, every 0.2 s
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tarry.core.requests import Command, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.values.keys import HOLDER_PARTS, holder_channel, holder_keys

ANNOUNCE = Script("holders/announce", args=("holder", "is_busy", "channels", "topics"), keys=HOLDER_PARTS)
FIND_ABSENT = Script("holders/find_absent", args=("observer", "channels"), keys=HOLDER_PARTS)
WITHDRAW = Script("holders/withdraw", args=("holder", "channels", "only_absent"), keys=HOLDER_PARTS)
EVERY_S = 0.7
"""How often an observer looks."""
GRACE_S = 0.8
"""A process is absent when it has been without its subscription for this time: three looks miss it, 0.4 s after each other."""
KNOWN, LOOKS, NOT_SUBSCRIBED, NOT_PERMITTED = 1, 2, 0, -1
"""The answers to ``announce``. After the last two the process is not known, and nobody misses it; but one that holds jobs and was
subscribed before is missed after ``NOT_SUBSCRIBED``, for it may be dead by now."""


class MissedHolder(NamedTuple):
    """A worker process whose subscription has ended, since when it is missed (server µs), and its topics."""

    name: str
    since: bytes
    is_absent: bool
    """Whether it has been missed for long enough, and has not answered."""
    topics: tuple[str, ...]


class ObserverAnswer(NamedTuple):
    """In how many seconds to look again, ``None`` if that is not needed; and who is missed, for the second time or more."""

    again_s: float | None
    missed: tuple[MissedHolder, ...]


def announce(namespace: str, holder: bytes, topics: Sequence[str], *, is_busy: bool) -> ScriptCall[int]:
    """Says that a process is there, and whether it holds jobs of these topics."""
    args = (holder, b"1" if is_busy else b"0", holder_channel(namespace, b""), msgspec.json.encode(topics))
    return ScriptCall(ANNOUNCE, holder_keys(namespace), args, int)


def withdraw(namespace: str, holder: bytes, *, only_absent: bool = False) -> ScriptCall[bool]:
    """Says that nobody needs to look for a process any more. With ``only_absent``: unless it has been seen again."""
    args = (holder, holder_channel(namespace, b""), b"1" if only_absent else b"0")
    return ScriptCall(WITHDRAW, holder_keys(namespace), args, bool)


def is_asked(namespace: str, holder: bytes) -> Command[bool]:
    """Whether a process is asked whether it lives, and has not answered."""
    return Command((b"EXISTS", holder_channel(namespace, holder)), bool)


def find_absent(namespace: str, observer: bytes) -> ScriptCall[ObserverAnswer]:
    """One look of an observer."""

    def decode(reply: Reply) -> ObserverAnswer:
        pause, *rows = reply
        found = [
            MissedHolder(name.decode("utf-8", "replace"), since, is_absent == 1, _topics(topics))
            for name, since, is_absent, topics in zip(*[iter(rows)] * 4, strict=True)
        ]
        return ObserverAnswer(pause / 1_000_000 or None, tuple(found))

    return ScriptCall(FIND_ABSENT, holder_keys(namespace), (observer, holder_channel(namespace, b"")), decode)


def _topics(stored: bytes) -> tuple[str, ...]:
    """None, if another program wrote them and they cannot be read."""
    try:
        return msgspec.json.decode(stored, type=tuple[str, ...])
    except msgspec.MsgspecError:
        return ()
