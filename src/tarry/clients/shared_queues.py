"""The parts of shared queues that need no connection, for both clients."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from tarry.clients.config import NamingConfig
from tarry.values.keys import QueueKeys
from tarry.verbs.codecs import Codec
from tarry.verbs.delayed.context import QueueContext, keys_of
from tarry.verbs.redisson.codecs import codec_for
from tarry.verbs.redisson.elements import format_of

logger = logging.getLogger("tarry")
WINDOW_S = 5.0
"""The longest single wait. Then a new one begins, so that a lost connection or server delays a caller no longer than this."""


def queue_context(config: NamingConfig, name: str, codec: str | Codec[Any], format: str | None) -> QueueContext[Any]:
    """Returns the queue's context. Raises ``BadInput`` for an invalid name, codec or format."""
    return QueueContext(
        name,
        queue_keys_of(config, name),
        codec_for(codec),
        config.queue_format if format is None else format_of(format),
        os.urandom,
        lambda other: queue_keys_of(config, other),
    )


def queue_keys_of(config: NamingConfig, name: str) -> QueueKeys:
    """The keys of a queue by its name in Java."""
    return keys_of(config.redisson_name(name), cluster=config.cluster)


def ready_keys(queues: Sequence[QueueKeys], group_of: Callable[[bytes], int]) -> list[tuple[bytes, ...]]:
    """The lists to wait for, those of one slot together."""
    found: dict[int, list[bytes]] = {}
    for key in dict.fromkeys(keys.ready for keys in queues):
        found.setdefault(group_of(key), []).append(key)
    return [tuple(keys) for keys in found.values()]


def failure_reason(fault: BaseException) -> str:
    """The reason for which a handler's element was set aside."""
    return "handler: " + " ".join(f"{type(fault).__name__}: {fault}".split())
