"""What the shared queues of both clients have in common before they talk."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from tarry.clients.origin import Origin
from tarry.errors import BadInput
from tarry.verbs.codecs import Codec
from tarry.verbs.delayed.desk import QueueDesk, format_of, keys_of
from tarry.verbs.redisson.codecs import codec_for
from tarry.words.keys import QueueKeys

logger = logging.getLogger("tarry")
WINDOW_S = 5.0
"""A wait is begun anew after so long: what became of its connection, or of its server, does not hold it up for longer."""
CLOSING_S = 5.0
LONGEST_SLEEP_S = 30.0
UNHEARD_S = 1.0
"""A mover whose line is broken makes another one after so long."""
SEVERAL_SLOTS = "poll_from_any: these queues lie in different slots of the Cluster; poll them one by one."


def desk_of(origin: Origin, name: str, codec: str | Codec[Any], format: str | None) -> QueueDesk[Any]:
    """The desk of a queue; ``BadInput`` for a name, codec or format that cannot be."""
    return QueueDesk(
        name,
        origin_keys(origin, name),
        codec_for(codec),
        format_of(format),
        os.urandom,
        lambda other: origin_keys(origin, other),
    )


def origin_keys(origin: Origin, name: str) -> QueueKeys:
    """The keys of a queue by its name in Java."""
    return keys_of(origin.redisson_name(name), cluster=origin.address.kind == "cluster")


def one_group(groups: set[int]) -> None:
    if len(groups) > 1:
        raise BadInput(SEVERAL_SLOTS)


def ready_keys(queues: Sequence[QueueKeys]) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(keys.ready for keys in queues))


def tell_of_trouble(what: str, fault: BaseException) -> None:
    logger.warning("%s could not be moved, trying again: %s", what, fault)


def failure(fault: BaseException) -> str:
    """Why a handler's element was set aside."""
    return "handler: " + " ".join(f"{type(fault).__name__}: {fault}".split())
