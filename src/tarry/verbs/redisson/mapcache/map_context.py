"""The context of a map cache's verbs: keys, codecs, and a source of nonces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tarry.errors import BadInput, BodyError
from tarry.values.keys import SHARED, MapKeys, answer_key, lease_prefix, map_keys, own_map_keys
from tarry.verbs.codecs import Codec
from tarry.verbs.redisson import names
from tarry.verbs.redisson.codecs import log_if_missed
from tarry.verbs.redisson.elements import BadElement
from tarry.verbs.redisson.entries import unpack_event
from tarry.verbs.redisson.mapcache.map_values import KINDS, EventKind, MapEvent
from tarry.verbs.redisson.values import Opaque

K = TypeVar("K")
V = TypeVar("V")
NONCE_BYTES = 12
NO_NONCE = b""


@dataclass(frozen=True, slots=True)
class MapContext(Generic[K, V]):
    """The context of one map's verbs: its names, keys, codecs. No connection."""

    name: str
    keys: MapKeys
    evictor_latch: bytes
    leases: bytes
    key_codec: Codec[K]
    codec: Codec[V]
    sharded: bytes
    """``b"1"`` on a Cluster: events use sharded channels if the server has them."""
    random: Callable[[int], bytes]

    def key(self, key: K) -> bytes:
        """The field of a key. Raises ``BadInput`` if the codec cannot encode it."""
        return _encoded(self.key_codec, key, "key")

    def value(self, value: V) -> bytes:
        return _encoded(self.codec, value, "value")

    def found(self, found: bool, *, keys: Sequence[K] = (), values: Sequence[V] = ()) -> bool:
        """Returns ``found``; if false, logs the keys or values for which Java may have other bytes."""
        where = f"map {self.name}"
        log_if_missed(found, self.key_codec, keys, where)
        return log_if_missed(found, self.codec, values, where)

    def decode(self, raw: bytes) -> V:
        """The value. Raises ``BodyError`` if the codec cannot decode it."""
        try:
            return self.codec.decode(raw)
        except (BodyError, BadInput):
            raise
        except Exception as fault:  # a custom codec may raise anything
            raise BodyError(f"An entry of {self.name!r} does not decode: {type(fault).__name__}: {fault}") from fault

    def decode_or_none(self, raw: bytes | None) -> V | None:
        return None if raw is None else self.decode(raw)

    def decode_or_opaque(self, raw: bytes) -> Any:
        """The value; ``Opaque`` if the codec cannot decode it."""
        return _decode_or_opaque(self.codec, raw)

    def decode_key_or_opaque(self, raw: bytes) -> Any:
        return _decode_or_opaque(self.key_codec, raw)

    def event(self, kind: EventKind, message: bytes) -> MapEvent[Any, Any] | None:
        """Decodes a message on the channel of a kind; ``None`` for foreign bytes."""
        event = unpack_event(message, updated=kind == "updated")
        if isinstance(event, BadElement):
            return None
        old = None if event.old is None else self.decode_or_opaque(event.old)
        return MapEvent(kind, self.decode_key_or_opaque(event.key), self.decode_or_opaque(event.value), old)

    def channel(self, kind: EventKind) -> bytes:
        if kind not in KINDS:
            raise BadInput(f"kind: {kind!r}; it is one of {', '.join(KINDS)}.")
        found: bytes = getattr(self.keys, kind)
        return found

    def lease(self, key: bytes) -> bytes:
        return self.leases + key

    def reply_key(self, nonce: bytes) -> bytes:
        """The key in which a call's answer is stored."""
        return answer_key(self.keys, nonce)

    def nonce(self) -> bytes:
        return self.random(NONCE_BYTES).hex().encode()


def context_of(
    name: str,
    redisson_name: str,
    key_codec: Codec[Any],
    codec: Codec[Any],
    *,
    cluster: bool,
    random: Callable[[int], bytes],
) -> MapContext[Any, Any]:
    """The context of a map that Java's NameMapper calls ``redisson_name``. Raises ``BadInput`` for a name that is not allowed,
    or not on a Cluster."""
    if not isinstance(name, str) or not name:
        raise BadInput(f"map: {name!r}; its name is a text that is not empty.")
    if cluster and not names.fits_cluster(redisson_name):
        raise BadInput(f"map: the keys of {name!r} are in several slots of the Cluster, for Redisson too; rename it.")
    theirs = names.map_cache(redisson_name)
    parts = (theirs.entries, theirs.timeouts, theirs.idles, theirs.accesses, theirs.options)
    channels = (theirs.created, theirs.updated, theirs.removed, theirs.expired)
    keys = map_keys((*parts, *channels), names.prefix_name(SHARED, redisson_name))
    sharded = b"1" if cluster else b"0"
    return MapContext(
        name=name,
        keys=keys,
        evictor_latch=theirs.latch.encode(),
        leases=theirs.leases.encode(),
        key_codec=key_codec,
        codec=codec,
        sharded=sharded,
        random=random,
    )


def own_context_of(
    name: str,
    namespace: str,
    key_codec: Codec[Any],
    codec: Codec[Any],
    *,
    cluster: bool,
    random: Callable[[int], bytes],
) -> MapContext[Any, Any]:
    """The context of a map that is the namespace's. Raises ``BadInput`` for a name that is not allowed."""
    keys = own_map_keys(namespace, name)
    return MapContext(
        name=name,
        keys=keys,
        evictor_latch=b"",
        leases=lease_prefix(keys),
        key_codec=key_codec,
        codec=codec,
        sharded=b"1" if cluster else b"0",
        random=random,
    )


def _encoded(codec: Codec[Any], value: Any, what: str) -> bytes:
    if value is None:
        raise BadInput(f"{what}: it is None; Redisson's maps cannot contain null. Remove the entry instead.")
    try:
        return codec.encode(value)
    except (TypeError, ValueError, RecursionError) as fault:
        if isinstance(fault, BadInput):
            raise
        raise BadInput(f"{what}: {fault}.") from fault


def _decode_or_opaque(codec: Codec[Any], raw: bytes) -> Any:
    try:
        return codec.decode(raw)
    except Exception:  # noqa: BLE001  # a custom codec may raise anything
        return Opaque(raw)
