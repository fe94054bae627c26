"""What is asked of the server for a map in the layout of Redisson's ``RMapCacheNative``: bare values, whose fields expire
by themselves (Valkey 9, Redis 7.4). No idle time, no maximum size, no events, no evictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tarry.core.requests import FIRST_TIME, Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND
from tarry.verbs.mapcache.desk import NO_NONCE, MapDesk
from tarry.verbs.mapcache.layout import (
    ALWAYS,
    PAGE,
    Leave,
    Span,
    Written,
    leave,
    ms_of,
    taken,
    truths,
    written,
)

PUT = Script(
    "mapcache/native_put",
    args=("sharded", "ttl", "keep", "when", "proof", "want", "again"),
    item=("key", "value"),
    keys=("entries", "hints", "memo"),
)
REMOVE = Script(
    "mapcache/native_remove",
    args=("sharded", "when", "proof", "want", "again"),
    item=("key",),
    keys=("entries", "hints", "memo"),
)
EXPIRE_ENTRY = Script(
    "mapcache/native_expire_entry", args=("ttl", "if_not_set", "again"), item=("key",), keys=("entries", "memo")
)
ADD = Script(
    "mapcache/native_add", args=("sharded", "key", "delta", "again"), keys=("entries", "hints", "memo", "lease")
)
LEASE = Script("mapcache/native_lease", args=("token", "lasts", "key"), keys=("entries", "lease"))


def refuse(what: str) -> NoReturn:
    raise BadInput(f'{what}: a map with backend="native" has none; its fields only have a time to live.')


@dataclass(frozen=True, slots=True)
class Native:
    """``RMapCacheNative``."""

    desk: MapDesk[Any, Any]
    native = True

    def put(
        self, pairs: Sequence[tuple[bytes, bytes]], span: Span, when: bytes, *, proof: bytes = b"", want: bool = False
    ) -> ScriptCall[list[Written]]:
        desk = self.desk
        memo = desk.answer(NO_NONCE if when == ALWAYS else desk.nonce())
        keys = (desk.keys.entries, desk.keys.hints, memo, *[desk.leases + key for key, _ in pairs])
        args = (desk.sharded, _ttl(span), _bit(span.keep), when, proof, _bit(want), FIRST_TIME)
        return ScriptCall(PUT, keys, args, written, items=[word for pair in pairs for word in pair], never_merged=True)

    def get(self, keys: Sequence[bytes], _how: bytes) -> Command[list[Any]]:
        return Command((b"HMGET", self.desk.keys.entries, *keys), list)

    def remove(
        self, keys: Sequence[bytes], when: bytes, *, proof: bytes = b"", want: bool = False
    ) -> ScriptCall[list[tuple[bool, bytes | None]]]:
        desk = self.desk
        names = (desk.keys.entries, desk.keys.hints, desk.answer(desk.nonce()), *map(desk.lease, keys))
        args = (desk.sharded, when, proof, _bit(want), FIRST_TIME)
        return ScriptCall(REMOVE, names, args, taken, items=keys, never_merged=True)

    def expire_entries(self, keys: Sequence[bytes], span: Span, if_not_set: bool) -> ScriptCall[list[bool]]:
        names = (self.desk.keys.entries, self.desk.answer(self.desk.nonce()))
        args = (_ttl(span), _bit(if_not_set), FIRST_TIME)
        return ScriptCall(EXPIRE_ENTRY, names, args, truths, items=keys, never_merged=True)

    def left(self, key: bytes) -> Command[int]:
        def decode(reply: Reply) -> int:
            left = reply[0] if reply else -2
            return left * MILLISECOND if left >= 0 else int(left)

        return Command((b"HPTTL", self.desk.keys.entries, b"FIELDS", b"1", key), decode)

    def add(self, key: bytes, delta: bytes) -> ScriptCall[bytes]:
        desk = self.desk
        keys = (desk.keys.entries, desk.keys.hints, desk.answer(desk.nonce()), desk.lease(key))
        return ScriptCall(ADD, keys, (desk.sharded, key, delta, FIRST_TIME), bytes)

    def page(self, cursor: bytes) -> Command[tuple[bytes, list[tuple[bytes, bytes]]]]:
        def decode(reply: Reply) -> tuple[bytes, list[tuple[bytes, bytes]]]:
            flat = reply[1]
            pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
            return reply[0], list(pairs)

        return Command((b"HSCAN", self.desk.keys.entries, cursor, b"COUNT", PAGE), decode)

    def lease(self, key: bytes, token: bytes, lasts_ms: int) -> ScriptCall[Leave]:
        keys = (self.desk.keys.entries, self.desk.lease(key))
        return ScriptCall(LEASE, keys, (token, b"%d" % lasts_ms, key), leave)

    def size(self) -> Flow[int]:
        return ask(Command((b"HLEN", self.desk.keys.entries), int))

    def clear(self) -> Command[bool]:
        return Command((b"UNLINK", self.desk.keys.entries), bool)

    def expire(self, after_ms: int | None, if_not_set: bool) -> Command[bool]:
        name = self.desk.keys.entries
        if after_ms is None:
            return Command((b"PERSIST", name), bool)
        return Command((b"PEXPIRE", name, b"%d" % after_ms, *([b"NX"] if if_not_set else [])), bool)


def _ttl(span: Span) -> bytes:
    if span.idle:
        refuse("max_idle")
    return b"%d" % ms_of(span.ttl)


def _bit(yes: bool) -> bytes:
    return b"1" if yes else b"0"
