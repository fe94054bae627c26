"""A response that is sent for as long as its token is permitted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

EVENTS = "text/event-stream"
TellingRefusal = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""Calls a function when the token of a request is refused."""


class GuardedStream:
    """A stream that ends when its token is refused; a download breaks off, so that nobody takes it for a whole one."""

    def __init__(self, stream: StreamingResponse, telling_refusal: TellingRefusal) -> None:
        self._stream, self._telling_refusal = stream, telling_refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending, refused = asyncio.ensure_future(self._stream(scope, receive, send)), asyncio.Event()
        refusal = asyncio.ensure_future(refused.wait())
        try:
            with self._telling_refusal(refused.set):
                await asyncio.wait({sending, refusal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            refusal.cancel()
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})
        if not sending.cancelled():
            sending.result()
        elif self._stream.media_type == EVENTS:
            await send({"type": "http.response.body", "body": b""})
