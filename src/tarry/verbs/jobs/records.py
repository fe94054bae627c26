"""The stored format, version 1: what lies in a topic's ``jobs`` and ``runs``.

    jobs   id → ┌ format 1 ┬ created d ┬ flags 1 ┬ ttr ms I ┬ attempts I ┬ nonce 8 ┬ length H ┬ latest ┬ headers ┬ body ┐
    runs   id → ┌ attempt I ┬ limit I ┬ receipt d ┬ first failure d ┬ length B ┬ holder ┬ fault ┐

``latest`` is a double, µs after the due time, and there only where a flag says so: after it a job is not handed out.
Little endian, no padding; the script writes format and created. lua/lib/job.lua reads the same. A job of a format that a
version does not know, or with a flag that it does not know, is set aside by it, never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import NamedTuple

import msgspec

from tarry.errors import BadInput, BodyError
from tarry.values.durations import LAST_MOMENT_US
from tarry.verbs.codecs import JSON, RAW

FORMAT = 1
NO_LIMIT = 2**32 - 1
LONGEST_TTR_MS = 2**32 - 1
LONGEST_HEADERS = 8192
NO_NONCE = bytes(8)
"""Of a job whose id tarry made: the id itself is unique."""

_SENT_HEAD = Struct("<BII8sH")
_HEAD = Struct("<BdBII8sH")
_BODY = Struct("<B16xH")
_FLAGS_AT = 9
_LATEST = Struct("<d")
HAS_LATEST = 64
"""Of the flags."""
_KNOWN_FLAGS = HAS_LATEST | JSON | RAW
_RUN = Struct("<IIddB")
_HEADERS = msgspec.json.Decoder(dict[str, str])
_UNREADABLE = "job: it is damaged, or written by a newer version of tarry. Upgrade, or delete the job."
_NO_HEADERS = "headers: they are damaged. The body can be read without them; or delete the job."
DAMAGED_HEADERS = b"\xff"
"""What no reader takes for headers: of a job that came from a service, which could not read them."""
_encode = msgspec.json.Encoder().encode


class JobHead(NamedTuple):
    created: int
    flags: int
    ttr_ms: int
    max_attempts: int
    nonce: bytes
    latest: int | None
    """Microseconds after which it is too late; ``None`` when the job does not say."""
    headers: bytes
    body: bytes


class RunRecord(NamedTuple):
    """What happened since the job was first handed out."""

    attempt: int
    limit: int
    receipt: int
    first_failure: int
    holder: str
    fault: str


NO_RUN = RunRecord(0, 0, 0, 0, "", "")


def pack_head(
    flags: int, ttr_ms: int, max_attempts: int, nonce: bytes, headers: bytes, latest: int | None = None
) -> bytes:
    """The head as the client sends it; the script puts format and created before it."""
    if latest is None:
        return _SENT_HEAD.pack(flags, ttr_ms, max_attempts, nonce, len(headers)) + headers
    sent = _SENT_HEAD.pack(flags | HAS_LATEST, ttr_ms, max_attempts, nonce, len(headers))
    return sent + _LATEST.pack(latest) + headers


def pack_headers(headers: Mapping[str, str] | None) -> bytes:
    if not headers:
        return b""
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise BadInput("headers: they are a map from text to text.")
    try:
        packed = _encode(dict(headers))
    except ValueError as fault:
        raise BadInput(f"headers: {fault}.") from fault
    if len(packed) > LONGEST_HEADERS:
        raise BadInput(f"headers: {len(packed)} bytes; at most {LONGEST_HEADERS}. Put large data into the body.")
    return packed


def unpack_headers(packed: bytes) -> dict[str, str]:
    """The headers; ``BodyError`` when they are damaged."""
    try:
        return _HEADERS.decode(packed) if packed else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BodyError(_NO_HEADERS) from None


def unpack_head(value: bytes) -> JobHead:
    """The record; ``BodyError`` when it is damaged, or of a format that this version does not know."""
    if len(value) < _HEAD.size or value[0] != FORMAT:
        raise BodyError(_UNREADABLE)
    _, created, flags, ttr_ms, max_attempts, nonce, size = _HEAD.unpack_from(value)
    if flags & ~_KNOWN_FLAGS:
        raise BodyError(_UNREADABLE)
    latest, at = _latest(value, flags)
    body = at + size
    if body > len(value):
        raise BodyError(_UNREADABLE)
    return JobHead(
        _whole(created), flags & ~HAS_LATEST, ttr_ms, max_attempts, nonce, latest, value[at:body], value[body:]
    )


def body_of(value: bytes) -> tuple[bytes, int]:
    """The body and its flags, without the rest. Raises as ``unpack_head`` does."""
    if len(value) < _HEAD.size or value[0] != FORMAT:
        raise BodyError(_UNREADABLE)
    flags, size = _BODY.unpack_from(value, _FLAGS_AT)
    body = _HEAD.size + size
    if flags > RAW:
        if flags & ~_KNOWN_FLAGS:
            raise BodyError(_UNREADABLE)
        body = _latest(value, flags)[1] + size
    if body > len(value):
        raise BodyError(_UNREADABLE)
    return value[body:], flags & ~HAS_LATEST


def _latest(value: bytes, flags: int) -> tuple[int | None, int]:
    """When it is too late, and where the headers begin."""
    if not flags & HAS_LATEST:
        return None, _HEAD.size
    if len(value) < _HEAD.size + _LATEST.size:
        raise BodyError(_UNREADABLE)
    return _whole(_LATEST.unpack_from(value, _HEAD.size)[0]), _HEAD.size + _LATEST.size


def unpack_run(run: bytes | None) -> RunRecord:
    """What happened; nothing, when the record is damaged."""
    if run is None or len(run) < _RUN.size:
        return NO_RUN
    attempt, limit, receipt, first, size = _RUN.unpack_from(run)
    holder = _RUN.size + size
    return RunRecord(
        attempt,
        limit,
        _whole(receipt),
        _whole(first),
        run[_RUN.size : holder].decode("utf-8", "replace"),
        run[holder:].decode("utf-8", "replace"),
    )


def _whole(number: float) -> int:
    """A number that can be a moment, a span or a receipt; of anything else 0."""
    return int(number) if 0 <= number <= LAST_MOMENT_US else 0


def pack_job(created: int, flags: int, ttr_ms: int, max_attempts: int, packed: bytes, body: bytes) -> bytes:
    """A job's whole record, as a script would have written it: for jobs that come another way. ``packed``: its headers."""
    return _HEAD.pack(FORMAT, created, flags, ttr_ms, max_attempts, NO_NONCE, len(packed)) + packed + body


def pack_run(run: RunRecord) -> bytes:
    """The same for what happened to it."""
    holder = run.holder.encode()
    head = _RUN.pack(run.attempt, run.limit, run.receipt, run.first_failure, len(holder))
    return head + holder + run.fault.encode()
