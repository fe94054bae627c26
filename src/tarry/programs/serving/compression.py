"""Which answers are compressed, with gzip, for clients that accept it.

    compressed    the dashboard's pages; of the API what only reads: lists, counts, metrics
    ... once      what never changes: the document of the API, the dashboard's assets (serving/documents.py)
    as they are   whatever holds a token, or a form for one: locks, the page to sign in; every answer to a request that changes
                  something, such as popped jobs; the APIs of other systems; streams; what is short

The length of a compressed answer tells somebody who chose a part of it what else is in it (BREACH; decision 0095). So no token is in one. A receipt,
which a list of jobs has, is none: it is worth nothing without a token.
"""

from __future__ import annotations

from typing import Any

from starlette.middleware.gzip import GZipMiddleware

from tarry.programs.serving.documents import LEVEL, SHORT

COMPRESSED_PATHS = ("/v1/", "/metrics")
"""The beginnings of paths of the API whose GETs only read."""
PLAIN_TAGS = frozenset({"locks", "events"})
"""Routes of the API that are left out: answers with fencing tokens, and streams, which older versions of Starlette would hold back."""
PLAIN_PAGES = ("/sign-in", "/sign-out")
"""The ends of paths of pages that are left out."""
STREAM = b"text/event-stream"


def is_compressed_route(method: str, path: str, tag: str) -> bool:
    """Whether the answers of a route may be compressed."""
    return method == "GET" and path.startswith(COMPRESSED_PATHS) and tag not in PLAIN_TAGS


def accepts_gzip(scope: Any, headers: dict[bytes, bytes]) -> bool:
    """Whether a request is one that reads, for no stream, by a client that accepts gzip."""
    return (
        scope["method"] == "GET"
        and b"gzip" in headers.get(b"accept-encoding", b"")
        and STREAM not in headers.get(b"accept", b"")
    )


def compressed(app: Any) -> Any:
    """The same ASGI application with compressed answers."""
    return GZipMiddleware(app, minimum_size=SHORT, compresslevel=LEVEL)


def compressed_page(app: Any, path: str, scope: Any, headers: dict[bytes, bytes]) -> Any:
    """The application that shows a page, or the same with compressed answers."""
    return app if path.endswith(PLAIN_PAGES) or not accepts_gzip(scope, headers) else compressed(app)
