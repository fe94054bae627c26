"""What the shared queues of both clients have in common before they talk."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from tarry.clients.origin import Naming
from tarry.values.keys import QueueKeys
from tarry.verbs.codecs import Codec
from tarry.verbs.delayed.context import QueueContext, keys_of
from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.elements import format_of

logger = logging.getLogger("tarry")
WINDOW_S = 5.0
"""A wait is begun anew after so long: what became of its connection, or of its server, does not hold it up for longer."""
CLOSING_S = 5.0
LONGEST_SLEEP_S = 30.0
PAUSE_S = 1.0
"""After a trouble."""


def desk_of(origin: Naming, name: str, codec: str | Codec[Any], format: str | None) -> QueueContext[Any]:
    """The desk of a queue; ``BadInput`` for a name, codec or format that cannot be."""
    return QueueContext(
        name,
        origin_keys(origin, name),
        codec_for(codec),
        origin.queue_format if format is None else format_of(format),
        os.urandom,
        lambda other: origin_keys(origin, other),
    )


def origin_keys(origin: Naming, name: str) -> QueueKeys:
    """The keys of a queue by its name in Java."""
    return keys_of(origin.redisson_name(name), cluster=origin.cluster)


def ready_keys(queues: Sequence[QueueKeys], group_of: Callable[[bytes], int]) -> list[tuple[bytes, ...]]:
    """The lists to wait for, those of one slot together."""
    found: dict[int, list[bytes]] = {}
    for key in dict.fromkeys(keys.ready for keys in queues):
        found.setdefault(group_of(key), []).append(key)
    return [tuple(keys) for keys in found.values()]


class Troubles:
    """Which queues cannot be moved: told once, and again when they can be or something else is wrong."""

    def __init__(self) -> None:
        self._told: dict[str, type[BaseException]] = {}

    def tell(self, what: str, fault: BaseException) -> None:
        if self._told.get(what) is not type(fault):
            self._told[what] = type(fault)
            logger.warning("%s could not be moved, trying again: %s", what, fault)

    def over(self, what: str) -> None:
        if self._told.pop(what, None) is not None:
            logger.warning("%s is moved again.", what)


def failure(fault: BaseException) -> str:
    """Why a handler's element was set aside."""
    return "handler: " + " ".join(f"{type(fault).__name__}: {fault}".split())
