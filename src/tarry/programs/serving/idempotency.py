"""Repeated requests. Everything that a request adds is named after its ``Idempotency-Key``, so that a repeated one adds nothing.

token, key ──▶ ids of jobs                       another token's key is another key
       and content ──▶ nonces of jobs            another request with the key finds the id taken, and is refused
                   ──▶ marks of elements, items  a repeated offer or push finds its own elements; another one adds its own

With ``Tarry-Repeated`` a client says that this request may have been carried out before, its answer lost. The scripts of such
a request run as replays: they recognise what the first one did.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tarry.errors import BadInput, JobExists
from tarry.internal import IdGenerator
from tarry.programs.serving.problems import KeyReused

if TYPE_CHECKING:
    from tarry.programs.serving.authorization import Credential

HEADER = b"idempotency-key"
REPEATED = b"tarry-repeated"
LONGEST_KEY = 255


class KeyedRequest(Protocol):
    """A request, as far as its key depends on it."""

    headers: dict[bytes, bytes]
    credential: Credential | None


class KeyedIds(IdGenerator):
    """Ids derived from the key of a token, and nonces derived from the whole request: the n-th is always the same."""

    def __init__(self, key: bytes, request: bytes) -> None:
        super().__init__(lambda: 0, lambda _: b"")
        self._key = key
        self._request = request
        self._nonces = 0
        self._made = set[str]()

    def id(self, index: int) -> str:
        """The id of the job at a position of the request."""
        id = "k" + urlsafe_b64encode(_digest(b"id", index, self._key)[:15]).decode()
        self._made.add(id)
        return id

    def has_made(self, id: str) -> bool:
        """Whether it is an id of a job of this request."""
        return id in self._made

    def nonce(self) -> bytes:
        self._nonces += 1
        return _digest(b"nonce", self._nonces, self._request)[:6]

    def new_many(self, n: int) -> list[bytes]:
        """Not used: every job with a key is given its id."""
        return [b""] * n


def id_source(request: KeyedRequest, content: Any) -> KeyedIds | None:
    """The ids derived from the request's key and its ``content``; ``None`` without a key. Raises ``BadInput``."""
    if HEADER not in request.headers:
        return None
    key = _key(request)
    return None if key is None else KeyedIds(key, _with_content(key, content))


@contextmanager
def refusing_other_requests(ids: KeyedIds | None) -> Generator[None]:
    """Raises ``KeyReused`` instead of ``JobExists`` for an id that was made of the key."""
    try:
        yield
    except JobExists as fault:
        if ids is not None and ids.has_made(fault.id):
            raise KeyReused from None
        raise


def mark_source(request: KeyedRequest, content: Any) -> Callable[[int], bytes]:
    """The marks derived from the request's key and its ``content``, one after the other; random ones without a key. Raises ``BadInput``."""
    key = _key(request)
    if key is None:
        return os.urandom
    key, made = _with_content(key, content), 0

    def mark(size: int) -> bytes:
        nonlocal made
        made += 1
        return _digest(b"mark", made, key)[:size]

    return mark


def _key(request: KeyedRequest) -> bytes | None:
    """The key of the request's token; ``None`` without one. The id of a token has no blank."""
    key = request.headers.get(HEADER)
    if key is None:
        return None
    if not 1 <= len(key) <= LONGEST_KEY:
        raise BadInput(f"Idempotency-Key: it has {len(key)} bytes; 1 to {LONGEST_KEY} are allowed.")
    token = "" if request.credential is None else request.credential.token.id
    return token.encode() + b" " + key


def _with_content(key: bytes, content: Any) -> bytes:
    return sha256(key).digest() + sha256(msgspec.json.encode(content)).digest()


def _digest(what: bytes, index: int, key: bytes) -> bytes:
    return sha256(b"%s %d %s" % (what, index, key)).digest()
