"""An ``Idempotency-Key`` is what everything that a request adds is made of: repeated, it adds nothing.

key ──▶ ids and nonces of jobs         (adding.py)
    ──▶ marks of elements and items    an offer or a push that comes again finds itself
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256

from tarry.errors import BadInput
from tarry.values.names import IdGenerator

HEADER = b"idempotency-key"
LONGEST_KEY = 255


class KeyedIds(IdGenerator):
    """Ids and nonces that follow from a key: the n-th is always the same."""

    def __init__(self, key: bytes) -> None:
        super().__init__(lambda: 0, lambda _: b"")
        self._key = key
        self._nonces = 0

    def id(self, index: int) -> str:
        """The id of the job at a place."""
        return "k" + urlsafe_b64encode(_digest(b"id", index, self._key)[:15]).decode()

    def nonce(self) -> bytes:
        self._nonces += 1
        return _digest(b"nonce", self._nonces, self._key)[:8]

    def new_many(self, n: int) -> list[bytes]:
        """Not used: every keyed job is given its id."""
        return [b""] * n


def id_source(headers: dict[bytes, bytes]) -> KeyedIds | None:
    """The ids that a request's key stands for. Raises ``BadInput``."""
    key = _key(headers)
    return None if key is None else KeyedIds(key)


def mark_source(headers: dict[bytes, bytes]) -> Callable[[int], bytes]:
    """The marks that a request's key stands for, one after the other; without a key they are new. Raises ``BadInput``."""
    key = _key(headers)
    if key is None:
        return os.urandom
    made = 0

    def mark(size: int) -> bytes:
        nonlocal made
        made += 1
        return _digest(b"mark", made, key)[:size]

    return mark


def _key(headers: dict[bytes, bytes]) -> bytes | None:
    key = headers.get(HEADER)
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        raise BadInput(f"Idempotency-Key: it has {len(key)} bytes; 1 to {LONGEST_KEY} are allowed.")
    return key


def _digest(what: bytes, index: int, key: bytes) -> bytes:
    return sha256(b"%s %d %s" % (what, index, key)).digest()
