"""The context of the verbs of one partition, or of a topic that is not divided. Verbs return requests and flows, and perform
nothing.

TopicContext(name, keys, codec, ids) ──▶ verb(context, …) ──▶ ScriptCall or flow
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tarry.core.requests import FIRST_TIME
from tarry.errors import BadInput
from tarry.values.durations import SECOND
from tarry.values.keys import TopicKeys
from tarry.values.names import IdGenerator
from tarry.verbs.codecs import BodyCodec

T = TypeVar("T")
Share = tuple[int, int]
"""The index of a partition, and the number of partitions."""
WHOLE_TOPIC: Share = (0, 1)
NO_LEASE, EACH = b"0", b"each"
Lease = tuple[bytes, float, tuple[bytes, bytes, bytes]]
"""The lease as scripts take it, when it ends here, and the arguments of a script that adds one job with it."""
NOTHING_KNOWN: Lease = (NO_LEASE, 0.0, (EACH, NO_LEASE, FIRST_TIME))


class _Known(dict[bytes, Lease]):
    def __missing__(self, due: bytes) -> Lease:
        return NOTHING_KNOWN


class Leases:
    """In which second of the server adds need not look at a topic's limits for producers, for it had none: lua/lib/lease.lua."""

    def __init__(self, seconds: Callable[[], float] = lambda: math.inf) -> None:
        """``seconds``: a clock; without one no lease is known."""
        self.seconds = seconds
        self.known = _Known()
        """By the key of what is due."""

    def of(self, keys: TopicKeys) -> Lease:
        """``NOTHING_KNOWN`` if the topic has limits, or nobody has asked lately."""
        lease = self.known[keys.due]
        return NOTHING_KNOWN if self.seconds() >= lease[1] else lease

    def learn(self, keys: TopicKeys, now: int) -> None:
        """``now`` is the first answer of an add: below zero, the topic has limits. An add with a lease has not looked for any, and learns
        the same second again."""
        if now < 0:
            self.forget(keys)
        else:
            second, us = divmod(now, SECOND)
            lease = b"%d" % second
            self.known[keys.due] = lease, self.seconds() + 1 - us / SECOND, (EACH, lease, FIRST_TIME)

    def forget(self, keys: TopicKeys) -> None:
        """The next add of the topic asks. Nothing is ever taken out: another thread may be between a look and its reading."""
        self.known[keys.due] = NOTHING_KNOWN


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
