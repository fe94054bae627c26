"""The verbs of a map cache, as handles call them. They return requests and flows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from operator import itemgetter
from typing import Any, Generic, TypeVar, get_args

from tarry.core.requests import Command, Flow, Operation, Reply, ScriptCall, ask, split_items
from tarry.errors import BadInput
from tarry.values.durations import MILLISECOND, Duration, as_timedelta, duration_us
from tarry.verbs.redisson.mapcache import eviction, load
from tarry.verbs.redisson.mapcache.map_context import MapContext
from tarry.verbs.redisson.mapcache.map_values import Backend, MapStats, Mode
from tarry.verbs.redisson.mapcache.native_layout import NativeLayout, refuse_native
from tarry.verbs.redisson.mapcache.redisson_layout import (
    ABSENT,
    ALL,
    ALWAYS,
    ANY,
    CHUNK,
    CREATED,
    EQUAL,
    GETS,
    HAS,
    PRESENT,
    REFUSED,
    TTL_ONLY,
    Entries,
    EntryTtl,
    PutReply,
    RedissonLayout,
    entry_ttl,
    first_of,
    map_answer,
    ms_of,
)

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class MapVerbs(Generic[K, V]):
    """The verbs of one map."""

    def __init__(self, context: MapContext[K, V], backend: Backend = "redisson") -> None:
        if backend not in get_args(Backend):
            raise BadInput(f"backend: {backend!r}; it is redisson, redisson-native or native.")
        self.context = context
        self.keys = context.keys
        self.native = backend != "redisson"
        self._layout: Any = NativeLayout(context) if self.native else RedissonLayout(context)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _put(self, key: K, value: V, span: EntryTtl, condition: bytes, **more: Any) -> ScriptCall[PutReply]:
        pair = (self.context.key(key), self.context.value(value))
        return map_answer(self._layout.put([pair], span, condition, **more), first_of)

    def _previous(self, written: PutReply) -> V | None:
        return self.context.decode_or_none(written.previous)

    def put(
        self, key: K, value: V, ttl: Duration | None, max_idle: Duration | None, keep_ttl: bool
    ) -> ScriptCall[V | None]:
        return map_answer(
            self._put(key, value, entry_ttl(ttl, max_idle, keep_ttl), ALWAYS, with_old=True), self._previous
        )

    def fast_put(
        self, key: K, value: V, ttl: Duration | None, max_idle: Duration | None, keep_ttl: bool
    ) -> ScriptCall[bool]:
        return map_answer(self._put(key, value, entry_ttl(ttl, max_idle, keep_ttl), ALWAYS), _is_created)

    def put_if_absent(self, key: K, value: V, ttl: Duration | None, max_idle: Duration | None) -> ScriptCall[V | None]:
        return map_answer(self._put(key, value, entry_ttl(ttl, max_idle), ABSENT), self._previous)

    def fast_put_if_absent(self, key: K, value: V, ttl: Duration | None, max_idle: Duration | None) -> ScriptCall[bool]:
        return map_answer(self._put(key, value, entry_ttl(ttl, max_idle), ABSENT), _is_created)

    def put_all(
        self, entries: Mapping[K, V], ttl: Duration | None, max_idle: Duration | None, keep_ttl: bool
    ) -> Flow[None]:
        """Puts many entries: all are encoded before the first script is sent; then one script for each 200 entries or 1 MB."""
        span = entry_ttl(ttl, max_idle, keep_ttl)
        pairs = [(self.context.key(key), self.context.value(value)) for key, value in entries.items()]
        return self._put_parts(split_items(pairs, itemgetter(1), CHUNK), span)

    def _put_parts(self, parts: Sequence[Sequence[tuple[bytes, bytes]]], span: EntryTtl) -> Flow[None]:
        for part in parts:
            yield from ask(self._layout.put(part, span, ALWAYS))

    def replace(self, key: K, value: V) -> ScriptCall[V | None]:
        return map_answer(self._put(key, value, self._layout.replaced, PRESENT, with_old=True), self._previous)

    def replace_if(self, key: K, old: V, value: V) -> ScriptCall[bool]:
        request = self._put(key, value, self._layout.replaced, EQUAL, expected=self.context.value(old))
        return map_answer(
            request, lambda written: self.context.found(written.written != REFUSED, keys=[key], values=[old])
        )

    def add_and_get(self, key: K, delta: float) -> ScriptCall[float]:
        if isinstance(delta, bool) or not isinstance(delta, (int, float)):
            raise BadInput(f"delta: {type(delta).__name__} is not a number.")
        if not math.isfinite(delta):
            raise BadInput(f"delta: {delta!r} is not finite.")
        if not _supports_numbers(self.context.codec):
            raise BadInput("add_and_get: the codec must store numbers as text: use long, json or string.")
        request: ScriptCall[bytes] = self._layout.add(self.context.key(key), repr(delta).encode())
        return map_answer(request, _parse_number)

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _get(self, key: K, mode: bytes) -> Any:
        request = self._layout.get((self.context.key(key),), mode)
        request.decode = _value_decoder(self.context) if mode != HAS else _is_present
        return request

    def get(self, key: K) -> ScriptCall[V | None]:
        request: ScriptCall[V | None] = self._get(key, GETS)
        return request

    def get_with_ttl_only(self, key: K) -> Operation[V | None]:
        request: ScriptCall[V | None] = self._get(key, TTL_ONLY)
        return request

    def contains_key(self, key: K) -> ScriptCall[bool]:
        request: ScriptCall[bool] = self._get(key, HAS)
        return map_answer(request, lambda there: self.context.found(there, keys=[key]))

    def get_all(self, keys: Iterable[K]) -> Flow[dict[K, V]]:
        named = {self.context.key(key): key for key in keys}
        return self._get_all(named)

    def _get_all(self, keys_by_field: dict[bytes, K]) -> Flow[dict[K, V]]:
        found: dict[K, V] = {}
        rest = list(keys_by_field)
        while rest:
            values = yield from ask(self._layout.get(rest[:CHUNK], ALL))
            chunk, rest = rest[: len(values)], rest[len(values) :]
            found.update(
                (keys_by_field[raw], self.context.decode(value))
                for raw, value in zip(chunk, values, strict=True)
                if value is not None
            )
        return found

    def remaining_ttl(self, key: K) -> Operation[timedelta | None]:
        request: Any = self._layout.left(self.context.key(key))
        decode = request.decode

        def read(reply: Reply) -> timedelta | None:
            return _ttl_of(decode(reply))

        request.decode = read
        answer: ScriptCall[timedelta | None] = request
        return answer

    def page(self, cursor: bytes) -> Operation[Entries]:
        request: ScriptCall[Entries] = self._layout.page(cursor)
        return request

    def contains_value(self, value: V) -> Operation[bool]:
        return self._contains_value(value, self.context.value(value))

    def _contains_value(self, sought: V, wanted: bytes) -> Flow[bool]:
        cursor = b"0"
        while True:
            cursor, pairs = yield from ask(self._layout.page(cursor))
            if any(value == wanted for _, value in pairs):
                return True
            if cursor == b"0":
                return self.context.found(False, values=[sought])

    def size(self) -> Operation[int]:
        flow: Flow[int] = self._layout.size()
        return flow

    def stats(self) -> Operation[MapStats]:
        if self.native:
            refuse_native("stats")
        return map_answer(self._layout.stats(), first_of)

    # ── removing, expiring ───────────────────────────────────────────────────────────────────────────────────────────

    def remove(self, key: K) -> ScriptCall[V | None]:
        request = self._layout.remove((self.context.key(key),), ANY, with_old=True)
        return map_answer(request, lambda taken: self.context.decode_or_none(taken[0][1]))

    def remove_if(self, key: K, value: V) -> ScriptCall[bool]:
        request = self._layout.remove((self.context.key(key),), EQUAL, expected=self.context.value(value))
        return map_answer(request, lambda taken: self.context.found(taken[0][0], keys=[key], values=[value]))

    def fast_remove(self, keys: Iterable[K]) -> Flow[int]:
        return self._fast_remove({self.context.key(key): None for key in keys})

    def _fast_remove(self, keys: dict[bytes, None]) -> Flow[int]:
        count = 0
        rest = list(keys)
        while rest:
            taken = yield from ask(self._layout.remove(rest[:CHUNK], ANY))
            count += sum(did for did, _ in taken)
            rest = rest[len(taken) :]
        return count

    def expire_entries(
        self, keys: Iterable[K], ttl: Duration | None, max_idle: Duration | None, if_not_set: bool
    ) -> Flow[int]:
        span = entry_ttl(ttl, max_idle)
        return self._expire_entries({self.context.key(key): None for key in keys}, span, if_not_set)

    def _expire_entries(self, keys: dict[bytes, None], span: EntryTtl, if_not_set: bool) -> Flow[int]:
        count = 0
        rest = list(keys)
        while rest:
            done = yield from ask(self._layout.expire_entries(rest[:CHUNK], span, if_not_set))
            count += sum(done)
            rest = rest[len(done) :]
        return count

    def clear(self) -> Command[bool]:
        command: Command[bool] = self._layout.clear()
        return command

    def expire(self, after: Duration, if_not_set: bool) -> ScriptCall[bool]:
        after_ms = ms_of(duration_us(after, "after", minimum=MILLISECOND))
        request: ScriptCall[bool] = self._layout.expire(after_ms, if_not_set)
        return request

    def clear_expire(self) -> ScriptCall[bool]:
        request: ScriptCall[bool] = self._layout.expire(None, False)
        return request

    # ── maximum size, eviction, loading ──────────────────────────────────────────────────────────────────────────────

    def set_max_size(self, size: int, mode: Mode, if_not_set: bool) -> Flow[bool]:
        if self.native:
            refuse_native("max_size")
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 2**31:
            raise BadInput(f"size: {size!r}; it is a number of entries, 0 for no maximum.")
        if mode not in ("LRU", "LFU"):
            raise BadInput(f"mode: {mode!r}; it is LRU or LFU.")
        return self._set_max_size(self._layout.limit(size, mode, if_not_set))

    def _set_max_size(self, request: ScriptCall[bool]) -> Flow[bool]:
        done = yield from ask(request)
        if done:
            yield from eviction.trim(self.context)
        return done

    def evict(self) -> Flow[int]:
        if self.native:
            refuse_native("evict")
        return self._evict()

    def _evict(self) -> Flow[int]:
        count, _ = yield from eviction.evict(self.context)
        return count

    def listen(self) -> Command[int]:
        """Notes that the map has a listener: from now on all clients publish its events."""
        if self.native:
            refuse_native("listen")
        return Command((b"HSET", self.keys.options, b"has-listeners", b"1"), int)

    def load(self, key: K, ttl: Duration | None, max_idle: Duration | None, lease: Duration) -> load.Load[V]:
        return load.make_load(self._layout, self.context.key(key), entry_ttl(ttl, max_idle), lease)


# ── replies ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _is_created(written: PutReply) -> bool:
    return written.written == CREATED


def _is_present(reply: Reply) -> bool:
    return reply[0] is not None


def _value_decoder(context: MapContext[Any, V]) -> Callable[[Reply], V | None]:
    def read(reply: Reply) -> V | None:
        return context.decode_or_none(reply[0])

    return read


def _ttl_of(us: int) -> timedelta | None:
    return None if us == -2 else timedelta.max if us == -1 else as_timedelta(us)


def _parse_number(text: bytes) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _supports_numbers(codec: Any) -> bool:
    for seven in (7, "7"):
        try:
            if codec.encode(seven) == b"7":
                return True
        except (TypeError, ValueError):
            continue
    return False
