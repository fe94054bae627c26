"""The format that reading has taught: a script that sees elements of unknown format stores theirs, and answers it first if that is
new (docs/decisions/0041-the-format-is-remembered.md). It is logged once, with the word that says it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from tarry.core.requests import Reply
from tarry.values.keys import QueueKeys
from tarry.verbs.redisson.elements import Format

T = TypeVar("T")
logger = logging.getLogger("tarry")
MOST_LOGGED = 4096
"""The number of queues that are remembered."""
_WRITERS = {
    Format.OLD: 'Redisson up to 3.21.0 (such as redisson="3.15.1")',
    Format.NEW: 'Redisson from 3.21.1 on (such as redisson="4.7.0")',
}


def log_learnt(keys: QueueKeys, decode: Callable[[Reply], T]) -> Callable[[Reply], T]:
    """Returns what decodes the answer of a script that reads elements: what it learnt is logged, the rest is decoded."""

    def decode_rest(reply: Reply) -> T:
        learnt, *rest = reply
        if learnt:
            _log(keys.ready, Format(learnt.decode()))
        return decode(rest)

    return decode_rest


@lru_cache(MOST_LOGGED)
def _log(queue: bytes, format: Format) -> None:
    logger.info(
        "queue %s: learnt from its elements that their format is %s, that of %s. Offers follow it; to say it yourself, and the "
        "codec with it, give the version of Redisson in Java.",
        queue.decode(),
        format,
        _WRITERS[format],
    )
