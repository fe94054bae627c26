"""Decoding the server's replies for users of a map."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from tarry.core.requests import Reply
from tarry.values.durations import as_timedelta
from tarry.verbs.mapcache.context import MapContext
from tarry.verbs.mapcache.redisson_layout import CREATED, PutReply

V = TypeVar("V")
CHUNK = 200
"""Entries of one script: it must not block the server for long."""


def is_created(written: PutReply) -> bool:
    return written.written == CREATED


def is_present(reply: Reply) -> bool:
    return reply[0] is not None


def value_decoder(context: MapContext[Any, V]) -> Callable[[Reply], V | None]:
    def read(reply: Reply) -> V | None:
        return context.decode_or_none(reply[0])

    return read


def remaining_ttl(us: int) -> timedelta | None:
    return None if us == -2 else timedelta.max if us == -1 else as_timedelta(us)


def parse_number(text: bytes) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def supports_numbers(codec: Any) -> bool:
    for seven in (7, "7"):
        try:
            if codec.encode(seven) == b"7":
                return True
        except (TypeError, ValueError):
            continue
    return False
