"""The requests for a map in the layout of Redisson's ``RMapCacheNative``: bare values, whose fields expire by themselves
(Valkey 9, Redis 7.4). No idle time, no maximum size, no events, no evictor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tarry.core.requests import FIRST_TIME, Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND
from tarry.verbs.mapcache.context import NO_NONCE, MapContext
from tarry.verbs.mapcache.redisson_layout import (
    ALWAYS,
    PAGE,
    EntryTtl,
    LoadReply,
    PutReply,
    ms_of,
    parse_bools,
    parse_load,
    parse_put,
    parse_removed,
)

PUT = Script(
    "mapcache/native_put",
    args=("sharded", "ttl", "keep", "condition", "expected", "with_old", "is_replay"),
    item=("key", "value"),
    keys=("entries", "hints", "memo"),
)
REMOVE = Script(
    "mapcache/native_remove",
    args=("sharded", "condition", "expected", "with_old", "is_replay"),
    item=("key",),
    keys=("entries", "hints", "memo"),
)
EXPIRE_ENTRY = Script(
    "mapcache/native_expire_entry", args=("ttl", "if_not_set", "is_replay"), item=("key",), keys=("entries", "memo")
)
ADD = Script(
    "mapcache/native_add", args=("sharded", "key", "delta", "is_replay"), keys=("entries", "hints", "memo", "lease")
)
LEASE = Script("mapcache/native_lease", args=("token", "lasts", "key"), keys=("entries", "lease"))


def refuse_native(what: str) -> NoReturn:
    raise BadInput(f'{what}: not available with backend="native", whose fields only have a time to live.')


@dataclass(frozen=True, slots=True)
class NativeLayout:
    """``RMapCacheNative``."""

    context: MapContext[Any, Any]
    native = True

    def put(
        self,
        pairs: Sequence[tuple[bytes, bytes]],
        span: EntryTtl,
        condition: bytes,
        *,
        expected: bytes = b"",
        with_old: bool = False,
    ) -> ScriptCall[list[PutReply]]:
        context = self.context
        memo = context.reply_key(NO_NONCE if condition == ALWAYS else context.nonce())
        keys = (context.keys.entries, context.keys.hints, memo, *[context.leases + key for key, _ in pairs])
        args = (context.sharded, _ttl(span), _flag(span.keep), condition, expected, _flag(with_old), FIRST_TIME)
        return ScriptCall(PUT, keys, args, parse_put, items=[arg for pair in pairs for arg in pair], never_merged=True)

    def get(self, keys: Sequence[bytes], _how: bytes) -> Command[list[Any]]:
        return Command((b"HMGET", self.context.keys.entries, *keys), list)

    def remove(
        self, keys: Sequence[bytes], condition: bytes, *, expected: bytes = b"", with_old: bool = False
    ) -> ScriptCall[list[tuple[bool, bytes | None]]]:
        context = self.context
        names = (
            context.keys.entries,
            context.keys.hints,
            context.reply_key(context.nonce()),
            *map(context.lease, keys),
        )
        args = (context.sharded, condition, expected, _flag(with_old), FIRST_TIME)
        return ScriptCall(REMOVE, names, args, parse_removed, items=keys, never_merged=True)

    def expire_entries(self, keys: Sequence[bytes], span: EntryTtl, if_not_set: bool) -> ScriptCall[list[bool]]:
        names = (self.context.keys.entries, self.context.reply_key(self.context.nonce()))
        args = (_ttl(span), _flag(if_not_set), FIRST_TIME)
        return ScriptCall(EXPIRE_ENTRY, names, args, parse_bools, items=keys, never_merged=True)

    def left(self, key: bytes) -> Command[int]:
        def decode(reply: Reply) -> int:
            left = reply[0] if reply else -2
            return left * MILLISECOND if left >= 0 else int(left)

        return Command((b"HPTTL", self.context.keys.entries, b"FIELDS", b"1", key), decode)

    def add(self, key: bytes, delta: bytes) -> ScriptCall[bytes]:
        context = self.context
        keys = (context.keys.entries, context.keys.hints, context.reply_key(context.nonce()), context.lease(key))
        return ScriptCall(ADD, keys, (context.sharded, key, delta, FIRST_TIME), bytes)

    def page(self, cursor: bytes) -> Command[tuple[bytes, list[tuple[bytes, bytes]]]]:
        def decode(reply: Reply) -> tuple[bytes, list[tuple[bytes, bytes]]]:
            flat = reply[1]
            pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
            return reply[0], list(pairs)

        return Command((b"HSCAN", self.context.keys.entries, cursor, b"COUNT", PAGE), decode)

    def lease(self, key: bytes, token: bytes, lasts_ms: int) -> ScriptCall[LoadReply]:
        keys = (self.context.keys.entries, self.context.lease(key))
        return ScriptCall(LEASE, keys, (token, b"%d" % lasts_ms, key), parse_load)

    def size(self) -> Flow[int]:
        return ask(Command((b"HLEN", self.context.keys.entries), int))

    def clear(self) -> Command[bool]:
        return Command((b"UNLINK", self.context.keys.entries), bool)

    def expire(self, after_ms: int | None, if_not_set: bool) -> Command[bool]:
        name = self.context.keys.entries
        if after_ms is None:
            return Command((b"PERSIST", name), bool)
        return Command((b"PEXPIRE", name, b"%d" % after_ms, *([b"NX"] if if_not_set else [])), bool)


def _ttl(span: EntryTtl) -> bytes:
    if span.idle:
        refuse_native("max_idle")
    return b"%d" % ms_of(span.ttl)


def _flag(yes: bool) -> bytes:
    return b"1" if yes else b"0"
