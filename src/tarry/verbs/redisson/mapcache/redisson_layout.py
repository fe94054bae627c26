"""The requests for a map in the layout of Redisson's ``RMapCache``; keys and values are bytes here.

    layout      entries                     deadlines                      implemented by
    redisson    hash: key → TTL, value      sorted sets beside the hash    RedissonLayout, here
    native      hash: key → bare value      on the hash's fields           NativeLayout, in native_layout.py

Rules
- All puts are one script, which also decides what becomes of the entry's deadlines.
- If the answer of a call depends on the old entry, it is stored for 30 s, so that a call repeated after a lost answer gets the same
  one. A plain put is just done again, and may then return its own value as the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from tarry.core.requests import FIRST_TIME, Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND, Duration, as_datetime, duration_us
from tarry.values.keys import MAP_PARTS
from tarry.verbs.redisson.mapcache.eviction import evict_step
from tarry.verbs.redisson.mapcache.map_context import NO_NONCE, MapContext
from tarry.verbs.redisson.mapcache.map_values import MapStats, Mode

T = TypeVar("T")
U = TypeVar("U")
Entries = tuple[bytes, list[tuple[bytes, bytes]]]
"""The next cursor, and entries."""
READ = MAP_PARTS[:5]

PUT = Script(
    "redisson/mapcache/put",
    args=("sharded", "ttl", "idle", "keep", "condition", "expected", "with_old", "is_replay"),
    item=("key", "value"),
    keys=(*MAP_PARTS, "memo"),
)
GET = Script("redisson/mapcache/get_entry", args=("how",), item=("key",), keys=READ)
REMOVE = Script(
    "redisson/mapcache/remove",
    args=("sharded", "condition", "expected", "with_old", "is_replay"),
    item=("key",),
    keys=(*MAP_PARTS, "memo"),
)
EXPIRE_ENTRY = Script(
    "redisson/mapcache/expire_entry",
    args=("sharded", "ttl", "idle", "if_not_set", "is_replay"),
    item=("key",),
    keys=(*MAP_PARTS, "memo"),
)
TTL = Script("redisson/mapcache/ttl", item=("key",), keys=MAP_PARTS[:3])
ADD = Script("redisson/mapcache/add", args=("sharded", "key", "delta", "is_replay"), keys=(*MAP_PARTS, "memo", "lease"))
SCAN = Script("redisson/mapcache/scan", args=("cursor", "limit"), keys=MAP_PARTS[:3])
STATS = Script("redisson/mapcache/stats", args=("limit",), keys=(*READ, "evictors"), read_only=True)
LIMIT = Script("redisson/mapcache/limit", args=("size", "mode", "if_not_set"), keys=("options",))
EXPIRE = Script("redisson/mapcache/expire", args=("after", "if_not_set"), keys=READ)
LEASE = Script("redisson/mapcache/lease", args=("sharded", "token", "lasts", "key"), keys=(*MAP_PARTS, "lease"))

CHUNK = 200
"""The most entries of one script, so that it does not block the server for long."""
PAGE, COUNTED = b"100", b"1000"
ALWAYS, ABSENT, PRESENT, EQUAL, LEASED, ANY = b"always", b"absent", b"present", b"equal", b"leased", b"any"
GETS, HAS, ALL, TTL_ONLY = b"get", b"has", b"all", b"ttl"
REFUSED, UPDATED, CREATED = 0, 1, 2


class EntryTtl(NamedTuple):
    """The deadlines of an entry, in µs; 0: none. ``keep``: those that a living entry has."""

    ttl: int
    idle: int
    keep: bool = False


NO_TTL, KEEP_TTL = EntryTtl(0, 0), EntryTtl(0, 0, keep=True)


class PutReply(NamedTuple):
    """The result of one put, and the old value: if it was wanted, or was the reason."""

    written: int
    previous: bytes | None


class LoadReply(NamedTuple):
    """A value, the right to load it, or for how many ms another caller has that right."""

    value: bytes | None = None
    granted: bool = False
    wait_ms: int = 0


def entry_ttl(ttl: Duration | None, max_idle: Duration | None, keep_ttl: bool = False) -> EntryTtl:
    if keep_ttl and (ttl is not None or max_idle is not None):
        raise BadInput("keep_ttl: it keeps the entry's deadlines; give ttl= and max_idle=, or keep_ttl=.")
    ttl_us = 0 if ttl is None else duration_us(ttl, "ttl", minimum=MILLISECOND)
    idle_us = 0 if max_idle is None else duration_us(max_idle, "max_idle", minimum=MILLISECOND)
    return EntryTtl(ttl_us, idle_us, keep_ttl)


def ms_of(us: int) -> int:
    """Whole milliseconds, rounded up."""
    return -(-us // MILLISECOND)


def map_answer(request: ScriptCall[T], read: Callable[[T], U]) -> ScriptCall[U]:
    """The same call with another decoded answer."""
    decode = request.decode
    other = cast("ScriptCall[U]", request)

    def read_on(reply: Reply) -> U:
        return read(decode(reply))

    other.decode = read_on
    return other


def _parse_put(reply: Reply) -> list[PutReply]:
    return [PutReply(did, was) for did, was in zip(reply[::2], reply[1::2], strict=True)]


def _parse_removed(reply: Reply) -> list[tuple[bool, bytes | None]]:
    return [(bool(did), was) for did, was in zip(reply[::2], reply[1::2], strict=True)]


def parse_bools(reply: Reply) -> list[bool]:
    return [bool(did) for did in reply]


def first_of(answers: Sequence[T]) -> T:
    return answers[0]


def _parse_page(reply: Reply) -> Entries:
    cursor, *flat = reply
    return cursor, list(zip(flat[::2], flat[1::2], strict=True))


def parse_load(reply: Reply) -> LoadReply:
    if reply[0] == 0:
        return LoadReply(value=reply[1])
    return LoadReply(granted=True) if reply[0] == 1 else LoadReply(wait_ms=max(reply[1], 0))


class RedissonLayout:
    """``RMapCache``."""

    native = False
    replaced = KEEP_TTL
    """The deadlines of an entry whose value ``replace`` replaces."""
    put_script, remove_script, add_script = PUT, REMOVE, ADD

    def __init__(self, context: MapContext[Any, Any]) -> None:
        self.context = context
        self._written: tuple[bytes, ...] = context.keys

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
        keys = (*self._written, memo, *[context.leases + key for key, _ in pairs])
        how = (flag_arg(span.keep), condition, expected, flag_arg(with_old), FIRST_TIME)
        args, items = (context.sharded, *self._span_args(span), *how), [arg for pair in pairs for arg in pair]
        return ScriptCall(self.put_script, keys, args, _parse_put, items=items, never_merged=True)

    def _span_args(self, span: EntryTtl) -> tuple[bytes, ...]:
        return b"%d" % span.ttl, b"%d" % ms_of(span.idle)

    def get(self, keys: Sequence[bytes], mode: bytes) -> ScriptCall[list[Any]] | Command[list[Any]]:
        return ScriptCall(GET, self.context.keys[:5], (mode,), list, items=keys, never_merged=mode == ALL)

    def remove(
        self, keys: Sequence[bytes], condition: bytes, *, expected: bytes = b"", with_old: bool = False
    ) -> ScriptCall[list[tuple[bool, bytes | None]]]:
        context = self.context
        names = (*self._written, context.reply_key(context.nonce()), *map(context.lease, keys))
        args = (context.sharded, condition, expected, flag_arg(with_old), FIRST_TIME)
        return ScriptCall(self.remove_script, names, args, _parse_removed, items=keys, never_merged=True)

    def expire_entries(self, keys: Sequence[bytes], span: EntryTtl, if_not_set: bool) -> ScriptCall[list[bool]]:
        context = self.context
        names = (*context.keys, context.reply_key(context.nonce()))
        args = (context.sharded, *self._span_args(span), flag_arg(if_not_set), FIRST_TIME)
        return ScriptCall(EXPIRE_ENTRY, names, args, parse_bools, items=keys, never_merged=True)

    def left(self, key: bytes) -> ScriptCall[int] | Command[int]:
        """The time to live in µs; -1: it never expires, -2: it does not exist."""
        return ScriptCall(TTL, self.context.keys[:3], (), lambda reply: int(reply[0]), items=(key,))

    def add(self, key: bytes, delta: bytes) -> ScriptCall[bytes]:
        context = self.context
        keys = (*self._written, context.reply_key(context.nonce()), context.lease(key))
        return ScriptCall(self.add_script, keys, (context.sharded, key, delta, FIRST_TIME), bytes)

    def page(self, cursor: bytes) -> ScriptCall[Entries] | Command[Entries]:
        return ScriptCall(SCAN, self.context.keys[:3], (cursor, PAGE), _parse_page)

    def lease(self, key: bytes, token: bytes, lasts_ms: int) -> ScriptCall[LoadReply]:
        context = self.context
        args = (context.sharded, token, b"%d" % lasts_ms, key)
        return ScriptCall(LEASE, (*context.keys, context.lease(key)), args, parse_load)

    def stats(self) -> ScriptCall[tuple[MapStats, bool]]:
        """The numbers of the map, and whether the size is exact."""
        name, keys = self.context.name, (*self.context.keys[:5], self.context.keys.evictors)

        def decode(reply: Reply) -> tuple[MapStats, bool]:
            now, stored, expired, next_ms, most, lfu, listened, evictors = reply
            waiting = max(expired, 0)
            mode: Mode = "LFU" if lfu else "LRU"
            found = MapStats(
                name=name,
                now=as_datetime(now),
                size=stored - waiting,
                expired=waiting,
                next_expiry=as_datetime(next_ms * MILLISECOND) if next_ms else None,
                max_size=most if most > 0 else None,
                mode=mode,
                listened=bool(listened),
                evictors=evictors,
            )
            return found, expired >= 0

        return ScriptCall(STATS, keys, (COUNTED,), decode)

    def size(self) -> Flow[int]:
        """The exact size: if there are more expired entries than one script may count, they are evicted first."""
        while True:
            found, exact = yield from ask(self.stats())
            if exact:
                return found.size
            yield from ask(evict_step(self.context))

    def clear(self) -> Command[bool]:
        return Command((b"UNLINK", *self.context.keys[:4]), bool)

    def limit(self, size: int, mode: str, if_not_set: bool) -> ScriptCall[bool]:
        args = (b"%d" % size, mode.encode(), flag_arg(if_not_set))
        return ScriptCall(LIMIT, (self.context.keys.options,), args, bool)

    def expire(self, after_ms: int | None, if_not_set: bool) -> ScriptCall[bool] | Command[bool]:
        after = b"" if after_ms is None else b"%d" % after_ms
        return ScriptCall(EXPIRE, self.context.keys[:5], (after, flag_arg(if_not_set)), bool)


def flag_arg(yes: bool) -> bytes:
    return b"1" if yes else b"0"
