"""What a handler answers when it is more than a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

Pairs = Sequence[tuple[bytes, bytes]]


class Answered:
    """An answer with another status than the row's, or with headers."""

    __slots__ = ("answer", "headers", "status")

    def __init__(self, answer: Any, status: int | None = None, headers: Pairs = ()) -> None:
        self.answer = answer
        self.status = status
        self.headers = headers


class Plain:
    """Bytes of any kind: a page, a body, a metric."""

    __slots__ = ("body", "media")

    def __init__(self, body: bytes, media: str) -> None:
        self.body = body
        self.media = media.encode("latin-1")


class Stream:
    """Pieces that are sent as they come, until there are no more, the client goes or the service drains."""

    __slots__ = ("media", "pieces")

    def __init__(self, pieces: AsyncGenerator[bytes, None], media: str) -> None:
        self.pieces = pieces
        self.media = media.encode("latin-1")
