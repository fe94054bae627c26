"""The requests for a map in the layout of Redisson's ``RMapCacheNative``: bare values, whose fields expire by themselves
(Valkey 9, Redis 7.4). No idle time, no maximum size, no events, no evictor. Maps of Python alone have it too, under other keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from tarry.core.requests import FIRST_TIME, Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND
from tarry.verbs.redisson.mapcache.map_context import MapContext
from tarry.verbs.redisson.mapcache.redisson_layout import (
    NO_TTL,
    PAGE,
    Entries,
    EntryTtl,
    LoadReply,
    RedissonLayout,
    flag_arg,
    ms_of,
    parse_bools,
    parse_load,
)

PUT = Script(
    "redisson/mapcache/native_put",
    args=("sharded", "ttl", "keep", "condition", "expected", "with_old", "is_replay"),
    item=("key", "value"),
    keys=("entries", "hints", "memo"),
)
REMOVE = Script(
    "redisson/mapcache/native_remove",
    args=("sharded", "condition", "expected", "with_old", "is_replay"),
    item=("key",),
    keys=("entries", "hints", "memo"),
)
EXPIRE_ENTRY = Script(
    "redisson/mapcache/native_expire_entry",
    args=("ttl", "if_not_set", "is_replay"),
    item=("key",),
    keys=("entries", "memo"),
)
ADD = Script(
    "redisson/mapcache/native_add",
    args=("sharded", "key", "delta", "is_replay"),
    keys=("entries", "hints", "memo", "lease"),
)
LEASE = Script("redisson/mapcache/native_lease", args=("token", "lasts", "key"), keys=("entries", "lease"))


def refuse_native(what: str) -> NoReturn:
    raise BadInput(
        f'{what}: not available with backend="native" or "redisson-native", whose fields only have a time to live.'
    )


class NativeLayout(RedissonLayout):
    """``RMapCacheNative``, and a map of the namespace. Its puts, removals and additions are those of the other layout, with fewer keys."""

    native = True
    replaced = NO_TTL  # as in Java, which writes the field with HSET
    put_script, remove_script, add_script = PUT, REMOVE, ADD

    def __init__(self, context: MapContext[Any, Any]) -> None:
        super().__init__(context)
        self._written = (context.keys.entries, context.keys.hints)

    def _span_args(self, span: EntryTtl) -> tuple[bytes, ...]:
        if span.idle:
            refuse_native("max_idle")
        return (b"%d" % ms_of(span.ttl),)

    def get(self, keys: Sequence[bytes], mode: bytes) -> Command[list[Any]]:  # noqa: ARG002  # fields are read alike, whatever for
        return Command((b"HMGET", self.context.keys.entries, *keys), list)

    def expire_entries(self, keys: Sequence[bytes], span: EntryTtl, if_not_set: bool) -> ScriptCall[list[bool]]:
        names = (self.context.keys.entries, self.context.reply_key(self.context.nonce()))
        args = (*self._span_args(span), flag_arg(if_not_set), FIRST_TIME)
        return ScriptCall(EXPIRE_ENTRY, names, args, parse_bools, items=keys, never_merged=True)

    def left(self, key: bytes) -> Command[int]:
        def decode(reply: Reply) -> int:
            left = reply[0] if reply else -2
            return left * MILLISECOND if left >= 0 else int(left)

        return Command((b"HPTTL", self.context.keys.entries, b"FIELDS", b"1", key), decode)

    def page(self, cursor: bytes) -> Command[Entries]:
        def decode(reply: Reply) -> Entries:
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
