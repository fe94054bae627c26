"""Live updates: the part of a page that changes, as server-sent events, at the page's own URL.

    hello   the version of the assets that the browser loaded   lost   the server does not answer: the message
    view    the HTML, whenever it has changed                   beat   it has not changed
    failed  the view cannot be made: logged, tried again        gone   the object is gone: the message

When a stream breaks the browser opens a new one. The server keeps no state of it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tarry.errors import BadInput, ServerUnfit, Unavailable
from tarry.programs.dashboard.access import cookies_of
from tarry.programs.dashboard.page_request import NotFound, PageHost, PageRequest

if TYPE_CHECKING:
    from tarry.programs.dashboard.sections import Section

logger = logging.getLogger("tarry")
MOST_STREAMS = 200
MOST_PER_TOKEN = 50
RETRY_MS = 1000
FAILED = "This part could not be loaded. It will be tried again."
CACHE_SHARE = 0.8
"""A view is shared for this fraction of the section's interval."""


def is_stream(request: Request) -> bool:
    """Whether the request is from a browser's EventSource."""
    return "text/event-stream" in request.headers.get("accept", "")


class ViewCache:
    """Caches views for a moment, so that a hundred visitors of the same page cost the server as much as one."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._views: dict[tuple[Any, ...], tuple[float, asyncio.Task[dict[str, Any]]]] = {}
        self.streams = Counter[str]()
        """The open streams by token; without tokens all by the same name."""

    async def get_or_load(self, part: Section, visit: PageRequest) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        now = loop.time()
        parameters = {name: value for name, value in visit.query.items() if name != "said"}
        key = (loop, part.path, visit.root, visit.role, tuple(sorted(parameters.items())))
        self._views = {name: one for name, one in self._views.items() if one[0] > now}
        known = self._views.get(key)
        if known is None:
            task = asyncio.ensure_future(_with_timeout(part, visit, self._patience_s))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            known = self._views[key] = (now + part.every_s * CACHE_SHARE, task)
        try:
            return await asyncio.shield(known[1])
        except Exception:
            self._views.pop(key, None)
            raise

    def invalidate(self) -> None:
        """Empties the cache after an action."""
        self._views = {}


async def _with_timeout(part: Section, visit: PageRequest, patience_s: float) -> dict[str, Any]:
    async with asyncio.timeout(patience_s):
        return await part.view(visit)


def stream(dashboard: PageHost, cache: ViewCache, part: Section, visit: PageRequest, request: Request) -> Response:
    """The response that streams updates of a page."""
    token = cookies_of(request).get(dashboard.access.cookie, "") if dashboard.access.tokens_required else ""
    if cache.streams.total() >= MOST_STREAMS or (token and cache.streams[token] >= MOST_PER_TOKEN):
        return Response("Too many pages are open.", 503, headers={"retry-after": "10"})
    return CountedStream(_events(dashboard, cache, part, visit, request), cache.streams, token)


class CountedStream(StreamingResponse):
    """A stream that is counted from the moment at which it is allowed until its end."""

    def __init__(self, events: AsyncIterator[str], streams: Counter[str], token: str) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._streams, self._token = streams, token
        streams[token] += 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams[self._token] -= 1
            self._streams += Counter()  # forgets those without any


async def _events(
    dashboard: PageHost, cache: ViewCache, part: Section, visit: PageRequest, request: Request
) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n{_event('hello', dashboard.version)}"
    last = logged = ""
    while not dashboard.closing.is_set():
        try:
            if await dashboard.access.role(request.scope, cookies_of(request)) != visit.role:
                return  # its role has changed
            data = await cache.get_or_load(part, visit)
            text = dashboard.view(visit, part.template, data)
        except (Unavailable, ServerUnfit, TimeoutError) as fault:
            last = ""
            yield _event("lost", dashboard.unreachable_text(fault))
        except (NotFound, BadInput) as fault:
            last = ""
            yield _event("gone", str(fault))
        except Exception as fault:
            last = ""
            if repr(fault) != logged:  # once, not at every try
                logged = repr(fault)
                logger.exception("The dashboard's page %s cannot be shown; it is tried again.", part.path)
            yield _event("failed", FAILED)
        else:
            logged = ""
            yield _event("view", text) if text != last else _event("beat", "")
            last = text
        with suppress(TimeoutError):
            await asyncio.wait_for(dashboard.closing.wait(), part.every_s)


def _event(kind: str, data: str) -> str:
    """JSON has no line breaks, so one line of data holds everything."""
    return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
