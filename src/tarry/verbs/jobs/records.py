"""The stored format, version 1: the records in a topic's ``jobs``, ``runs``, ``attempts`` and ``results``.

    jobs   id → ┌ format 1 ┬ created d ┬ flags 1 ┬ ttr ms I ┬ attempts I ┬ nonce 8 ┬ length H ┬ max lateness ┬ headers ┬ body ┐
    runs   id → ┌ attempt I ┬ limit I ┬ receipt d ┬ first failure d ┬ length B ┬ holder ┬ fault ┐
    attempts   id → ┌ first failure d ┬ number I ┬ began d ┬ ended d ┬ length B ┬ length B ┬ holder ┬ error ┬ … ┐
    results    id → ┌ format 1 ┬ finished d ┬ kind B ┬ length H ┬ length H ┬ length I ┬ size I ┬ run ┬ attempts ┬ result ┬ job ┐

Two bits of the flags are the priority, from 0 to 3. The maximum lateness is a double, µs after the due time, and is present only if a flag says so: after it, the job is not
handed out.
Little endian, no padding; the script writes format and created. lua/lib/job.lua reads the same format. A job with a format or
a flag that a version does not know is set aside by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

import msgspec

from tarry.errors import BadInput, BodyError
from tarry.values.durations import LAST_MOMENT_US, SECOND, Duration, as_datetime, duration_us
from tarry.verbs.codecs import JSON, RAW
from tarry.verbs.jobs.contents import NO_NONCE, NO_RUN, FailedAttempt, FinishedRecord, JobContents, JobRun, Record

FORMAT = 1
LONGEST_TTR_MS = 2**32 - 1
LONGEST_HEADERS = 8192

_SENT_HEAD = Struct("<BII8sH")
_HEAD = Struct("<BdBII8sH")
_BODY = Struct("<B16xH")
_FLAGS_AT = 9
_MAX_LATENESS = Struct("<d")
HAS_MAX_LATENESS = 64
"""A flag."""
_PRIORITY_SHIFT, MOST_PRIORITY = 1, 3
"""The priority is two bits of the flags."""
_OF_THE_BODY = JSON | RAW
_KNOWN_FLAGS = HAS_MAX_LATENESS | MOST_PRIORITY << _PRIORITY_SHIFT | _OF_THE_BODY
_RUN = Struct("<IIddB")
_STAMP, _ATTEMPT = Struct("<d"), Struct("<IddBB")
_HISTORY = Struct("<BdBHHII")
_JSON_RESULT, _NOT_KEPT = 1, 2
"""Kinds of results; lua/lib/history.lua has the same."""
_HEADERS = msgspec.json.Decoder(dict[str, str])
_UNREADABLE = "job: it is damaged, or written by a newer version of tarry. Upgrade, or delete the job."
_NO_HEADERS = "headers: they are damaged. Read the body without them, or delete the job."
_encode = msgspec.json.Encoder().encode


def pack_head(
    flags: int,
    ttr_ms: int,
    max_attempts: int,
    nonce: bytes,
    headers: bytes,
    max_lateness_us: int | None,
    priority: int,
) -> bytes:
    """The head as the client sends it; the script prepends format and created."""
    flags |= priority << _PRIORITY_SHIFT
    if max_lateness_us is None:
        return _SENT_HEAD.pack(flags, ttr_ms, max_attempts, nonce, len(headers)) + headers
    sent = _SENT_HEAD.pack(flags | HAS_MAX_LATENESS, ttr_ms, max_attempts, nonce, len(headers))
    return sent + _MAX_LATENESS.pack(max_lateness_us) + headers


def pack_headers(headers: Mapping[str, str] | None) -> bytes:
    if not headers:
        return b""
    if not isinstance(headers, Mapping) or not all(isinstance(text, str) for pair in headers.items() for text in pair):
        raise BadInput("headers: they must be a map from str to str.")
    try:
        packed = _encode(dict(headers))
    except ValueError as fault:
        raise BadInput(f"headers: {fault}.") from fault
    if len(packed) > LONGEST_HEADERS:
        raise BadInput(f"headers: {len(packed)} bytes; at most {LONGEST_HEADERS}. Put large data into the body.")
    return packed


def unpack_headers(packed: bytes | dict[str, str] | None) -> dict[str, str]:
    """The headers. Raises ``BodyError`` if they are damaged."""
    if isinstance(packed, dict):
        return packed
    if packed is None:
        raise BodyError(_NO_HEADERS)
    try:
        return _HEADERS.decode(packed) if packed else {}
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BodyError(_NO_HEADERS) from None


def unpack_head(value: Record) -> JobContents:
    """Parses a record. Raises ``BodyError`` if it is damaged, or has a format that this version does not know."""
    if isinstance(value, JobContents):
        return value
    if len(value) < _HEAD.size or value[0] != FORMAT:
        raise BodyError(_UNREADABLE)
    _, created, flags, ttr_ms, max_attempts, nonce, size = _HEAD.unpack_from(value)
    if flags & ~_KNOWN_FLAGS:
        raise BodyError(_UNREADABLE)
    max_lateness_us, at = _max_lateness(value, flags)
    body = at + size
    if body > len(value):
        raise BodyError(_UNREADABLE)
    return JobContents(
        _whole(created),
        flags & _OF_THE_BODY,
        ttr_ms,
        max_attempts,
        max_lateness_us,
        value[at:body],
        value[body:],
        nonce=nonce,
        priority=flags >> _PRIORITY_SHIFT & MOST_PRIORITY,
    )


def body_of(value: Record) -> tuple[bytes, int]:
    """The body and its flags, without parsing the rest. Raises as ``unpack_head`` does."""
    if isinstance(value, JobContents):
        return value.body, value.flags
    if len(value) < _HEAD.size or value[0] != FORMAT:
        raise BodyError(_UNREADABLE)
    flags, size = _BODY.unpack_from(value, _FLAGS_AT)
    body = _HEAD.size + size
    if flags > RAW:
        if flags & ~_KNOWN_FLAGS:
            raise BodyError(_UNREADABLE)
        body = _max_lateness(value, flags)[1] + size
    if body > len(value):
        raise BodyError(_UNREADABLE)
    return value[body:], flags & _OF_THE_BODY


def _max_lateness(value: bytes, flags: int) -> tuple[int | None, int]:
    """The maximum lateness in µs, and the offset of the headers."""
    if not flags & HAS_MAX_LATENESS:
        return None, _HEAD.size
    if len(value) < _HEAD.size + _MAX_LATENESS.size:
        raise BodyError(_UNREADABLE)
    return _whole(_MAX_LATENESS.unpack_from(value, _HEAD.size)[0]), _HEAD.size + _MAX_LATENESS.size


def unpack_run(run: bytes | None) -> JobRun:
    """Parses a run record; ``NO_RUN`` if it is damaged."""
    if run is None or len(run) < _RUN.size:
        return NO_RUN
    attempt, limit, receipt, first, size = _RUN.unpack_from(run)
    holder = _RUN.size + size
    return JobRun(
        attempt,
        limit,
        _whole(receipt),
        _whole(first),
        run[_RUN.size : holder].decode("utf-8", "replace"),
        run[holder:].decode("utf-8", "replace"),
    )


def unpack_attempts(failed: bytes, first_failure: int) -> tuple[FailedAttempt, ...]:
    """Parses the failed attempts of a run, the last one first. Those of an earlier job, and what is damaged, are left out."""
    found: list[FailedAttempt] = []
    if len(failed) < _STAMP.size or _whole(_STAMP.unpack_from(failed)[0]) != first_failure:
        return ()
    at = _STAMP.size
    while len(failed) - at >= _ATTEMPT.size:
        number, began, ended, holder_size, error_size = _ATTEMPT.unpack_from(failed, at)
        holder = at + _ATTEMPT.size
        error = holder + holder_size
        at = error + error_size
        if at > len(failed):
            break
        texts = [part.decode("utf-8", "replace") for part in (failed[holder:error], failed[error:at])]
        found.append(FailedAttempt(number, as_datetime(_whole(began)), as_datetime(_whole(ended)), *texts))
    return tuple(found)


def unpack_history(record: bytes) -> tuple[FinishedRecord, bytes, bytes, bytes] | None:
    """Parses the record of a finished job: how it ended, its run, failed attempts, head and body; ``None`` if it is damaged, or
    of a newer version."""
    if len(record) < _HISTORY.size or record[0] != FORMAT:
        return None
    _, finished, kind, run_size, failed_size, result_size, size = _HISTORY.unpack_from(record)
    failed = _HISTORY.size + run_size
    result = failed + failed_size
    job = result + result_size
    if job > len(record):
        return None
    given, value = record[result:job], record[job:]
    history = FinishedRecord(
        _whole(finished),
        given if kind == _JSON_RESULT else b"",
        given.decode("utf-8", "replace") if kind == _NOT_KEPT else "",
        size if len(value) < size else 0,
    )
    return history, record[_HISTORY.size : failed], record[failed:result], value


def _whole(number: float) -> int:
    """A stored number as an int; 0 if it is out of range."""
    return int(number) if 0 <= number <= LAST_MOMENT_US else 0


def pack_job(created: int, flags: int, ttr_ms: int, max_attempts: int, packed: bytes, body: bytes) -> bytes:
    """A job's complete record, as the script writes it, for jobs that come another way. ``packed``: its headers."""
    return _HEAD.pack(FORMAT, created, flags, ttr_ms, max_attempts, NO_NONCE, len(packed)) + packed + body


def keep_finished_arg(span: Duration | None) -> bytes:
    """How long finished jobs are kept, as it is sent: µs, or nothing. Raises ``BadInput``."""
    return b"" if span is None else b"%d" % duration_us(span, "keep_finished", minimum=SECOND)
