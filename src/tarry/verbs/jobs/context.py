"""The context of a topic's verbs: what they need besides their arguments.

TopicContext(name, keys, codec, ids) ──▶ verb(context, …) ──▶ ScriptCall or flow
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from tarry.values.keys import TopicKeys
from tarry.values.names import IdGenerator
from tarry.verbs.codecs import BodyCodec

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
