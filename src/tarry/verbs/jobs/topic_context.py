"""The context of the verbs of one partition, or of a topic that is not divided. Verbs return requests and flows, and perform
nothing.

TopicContext(name, keys, codec, ids) ──▶ verb(context, …) ──▶ ScriptCall or flow
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tarry.errors import BadInput
from tarry.values.keys import TopicKeys
from tarry.values.names import IdGenerator
from tarry.verbs.codecs import BodyCodec
from tarry.verbs.jobs.leases import Leases

T = TypeVar("T")
Share = tuple[int, int]
"""The index of a partition, and the number of partitions."""
WHOLE_TOPIC: Share = (0, 1)


@dataclass(frozen=True, slots=True)
class TopicContext(Generic[T]):
    """The context of one topic's verbs: its name, keys, codec, and a source of ids. No connection."""

    name: str
    keys: TopicKeys
    codec: BodyCodec[T]
    ids: IdGenerator
    leases: Leases = field(default_factory=Leases)


def one_line(fault: BaseException) -> str:
    """An exception in one line: its type, and its message if it has one."""
    try:
        text = " ".join(str(fault).split())
    except Exception:  # noqa: BLE001  # a user's class may raise anything
        text = "its text cannot be shown"
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__


def require_several(value: object, what: str) -> None:
    """Refuses text and maps, which are iterable, but hardly ever meant."""
    if isinstance(value, (str, bytes, bytearray, Mapping)):
        raise BadInput(f"{what}: {type(value).__name__} given; put it into a list.")
