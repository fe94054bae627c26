"""What a client is told once, at the start."""

from __future__ import annotations

from dataclasses import dataclass

from tarry.errors import BadInput
from tarry.words.durations import SECOND, Duration, microseconds

MAX_BODY = 1 << 20
PATIENCE: Duration = 10


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings of a client."""

    namespace: str
    max_body: int
    patience_s: float


def settings(namespace: str, max_body: int, patience: Duration) -> Settings:
    if not isinstance(max_body, int) or isinstance(max_body, bool) or not 1 <= max_body <= 512 << 20:
        raise BadInput(f"max_body: {max_body!r}; it is a number of bytes, at most 512 MiB.")
    return Settings(namespace, max_body, microseconds(patience, "patience") / SECOND)
