"""Bodies as they pass through: JSON stays the very text it is, bytes stay bytes.

in JSON                          in the topic
{"body": {"order": 7}}           {"order": 7}          JSON
{"body_base64": "AAEC"}          the bytes             bytes, of the media type in the job's header content-type
{"body_base64": …, "coded": 1}   the bytes             what a codec of the producer's own made (tarry.types.Codec)
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec

from tarry.errors import BadInput
from tarry.verbs.codecs import JSON, JSON_FAULTS, RAW, BodyCodec

Body = tuple[bytes, int]
"""The bytes that are stored, and the flag that says what they are."""
MEDIA = "content-type"
"""The header of a job that says what its bytes are."""
_check = msgspec.json.Decoder().decode


class PassThroughCodec(BodyCodec[Body]):
    """Takes a body and its flag as they are."""

    def __init__(self, limit: int) -> None:
        super().__init__(None, limit)

    def encode(self, body: Body) -> Body:
        if len(body[0]) > self.limit:
            raise BadInput(
                f"body: {len(body[0])} bytes; the limit is {self.limit}. Store it elsewhere and add its address."
            )
        return body

    def decode(self, raw: bytes, flag: int) -> Body:
        return raw, flag


def body_of(body: msgspec.Raw | msgspec.UnsetType, base64: str | None, coded: bool) -> Body:
    """The body that JSON gives. Raises ``BadInput``."""
    if base64 is None:
        if body is msgspec.UNSET:
            raise BadInput("body: it is missing; give body (JSON) or body_base64 (bytes).")
        if coded:
            raise BadInput("coded: it belongs to body_base64.")
        return text(bytes(body)), JSON
    if body is not msgspec.UNSET:
        raise BadInput("body, body_base64: give one of the two.")
    try:
        return b64decode(base64, validate=True), JSON if coded else RAW
    except ValueError as fault:
        raise BadInput(f"body_base64: {fault}.") from None


def text(raw: bytes, what: str = "body") -> bytes:
    """JSON that any reader can read; ``BadInput`` for what cannot be."""
    try:
        _check(raw)
    except JSON_FAULTS as fault:
        raise BadInput(f"{what}: {fault}.") from None
    return raw


def body_in(answer: Any) -> Body:
    """The body in an answer."""
    if answer.body is not msgspec.UNSET:
        return bytes(answer.body), JSON
    return b64decode(answer.body_base64 or ""), JSON if answer.coded else RAW


def body_fields(body: Body) -> dict[str, Any]:
    """The fields in which a body is shown."""
    raw, flag = body
    if flag == JSON:
        try:
            return {"body": msgspec.Raw(text(raw))}
        except BadInput:
            return {"body_base64": b64encode(raw).decode(), "coded": True}
    return {"body_base64": b64encode(raw).decode()}


def text_of(body: Body) -> str:
    """A body as text, for clients that know no other type."""
    raw, flag = body
    if flag == JSON:
        try:
            decoded = msgspec.json.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return decoded if isinstance(decoded, str) else raw.decode()
    return raw.decode("utf-8", "replace")
