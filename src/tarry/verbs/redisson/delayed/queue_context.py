"""The context of a shared queue's verbs: keys, codec, format, and a source of marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tarry.errors import BadInput
from tarry.values.keys import SHARED, QueueKeys, queue_keys
from tarry.verbs.codecs import Codec
from tarry.verbs.redisson import names
from tarry.verbs.redisson.codecs import (
    UNKNOWN_OF_BLOCKING,
    UNKNOWN_OF_DELAYED,
    codec_of,
    log_if_missed,
    require_codec,
)
from tarry.verbs.redisson.elements import Format, format_of
from tarry.verbs.redisson.values import Opaque
from tarry.verbs.redisson.versions import RedissonVersion

T = TypeVar("T")


def keys_of(name: str, *, cluster: bool = False) -> QueueKeys:
    """The keys of a queue. Raises ``BadInput`` for a name that is not allowed, or not on a Cluster."""
    if not isinstance(name, str) or not name:
        raise BadInput(f"queue: {name!r}; its name is a text that is not empty.")
    if cluster and not names.fits_cluster(name):
        raise BadInput(f"queue: the keys of {name!r} are in several slots of the Cluster, for Redisson too; rename it.")
    theirs = names.delayed_queue(name)
    return queue_keys(theirs.ready, theirs.order, theirs.due, theirs.channel, names.prefix_name(SHARED, name))


@dataclass(frozen=True, slots=True)
class QueueContext(Generic[T]):
    """The context of one queue's verbs: its name, keys, codec, format. No connection."""

    name: str
    keys: QueueKeys
    codec: Codec[T]
    format: Format | None
    """The format that was given; ``None``: that of its elements, or the stored one."""
    random_marks: Callable[[int], bytes]
    keys_of: Callable[[str], QueueKeys] = keys_of
    """The keys of another queue of the same application."""

    def for_queue(self, name: str) -> QueueContext[T]:
        """The context of another queue of the same application, with the same codec."""
        return replace(self, name=name, keys=self.keys_of(name))

    def encode(self, value: T) -> bytes:
        """The payload of a value. Raises ``BadInput`` if the codec cannot encode it."""
        if value is None:
            raise BadInput(
                "value: it is None; Redisson's queues cannot contain null, and poll returns None for an empty queue."
            )
        try:
            return self.codec.encode(value)
        except (TypeError, ValueError, RecursionError) as fault:
            if isinstance(fault, BadInput):
                raise
            raise BadInput(f"value: {fault}.") from fault

    def require_codec(self) -> None:
        """Raises ``BadInput`` if nobody said which codec it is: for verbs that take elements out."""
        require_codec(self.codec)

    def found(self, found: bool, values: Iterable[T]) -> bool:
        """Returns ``found``; if false, logs the values for which Java may have other bytes."""
        return log_if_missed(found, self.codec, values, f"queue {self.name}")

    def decode_or_opaque(self, payload: bytes) -> Any:
        """The value of a payload that stays in the queue; ``Opaque`` if the codec cannot decode it."""
        try:
            return self.codec.decode(payload)
        except Exception:  # noqa: BLE001  # a custom codec may raise anything
            return Opaque(payload)

    def decode_all(self, payloads: Iterable[bytes]) -> DecodedPayloads:
        """The values of payloads that were taken out, and those that the codec cannot decode."""
        taken = DecodedPayloads([], [])
        for payload in payloads:
            try:
                taken.values.append(self.codec.decode(payload))
            except Exception as fault:  # noqa: BLE001  # a custom codec may raise anything
                taken.undecodable.append((payload, " ".join(f"{type(fault).__name__}: {fault}".split())))
        return taken


def queue_context(
    name: str,
    codec: str | Codec[Any] | None,
    format: str | None,
    redisson: RedissonVersion | None,
    keys_of: Callable[[str], QueueKeys],
    random_marks: Callable[[int], bytes],
    *,
    delayed: bool = True,
) -> QueueContext[Any]:
    """The context of a queue, checked. The codec and format are given, or those of Java's Redisson. Raises ``BadInput`` for an invalid
    name, codec or format."""
    unknown = UNKNOWN_OF_DELAYED if delayed else UNKNOWN_OF_BLOCKING
    keys, its_codec = keys_of(name), codec_of(codec, redisson, unknown.format(f"queue {name!r}"))
    of_version = None if redisson is None else redisson.format
    known = of_version if format is None else format_of(format)
    return QueueContext(name, keys, its_codec, known, random_marks, keys_of)


@dataclass(frozen=True, slots=True)
class DecodedPayloads:
    """Payloads that were taken out of a queue: their values, and undecodable ones with their reasons."""

    values: list[Any]
    undecodable: list[tuple[bytes, str]]
