"""CORS: pages of the origins of ``--allow-origin`` may call the API with a token in ``Authorization``, and never with a cookie.

A page has to know its token. The dashboard's cookie is no way in: no route of the API reads one, and no page of the dashboard is
answered for another origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.middleware.cors import CORSMiddleware

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
REQUEST_HEADERS = ("authorization", "content-type", "idempotency-key", "tarry-repeated", "tarry-unknown-topic")
RESPONSE_HEADERS = ("retry-after", "www-authenticate")
PREFLIGHT_LIFETIME_S = 600


def allowing_origins(app: Any, origins: Sequence[str]) -> Any:
    """The same ASGI application for pages of these origins, too."""
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=METHODS,
        allow_headers=REQUEST_HEADERS,
        allow_credentials=False,
        expose_headers=RESPONSE_HEADERS,
        max_age=PREFLIGHT_LIFETIME_S,
    )
