"""A value that is loaded once for all processes: the lease of Redisson 4.6.

    start ─▶ the value                            it exists
          ─▶ the lease  ─▶ load it ─▶ finish       nobody else loads it: the caller does, under the lease
          ─▶ wait       ─▶ start                   another caller loads it: until a message, or until its lease ends

A lease ends when the value is stored, with any other write to the key (the loaded value is then stale and not stored), or by
its timeout, if the loader has died.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tarry.core.requests import ScriptCall
from tarry.core.scripts import Script
from tarry.values.durations import MILLISECOND, Duration, duration_us
from tarry.verbs.redisson.mapcache.redisson_layout import LEASED, REFUSED, EntryTtl, LoadReply, first_of, map_answer

V = TypeVar("V")
UNLEASE = Script("redisson/mapcache/unlease", args=("sharded", "token", "key"), keys=("hints", "lease"))
LEASE_PREFIX = b"tarry:"
DEFAULT_LEASE_S: Duration = 30


@dataclass(frozen=True, slots=True)
class Load(Generic[V]):
    """One caller's load of one key."""

    layout: Any
    key: bytes
    span: EntryTtl
    lease_ms: int
    token: bytes

    def start(self) -> ScriptCall[LoadReply]:
        call: ScriptCall[LoadReply] = self.layout.lease(self.key, self.token, self.lease_ms)

        def undo(leave: LoadReply) -> ScriptCall[bool] | None:
            return self.give_up() if leave.granted else None

        call.undo = undo  # the caller that would load has gone
        return call

    def read(self, raw: bytes) -> V:
        value: V = self.layout.context.decode(raw)
        return value

    def finish(self, value: V) -> ScriptCall[V]:
        """Stores the loaded value. Returns it; or what somebody else has written meanwhile."""
        context = self.layout.context
        request = self.layout.put([(self.key, context.value(value))], self.span, LEASED, expected=self.token)

        def decode(answers: Any) -> V:
            stored, current = first_of(answers)
            return value if stored != REFUSED or current is None else self.read(current)

        return map_answer(request, decode)

    def give_up(self) -> ScriptCall[bool]:
        """Gives the lease back: another caller may load."""
        context = self.layout.context
        return ScriptCall(
            UNLEASE, (context.keys.hints, context.lease(self.key)), (context.sharded, self.token, self.key), bool
        )

    def is_relevant(self, channel: bytes, message: bytes) -> bool:
        """Whether to try again after a message on a channel; an empty message means that some may have been lost."""
        keys = self.layout.context.keys
        return not message or (channel != keys.hints and self.key in message) or message == b"key" + self.key

    @property
    def channels(self) -> tuple[bytes, ...]:
        """The channels on which tarry and Java publish that a key was written."""
        keys = self.layout.context.keys
        return (keys.hints,) if self.layout.native else (keys.hints, keys.created, keys.updated)


def make_load(layout: Any, key: bytes, span: EntryTtl, lease: Duration) -> Load[Any]:
    lease_ms = duration_us(lease, "lease", minimum=MILLISECOND) // MILLISECOND
    return Load(layout, key, span, lease_ms, LEASE_PREFIX + layout.context.nonce())
