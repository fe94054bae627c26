"""What a handler answers when it is more than a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

Headers = Sequence[tuple[bytes, bytes]]


class Response:
    """An answer with another status than the row's, or with headers."""

    __slots__ = ("answer", "headers", "status")

    def __init__(self, answer: Any, status: int | None = None, headers: Headers = ()) -> None:
        self.answer = answer
        self.status = status
        self.headers = headers


class PlainResponse:
    """Bytes of any kind: a page, a body, a metric."""

    __slots__ = ("body", "media")

    def __init__(self, body: bytes, media: str) -> None:
        self.body = body
        self.media = media.encode("latin-1")


class StreamResponse:
    """Pieces that are sent as they come, until there are no more, the client goes or the service drains."""

    __slots__ = ("chunks", "media")

    def __init__(self, chunks: AsyncGenerator[bytes, None], media: str) -> None:
        self.chunks = chunks
        self.media = media.encode("latin-1")
