"""The context of the verbs of one partition, or of a topic that is not divided. Verbs return requests and flows, and perform
nothing.

TopicContext(name, keys, codec, ids) ──▶ verb(context, …) ──▶ ScriptCall or flow

A context knows how one job is added: by which scripts, and in which second of the server without a look at a topic's limits for
producers. A lease is the second for which an add has answered that its topic has none (lua/lib/lease.lua). The adds of that second
send the same but for their items, so it is made once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from tarry.core.requests import FIRST_TIME, SmallCall
from tarry.core.scripts import LEARNING, Script
from tarry.errors import BadInput
from tarry.values.durations import SECOND
from tarry.values.keys import (
    DEPARTING_PARTS,
    LATER_PARTS,
    MOST_KNOWN,
    ONCE_PARTS,
    SOON_PARTS,
    WITH_KEY_PARTS,
    TopicKeys,
)
from tarry.values.names import IdGenerator
from tarry.verbs.codecs import BodyCodec

T = TypeVar("T")
Share = tuple[int, int]
"""The index of a partition, and the number of partitions."""
WHOLE_TOPIC: Share = (0, 1)
ITEM = ("id", "mark_and_due", "value")
ADD = Script("topic/add", args=("mode", "lease", "is_replay"), item=ITEM, keys=DEPARTING_PARTS, learns_keys=True)
ADD_ONCE = Script("topic/add_once", args=("mode", "lease", "is_replay"), item=ITEM, keys=ONCE_PARTS, learns_keys=True)
ADD_LATER = Script("topic/add_later", args=ITEM, keys=LATER_PARTS)
ADD_SOON = Script("topic/add_soon", args=ITEM, keys=SOON_PARTS)
ADD_WITH_KEY = Script("topic/add_with_key", args=ITEM, keys=WITH_KEY_PARTS)
NO_LEASE = b"0"
Call = tuple[Script, tuple[bytes, ...], tuple[bytes, bytes, bytes], SmallCall | None]
"""A large script, its keys and arguments, and the small one that is sent instead when the call is alone."""
Calls = tuple[Call, Call, Call, Call, Call]
"""In the order of ``options.LARGE``, ``LATER``, ``SOON``, ``ONCE`` and ``WITH_KEY``."""
Lease = tuple[float, Calls | tuple[()], bytes]
"""When it ends here, the calls that add a job with it, and the lease as scripts take it."""
NOTHING_KNOWN: Lease = (0.0, (), NO_LEASE)


def calls_with(keys: TopicKeys, lease: bytes) -> Calls:
    """The calls that add one job with a lease. Durability, merging with other adds, and a small script's answer 0 choose the large one afterwards."""
    large, args = ADD.keys_for(keys), (b"each", lease, FIRST_TIME)
    small = (
        (None,) * 3
        if lease == NO_LEASE
        else [SmallCall(one, one.keys_for(keys), lease) for one in (ADD_LATER, ADD_SOON, ADD_WITH_KEY)]
    )
    later, soon, with_key = [(ADD, large, args, one) for one in small]
    return (ADD, large, args, None), later, soon, (ADD_ONCE, ADD_ONCE.keys_for(keys), args, None), with_key


@lru_cache(MOST_KNOWN)
def calls_without(keys: TopicKeys) -> Calls:
    """The calls that add one job, and look at the limits."""
    return calls_with(keys, NO_LEASE)


LEARNING.append(calls_without.cache_clear)


class _Known(dict[bytes, Lease]):
    def __missing__(self, due: bytes) -> Lease:
        return NOTHING_KNOWN


class Leases:
    """The leases of a client."""

    def __init__(self, seconds: Callable[[], float] = lambda: math.inf) -> None:
        """``seconds``: a clock; without one no lease is known."""
        self.seconds = seconds
        self.known = _Known()
        """By the key of what is due."""

    def calls(self, keys: TopicKeys) -> Calls:
        """The calls that add one job to a topic now."""
        ends, calls, _ = self.known[keys.due]
        return calls if calls and self.seconds() < ends else calls_without(keys)

    def of(self, keys: TopicKeys) -> bytes:
        """``NO_LEASE`` if the topic has limits, or nobody has asked lately."""
        ends, _, lease = self.known[keys.due]
        return lease if self.seconds() < ends else NO_LEASE

    def learn(self, keys: TopicKeys, now: int) -> None:
        """``now`` is the first answer of an add: below zero, the topic has limits. An add with a lease has not looked for any, and learns
        the same second again."""
        if now < 0:
            self.forget(keys)
            return
        second, us = divmod(now, SECOND)
        lease, (_, calls, known) = b"%d" % second, self.known[keys.due]
        if lease == known and calls and calls[0][1] is ADD.keys_for(keys):
            return
        if len(self.known) >= MOST_KNOWN:
            self.known.clear()
        self.known[keys.due] = self.seconds() + 1 - us / SECOND, calls_with(keys, lease), lease

    def forget(self, keys: TopicKeys) -> None:
        """The next add of the topic asks."""
        self.known.pop(keys.due, None)


@dataclass(frozen=True, slots=True)
class TopicContext(Generic[T]):
    """The context of one topic's verbs: its name, keys, codec, and a source of ids. No connection."""

    name: str
    keys: TopicKeys
    codec: BodyCodec[T]
    ids: IdGenerator
    leases: Leases = field(default_factory=Leases)


def one_line(fault: BaseException) -> str:
    """An exception in one line: its type, and its message if it has one."""
    try:
        text = " ".join(str(fault).split())
    except Exception:  # noqa: BLE001  # a user's class may raise anything
        text = "its text cannot be shown"
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def require_several(value: object, what: str) -> None:
    """Refuses text and maps, which are iterable, but hardly ever meant."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise BadInput(f"{what}: {type(value).__name__} given; put it into a list.")
