"""A shared queue as its verbs see it: keys, codec, format, and where marks come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from tarry.errors import BadInput
from tarry.values.keys import QueueKeys, queue_keys
from tarry.verbs.codecs import Codec
from tarry.verbs.redisson import names
from tarry.verbs.redisson.elements import Format
from tarry.verbs.redisson.equality_log import log_if_missed
from tarry.verbs.redisson.values import Opaque

T = TypeVar("T")


def keys_of(name: str, *, cluster: bool = False) -> QueueKeys:
    """Redisson's keys of the queue, and ours; ``BadInput`` for a name that cannot be one, or not in a Cluster."""
    if not isinstance(name, str) or not name:
        raise BadInput(f"queue: {name!r}; its name is a text that is not empty.")
    if cluster and not names.fits_cluster(name):
        raise BadInput(f"queue: the keys of {name!r} lie in several slots of the Cluster, for Redisson too; rename it.")
    theirs = names.delayed_queue(name)
    return queue_keys(theirs.ready, theirs.order, theirs.due, theirs.channel, names.prefix_name("tarry", name))


@dataclass(frozen=True, slots=True)
class QueueContext(Generic[T]):
    """Everything that the verbs of one queue need, and nothing that talks."""

    name: str
    keys: QueueKeys
    codec: Codec[T]
    format: Format | None
    """What somebody says that it has; ``None``: as what is found there, or remembered."""
    random_marks: Callable[[int], bytes]
    keys_of: Callable[[str], QueueKeys] = keys_of
    """The keys of another queue of the same application."""

    def for_queue(self, name: str) -> QueueContext[T]:
        """The desk of another queue of the same application, with the same codec."""
        return replace(self, name=name, keys=self.keys_of(name))

    def encode(self, value: T) -> bytes:
        """The payload of a value; ``BadInput`` if it has none under this codec."""
        if value is None:
            raise BadInput("value: None; Redisson's queues hold no null, and poll answers None for nothing.")
        try:
            return self.codec.encode(value)
        except (TypeError, ValueError, RecursionError) as fault:
            if isinstance(fault, BadInput):
                raise
            raise BadInput(f"value: {fault}.") from fault

    def found(self, found: bool, values: Iterable[T]) -> bool:
        """Whether it was found; if not, the log says of which values Java may have other bytes."""
        return log_if_missed(found, self.codec, values, f"queue {self.name}")

    def decode_or_opaque(self, payload: bytes) -> Any:
        """The value of a payload that stays where it is; ``Opaque`` if the codec cannot read it."""
        try:
            return self.codec.decode(payload)
        except Exception:  # noqa: BLE001  # a codec of the user's own may raise anything
            return Opaque(payload)

    def decode_all(self, payloads: Iterable[bytes]) -> DecodedPayloads:
        """The values of payloads that were taken out, and those that the codec cannot read."""
        taken = DecodedPayloads([], [])
        for payload in payloads:
            try:
                taken.values.append(self.codec.decode(payload))
            except Exception as fault:  # noqa: BLE001  # a codec of the user's own may raise anything
                taken.undecodable.append((payload, " ".join(f"{type(fault).__name__}: {fault}".split())))
        return taken


@dataclass(frozen=True, slots=True)
class DecodedPayloads:
    """What was taken out of a queue: values, and payloads to be set aside with their reasons."""

    values: list[Any]
    undecodable: list[tuple[bytes, str]]
