"""What was looked for and not found, where Java may have written an equal value as other bytes: it is told, once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tarry.verbs.codecs import Codec
from tarry.verbs.redisson.codecs import CODECS
from tarry.verbs.redisson.java_hash import doubt

logger = logging.getLogger("tarry")
MOST_LOGGED = 256
"""So many are remembered."""
HASHED = (CODECS["kryo5"], CODECS["json"])
"""The codecs that write maps and sets in the order of their hashes."""


def log_if_missed(found: bool, codec: Codec[Any], values: Iterable[Any], where: str) -> bool:
    """Answers whether it was found; if not, the log says why that may be wrong."""
    if not found and codec in HASHED:
        for why in filter(None, map(doubt, values)):
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
