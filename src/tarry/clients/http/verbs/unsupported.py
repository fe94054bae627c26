"""Verbs that do not exist over HTTP: the table of their errors, and the handles whose verbs only read."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from msgspec import UNSET

from tarry.clients.http.requests import HTTPFlow, HTTPRequest, ask, request_to
from tarry.errors import ServerUnfit
from tarry.verbs.locks.lock_values import LockId, LockState
from tarry.verbs.redisson.mapcache.map_context import MapContext
from tarry.verbs.redisson.mapcache.map_values import Backend, MapStats
from tarry.verbs.redisson.mapcache.map_verbs import MapVerbs
from tarry.wire.endpoints import lock_endpoints as locks
from tarry.wire.redisson import map_endpoints as maps
from tarry.wire.schemas import base64_text

NOT_SUPPORTED: dict[str, str] = {
    "keep_moving": "A service moves the queues that it was started with: tarry serve --delayed-queue NAME. A take or poll "
    "over HTTP that waits has them moved meanwhile.",
    "lock.acquire": "Over HTTP you can inspect and force-release a lock, not acquire it: a holder must renew it, and nobody would "
    "see this process die. Use tarry.Client at the server, or a topic, whose jobs come back by themselves.",
    "map_cache": "Over HTTP a map is looked at: stats(), size(), its entries one after the other, get_with_ttl_only(), "
    "remaining_ttl(). What changes it, as get() does an idle time, is the applications' own: use tarry.Client at the server.",
    "guarded_queue.guard": "Over HTTP a guarded queue needs no guard: each verb is one atomic script at the service. Leave "
    "guard= out, or use tarry.Client at the server.",
    "ends": "Over HTTP the ends of jobs are a stream of server-sent events, which any client of these reads: GET /v1/topics/TOPIC/ends. In Python use tarry.Client at the server.",
    "migrate": "migrate: a service moves jobs between two topics of one namespace of its own. Use `tarry migrate` at the "
    "servers for anything else.",
    "migrate_queue": "migrate_queue: a service moves elements between a queue and a topic of its own. Use "
    "`tarry delayed-queue migrate` at the server for anything else.",
}
"""The refused verbs, and why. The names are those of ``tarry.Client``."""


def not_supported(what: str) -> ServerUnfit:
    return ServerUnfit(NOT_SUPPORTED[what])


class HTTPMapVerbs(MapVerbs[Any, Any]):
    """A map cache's verbs that change nothing. Every other one is refused. Keys and values are encoded and decoded here."""

    def __init__(self, context: MapContext[Any, Any], backend: Backend) -> None:
        super().__init__(context, backend)
        self._name = context.name
        self._backend: Backend = backend

    def stats(self) -> HTTPRequest[MapStats]:
        return request_to(maps.SIZE, self._name, known=(self._name,), query={"backend": self._backend})

    def size(self) -> HTTPRequest[int]:
        return self.stats().then(lambda now: now.size)

    def page(self, cursor: bytes) -> HTTPRequest[tuple[bytes, list[tuple[bytes, bytes]]]]:
        def pairs(found: maps.MapPage) -> tuple[bytes, list[tuple[bytes, bytes]]]:
            entries = [(b64decode(one.key), b64decode(one.value)) for one in found.entries]
            return (found.cursor or "0").encode(), entries

        query = {"backend": self._backend, "codec": "bytes", "cursor": cursor.decode()}
        return request_to(maps.ENTRIES, self._name, query=query).then(pairs)

    def contains_value(self, value: Any) -> HTTPFlow[bool]:
        return self._find_value(self.context.value(value))

    def _find_value(self, encoded: bytes) -> HTTPFlow[bool]:
        cursor = b""
        while cursor != b"0":
            cursor, pairs = yield from ask(self.page(cursor or b"0"))
            if any(value == encoded for _, value in pairs):
                return True
        return False

    def get_with_ttl_only(self, key: Any) -> HTTPRequest[Any]:
        return self._look(
            key, lambda found: None if found.value is UNSET else self.context.decode(b64decode(found.value))
        )

    def remaining_ttl(self, key: Any) -> HTTPRequest[timedelta | None]:
        return self._look(key, _remaining)

    def _look(self, key: Any, convert: Callable[[maps.EntryLooked], Any]) -> HTTPRequest[Any]:
        body = maps.LookUp(keys=[base64_text(self.context.key(key))], codec="bytes", backend=self._backend)
        return request_to(maps.LOOK, self._name, body=body).then(lambda found: convert(found.entries[0]))


def _remaining(found: maps.EntryLooked) -> timedelta | None:
    if found.remaining_ms is UNSET:
        return None
    return timedelta.max if found.remaining_ms is None else timedelta(milliseconds=found.remaining_ms)


def _refuse_map(*_: Any, **__: Any) -> Any:
    raise not_supported("map_cache")


for _name in vars(MapVerbs).keys() - vars(HTTPMapVerbs).keys():
    if not _name.startswith("_"):
        setattr(HTTPMapVerbs, _name, _refuse_map)


class HTTPLockBackend:
    """The requests about locks."""

    def state(self, lock: LockId) -> HTTPRequest[LockState]:
        return request_to(locks.LOOK, lock.name, query=_lock_query(lock))

    def force_release(self, lock: LockId) -> HTTPRequest[bool]:
        return request_to(locks.FORCE_RELEASE, lock.name, query=_lock_query(lock)).then(lambda found: found.released)


def _lock_query(lock: LockId) -> dict[str, str]:
    return {"shared": "true"} if lock.shared else {}
