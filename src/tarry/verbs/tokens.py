"""Tokens of a namespace, for authorization at a service: a table on the server, with a version that rises with every change.

    tarry:NAMESPACE:tokens   hash   id → when it was created, and its record as JSON;  version → a number

    tarry_4f1c09be_Kq…       a token: its id, and 256 random bits, which only its owner knows

Only the SHA-256 of those bits is stored. A slow hash, as for passwords, would add nothing, for 2^256 values cannot be tried
anyway; and it would cost every request some milliseconds.

Clients of SQS sign their requests: the token's id is their access key, an HMAC of its secret their secret key. Of a token that was
created for SQS the key that checks these signatures is stored, too: HMAC-SHA256 hashes a key of more than 64 bytes, and this is the
hash. It is neither the token nor the secret key, and opens no other route; but a reader of this table can compute signatures of SQS
requests with it (decision 0063). Of any other token nothing is stored that signs.
"""

from __future__ import annotations

import hmac
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Literal, NamedTuple, cast

import msgspec

from tarry.core.requests import Command, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import as_datetime
from tarry.values.keys import tokens_key

Scope = Literal["view", "produce", "consume", "admin"]
SCOPES: tuple[Scope, ...] = ("view", "produce", "consume", "admin")
STORE = Script("tokens/store", args=("id", "record"), keys=("tokens",))
VERSION = b"version"
PREFIX = "tarry_"
LONGEST_NOTE = 200


class Record(msgspec.Struct, frozen=True):
    """A token as it is stored, without its secret."""

    hash: str
    scopes: tuple[Scope, ...]
    note: str = ""
    calls: float | None = None
    """Calls per second, in each service process; ``None``: no limit."""
    jobs: float | None = None
    """Jobs per second, added or popped."""
    sqs: str = ""
    """The key that checks its signatures of SQS requests, in hexadecimal digits; empty: it signs none."""


class Token(msgspec.Struct, frozen=True):
    """A token of the list, without its secret."""

    id: str
    created: datetime
    record: Record


logger = logging.getLogger("tarry.tokens")
_decode = msgspec.json.Decoder(Record).decode


def create_token(
    random: Callable[[int], bytes],
    scopes: Sequence[str],
    note: str = "",
    *,
    calls: float | None = None,
    jobs: float | None = None,
    sqs: bool = False,
) -> tuple[str, str, Record]:
    """Creates a token: its text, which is shown only once, its id and its record. Raises ``BadInput``."""
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        raise BadInput(f"scope: {', '.join(unknown) or 'none given'}; a token has some of {', '.join(SCOPES)}.")
    if len(note) > LONGEST_NOTE:
        raise BadInput(f"note: {len(note)} characters; at most {LONGEST_NOTE}.")
    for what, limit in (("calls", calls), ("jobs", jobs)):
        if limit is not None and not 0 < limit < 1e9:
            raise BadInput(f"{what}: {limit:g} a second; give a number above 0, or leave it out.")
    id, secret = random(8).hex(), urlsafe_b64encode(random(32)).decode().rstrip("=")
    chosen = cast("tuple[Scope, ...]", tuple(scope for scope in SCOPES if scope in scopes))
    text = f"{PREFIX}{id}_{secret}"
    checks = sha256(b"AWS4" + sqs_secret_key(text).encode()).hexdigest() if sqs else ""
    return text, id, Record(hash_of(secret), chosen, note, calls, jobs, checks)


def sqs_secret_key(text: str) -> str:
    """The secret access key of a token for clients of SQS: an HMAC of its secret, 64 characters."""
    parts = split_token(text)
    assert parts is not None, "a token's text"
    return hmac.digest(parts[1].encode(), b"tarry sqs", "sha256").hex()


def hash_of(secret: str) -> str:
    """The hash of a secret, which is stored."""
    return sha256(secret.encode()).hexdigest()


class TokenText(NamedTuple):
    """The parts of a token's text."""

    id: str
    secret: str

    @property
    def hash(self) -> str:
        """The hash of its secret, as it is stored."""
        return hash_of(self.secret)

    @property
    def sqs_secret_key(self) -> str:
        """Its secret access key for clients of SQS."""
        return sqs_secret_key(f"{PREFIX}{self.id}_{self.secret}")


def split_token(text: str) -> TokenText | None:
    """Splits a token into its id and its secret; ``None`` if it is not a token."""
    id, separator, secret = text.removeprefix(PREFIX).partition("_")
    return TokenText(id, secret) if text.startswith(PREFIX) and separator else None


def store_token(namespace: str, id: str, record: Record) -> ScriptCall[bool]:
    return _store(namespace, id, msgspec.json.encode(record))


def delete_token(namespace: str, id: str) -> ScriptCall[bool]:
    """Deletes a token. Returns whether it existed."""
    return _store(namespace, id, b"")


def _store(namespace: str, id: str, record: bytes) -> ScriptCall[bool]:
    return ScriptCall(STORE, (tokens_key(namespace),), (id.encode(), record), bool)


def table_version(namespace: str) -> Command[int]:
    """The version of the table, which rises with every change; 0 before the first."""
    return Command((b"HGET", tokens_key(namespace), VERSION), lambda reply: int(reply or 0))


def list_tokens(namespace: str) -> Command[tuple[int, list[Token]]]:
    """The version of the table, and all tokens, the oldest first."""

    def decode(reply: Reply) -> tuple[int, list[Token]]:
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        number = int(fields.pop(VERSION, 0))
        tokens = [token for id, raw in fields.items() if (token := _token(id, raw)) is not None]
        return number, sorted(tokens, key=lambda token: token.created)

    return Command((b"HGETALL", tokens_key(namespace)), decode)


def _token(id: bytes, raw: bytes) -> Token | None:
    """A token from its stored form. ``None`` if a newer version wrote it and it cannot be read: it permits nothing, and the
    others are listed."""
    created, _, record = raw.partition(b" ")
    try:
        return Token(id.decode(), as_datetime(int(created)), _decode(record))
    except (msgspec.MsgspecError, ValueError, OverflowError) as fault:
        logger.warning("token %s cannot be read: %s", id.decode("utf-8", "replace"), fault)
        return None
