"""Repeated requests. Everything that a request adds is named after its ``Idempotency-Key``, so that a repeated one adds nothing.

key ──▶ ids and nonces of jobs         (routes/jobs.py)
    ──▶ marks of elements and items    a repeated offer or push finds its own elements

With ``Tarry-Repeated`` a client says that this request may have been carried out before, its answer lost. The scripts of such
a request run as replays: they recognise what the first one did.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from tarry.core.flows import intercept
from tarry.core.requests import Command, Request, ScriptCall
from tarry.errors import BadInput
from tarry.values.names import IdGenerator

if TYPE_CHECKING:
    from tarry.clients.awaited.interfaces import HandleEngine

HEADER = b"idempotency-key"
REPEATED = b"tarry-repeated"
LONGEST_KEY = 255


class KeyedIds(IdGenerator):
    """Ids and nonces derived from a key: the n-th is always the same."""

    def __init__(self, key: bytes) -> None:
        super().__init__(lambda: 0, lambda _: b"")
        self._key = key
        self._nonces = 0

    def id(self, index: int) -> str:
        """The id of the job at a position of the request."""
        return "k" + urlsafe_b64encode(_digest(b"id", index, self._key)[:15]).decode()

    def nonce(self) -> bytes:
        self._nonces += 1
        return _digest(b"nonce", self._nonces, self._key)[:6]

    def new_many(self, n: int) -> list[bytes]:
        """Not used: every job with a key is given its id."""
        return [b""] * n


def id_source(headers: dict[bytes, bytes]) -> KeyedIds | None:
    """The ids derived from the request's key; ``None`` without one. Raises ``BadInput``."""
    key = _key(headers)
    return None if key is None else KeyedIds(key)


def mark_source(headers: dict[bytes, bytes]) -> Callable[[int], bytes]:
    """The marks derived from the request's key, one after the other; random ones without a key. Raises ``BadInput``."""
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


class ReplayEngine:
    """An engine that runs every script as a replay."""

    def __init__(self, engine: HandleEngine) -> None:
        self._engine = engine
        self.config = engine.config
        self.keeps_maps = engine.keeps_maps
        self.register_topic = engine.register_topic
        self.run_view = engine.run_view
        self.shared_part = engine.shared_part
        self.take = engine.take
        self.take_payload = engine.take_payload
        self.wait_until_ended = engine.wait_until_ended

    async def run(self, operation: Any) -> Any:
        if not isinstance(operation, (ScriptCall, Command)):
            operation = intercept(operation, _as_replay)
        return await self._engine.run(_as_replay(operation) if isinstance(operation, ScriptCall) else operation)


def _as_replay(request: Request) -> Request:
    return request.as_replay() if isinstance(request, ScriptCall) else request
