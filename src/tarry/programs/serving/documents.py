"""Documents that never change, such as the API's and the dashboard's assets: compressed once, however many ask for them."""

from __future__ import annotations

import gzip
from functools import lru_cache

SHORT, LEVEL = 1000, 5
"""The length from which an answer is compressed, and how well."""
VARY = {"vary": "accept-encoding"}


def negotiated(document: bytes, accepted: str) -> tuple[bytes, dict[str, str]]:
    """A document that never changes, compressed if the client accepts that, and the headers that say so. The same ``bytes`` object
    each time costs nothing."""
    if len(document) < SHORT or "gzip" not in accepted:
        return document, VARY
    return _compressed(document), {**VARY, "content-encoding": "gzip"}


@lru_cache(maxsize=64)
def _compressed(document: bytes) -> bytes:
    return gzip.compress(document, LEVEL, mtime=0)
