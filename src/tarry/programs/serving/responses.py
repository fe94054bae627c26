"""Responses that are more than a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

NO_CONTENT = 204
Headers = Sequence[tuple[bytes, bytes]]


class Response:
    """An answer with a status of its own, or with headers."""

    __slots__ = ("answer", "headers", "status")

    def __init__(self, answer: Any, status: int | None = None, headers: Headers = ()) -> None:
        self.answer = answer
        self.status = status
        self.headers = headers


class PlainResponse:
    """Bytes with a media type: a document, a job's body, metrics."""

    __slots__ = ("body", "media")

    def __init__(self, body: bytes, media: str) -> None:
        self.body = body
        self.media = media.encode("latin-1")


class Chunks(Protocol):
    """The chunks of a stream."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None:
        """Called once, also if none was asked for."""
        ...


class StreamResponse:
    """Chunks that are sent as they come, until they end, the client disconnects or the service drains."""

    __slots__ = ("chunks", "media")

    def __init__(self, chunks: Chunks, media: str) -> None:
        self.chunks = chunks
        self.media = media.encode("latin-1")
