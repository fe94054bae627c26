"""A value that is loaded once for all processes: the lease of Redisson 4.6.

    begin ─▶ the value                           it is there
         ─▶ mine       ─▶ load it ─▶ finish      nobody loads: the caller does, and has the lease so long
         ─▶ wait       ─▶ begin                  another loads: until it is told, or until the lease is over

A lease ends with what it was taken for, with whatever else is written to the key (what was loaded is then stale and not
stored), or by itself: a loader that died holds nobody up for longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tarry.core.requests import ScriptCall
from tarry.core.scripts import Script
from tarry.values.durations import MILLISECOND, Duration, duration_us
from tarry.verbs.mapcache.redisson_layout import LEASED, REFUSED, EntryTtl, LoadReply, first_of, map_answer

V = TypeVar("V")
UNLEASE = Script("mapcache/unlease", args=("sharded", "token", "key"), keys=("hints", "lease"))
LEASE_PREFIX = b"tarry:"
DEFAULT_LEASE_S: Duration = 30


@dataclass(frozen=True, slots=True)
class Load(Generic[V]):
    """One caller's wish for one key."""

    layout: Any
    key: bytes
    span: EntryTtl
    lease_ms: int
    token: bytes

    def start(self) -> ScriptCall[LoadReply]:
        call: ScriptCall[LoadReply] = self.layout.lease(self.key, self.token, self.lease_ms)

        def undo(leave: LoadReply) -> ScriptCall[bool] | None:
            return self.give_up() if leave.granted else None

        call.undo = undo  # nobody is there any more to load
        return call

    def read(self, raw: bytes) -> V:
        value: V = self.layout.context.decode(raw)
        return value

    def finish(self, value: V) -> ScriptCall[V]:
        """Stores what was loaded. Answers it; or what somebody else has written meanwhile."""
        context = self.layout.context
        request = self.layout.put([(self.key, context.value(value))], self.span, LEASED, proof=self.token)

        def decode(answers: Any) -> V:
            did, there = first_of(answers)
            return value if did != REFUSED or there is None else self.read(there)

        return map_answer(request, decode)

    def give_up(self) -> ScriptCall[bool]:
        """Nothing was loaded: who waits may try."""
        context = self.layout.context
        return ScriptCall(
            UNLEASE, (context.keys.hints, context.lease(self.key)), (context.sharded, self.token, self.key), bool
        )

    def is_relevant(self, channel: bytes, message: bytes) -> bool:
        """Whether a message says that it is worth looking again; an empty one may have been missed."""
        keys = self.layout.context.keys
        return not message or (channel != keys.hints and self.key in message) or message == b"key" + self.key

    @property
    def channels(self) -> tuple[bytes, ...]:
        """Where ours, and Java, tell that a key was written."""
        keys = self.layout.context.keys
        return keys.hints, keys.created, keys.updated


def make_load(layout: Any, key: bytes, span: EntryTtl, lease: Duration) -> Load[Any]:
    lease_ms = duration_us(lease, "lease", minimum=MILLISECOND) // MILLISECOND
    return Load(layout, key, span, lease_ms, LEASE_PREFIX + layout.context.nonce())
