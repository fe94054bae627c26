"""A warning, logged once, when a value was not found that Java may have written as other bytes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tarry.verbs.codecs import Codec
from tarry.verbs.redisson.codecs import CODECS
from tarry.verbs.redisson.java_hash import reason_to_differ

logger = logging.getLogger("tarry")
MOST_LOGGED = 256
"""The number of warnings that are remembered."""
HASHED = (CODECS["kryo5"], CODECS["json"])
"""The codecs that write maps and sets in the order of their hashes."""


def log_if_missed(found: bool, codec: Codec[Any], values: Iterable[Any], where: str) -> bool:
    """Returns ``found``; if false, logs why that may be wrong."""
    if not found and codec in HASHED:
        for why in filter(None, map(reason_to_differ, values)):
            _log(where, why)
    return found


@lru_cache(MOST_LOGGED)
def _log(where: str, why: str) -> None:
    logger.warning(
        "%s: a value was not found, but Java may have written it as other bytes: it has %s. Look for what was read from there, "
        "or let Java use a LinkedHashMap, a list or the string codec.",
        where,
        why,
    )
