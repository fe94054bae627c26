"""The stored records in a topic's ``jobs``, ``runs``, ``attempts`` and ``results``.

    jobs   id → ┌ created 7 ┬ flags 1 ┬ nonce 6 ┬ further flags H ┬ ttr ms I ┬ attempts I ┬ further fields ┬ length H ┬ headers ┬ body ┐
    runs   id → ┌ attempt 3 ┬ flags 1 ┬ limit I ┬ receipt d ┬ first failure d ┬ length B ┬ holder ┬ fault ┐
    attempts   id → ┌ number I ┬ began d ┬ ended d ┬ length B ┬ length B ┬ holder ┬ error ┬ … ┐
    results    id → ┌ format 1 ┬ finished d ┬ kind B ┬ length H ┬ length H ┬ length I ┬ size I ┬ run ┬ attempts ┬ result ┬ job ┐

Of a job's fields between the flags and the body each is there only if a flag says so, so the record of a plain job is its body and 8
bytes, with an id of one's own 14. Two bits of the flags are the priority, from 0 to 3. Each of the 16 further flags that is not free names one of
the further fields, which are in the order of their flags, those of scripts behind the others: a number, or bytes behind their length.
The maximum lateness is in µs after the due time: after it, the job is not handed out. First is the moment of the first event that the job
stands for (lua/lib/latest.lua); only scripts use it. Steps are names and results (lua/lib/steps.lua). The flag of a run: the attempt is the last one, and
its consumer has not confirmed it yet. The sign of the first failure: the job was changed since the hand-out (lua/lib/update.lua). Half a µs in it: the key
for which the reserved job is counted, behind its length, is between holder and fault.
Little endian, no padding; the script writes created. lua/lib/job.lua and lua/lib/flags.lua read the same format. A job with a
flag that a version does not know is set aside by it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

import msgspec

from tarry.errors import BadInput, BodyError
from tarry.values.durations import LAST_MOMENT_US, SECOND, Duration, as_datetime, duration_us
from tarry.verbs.codecs import JSON, JSON_FAULTS, RAW
from tarry.verbs.jobs.job_fields import NO_NONCE, NO_RUN, FailedAttempt, FinishedRecord, JobContents, JobRun, Record

LONGEST_TTR_MS = 2**32 - 1
LONGEST_HEADERS = 8192

_HEAD, _FLAGS_AT = 8, 7
_MOMENT_BITS, _USED_MOMENT_BITS, _LAST_TOP = 56, 52, 15
"""A moment that needs more is beyond 2112, so the record is damaged."""
_WORD, _B, _H, _I = Struct("<Q"), Struct("<B"), Struct("<H"), Struct("<I")
_PRIORITY_SHIFT, MOST_PRIORITY = 1, 3
"""The priority is two bits of the flags."""
_HAS_NONCE, _HAS_HEADERS, _HAS_TTR, _HAS_ATTEMPTS, _FURTHER = 8, 16, 32, 64, 128
_OF_THE_BODY = JSON | RAW
_NONCE_SIZE = len(NO_NONCE)
_BYTES = [bytes((flags,)) for flags in range(256)]
_HISTORY_FORMAT = 1
_RUN = Struct("<IIddB")
_NOTE_MARK = "\n\x1d"
"""As in lua/lib/job.lua."""
_LONGEST_FAULT = 8192
"""As where a script cuts a fault."""
_MOST_ATTEMPTS = 2**24 - 1
_ATTEMPT = Struct("<IddBB")
_HISTORY = Struct("<BdBHHII")
_JSON_RESULT, _NOT_KEPT = 1, 2
"""Kinds of results; lua/lib/history.lua has the same."""
_HEADERS = msgspec.json.Decoder(dict[str, str])
_UNREADABLE = "job: it is damaged, or written by a newer version of tarry. Upgrade, or delete the job."
_NO_HEADERS = "headers: they are damaged. Read the body without them, or delete the job."
_encode = msgspec.json.Encoder().encode


class _Number:
    """A field that is a whole number."""

    def __init__(self, format: str) -> None:
        self._struct = Struct(format)

    def pack(self, value: int) -> bytes:
        return self._struct.pack(value)

    def read(self, record: bytes, at: int) -> tuple[int, int]:
        """The value, and where the next field begins. Raises ``struct.error``."""
        return _whole(self._struct.unpack_from(record, at)[0]), at + self._struct.size


class _Text:
    """A field that is text of at most 255 bytes, behind its length."""

    def pack(self, value: str) -> bytes:
        raw = value.encode()
        return _BYTES[len(raw)] + raw

    def read(self, record: bytes, at: int) -> tuple[str, int]:
        (size,) = _B.unpack_from(record, at)
        end = at + 1 + size
        return record[at + 1 : end].decode("utf-8", "replace"), end


class _Bytes:
    """A field of bytes, behind their length."""

    def read(self, record: bytes, at: int) -> tuple[bytes, int]:
        (size,) = _I.unpack_from(record, at)
        begin = at + _I.size
        return record[begin : begin + size], begin + size


class _FurtherField(NamedTuple):
    """A field of ``JobContents`` that a further flag names; ``None`` if it is not there."""

    name: str
    flag: int
    kind: _Number | _Text | _Bytes


_FURTHER_FIELDS = (
    _FurtherField("max_lateness_us", 1, _Number("<d")),
    _FurtherField("key", 8, _Text()),
)
_READ = (*_FURTHER_FIELDS, _FurtherField("first", 2, _Number("<d")), _FurtherField("steps", 4, _Bytes()))
"""The last two are written by scripts only, behind the others."""
_KNOWN_FLAGS = sum(one.flag for one in _READ)
_NO_FURTHER_FIELD = (None,) * len(_FURTHER_FIELDS)
_NO_MORE: dict[str, Any] = {}


def pack_head(
    flags: int,
    nonce: bytes,
    *,
    ttr_ms: int = 0,
    max_attempts: int = 0,
    headers: bytes | dict[str, str] | None = b"",
    max_lateness_us: int | None = None,
    priority: int = 0,
    key: str | None = None,
) -> bytes:
    """The head as the client sends it; the script prepends created."""
    flags |= priority << _PRIORITY_SHIFT
    fields = more = b""
    further = (
        max_lateness_us,
        key,
    )
    if further != _NO_FURTHER_FIELD:
        flags |= _FURTHER
        given, more = _pack_further(further)
        fields = _H.pack(given)
    if ttr_ms:
        flags |= _HAS_TTR
        fields += _I.pack(ttr_ms)
    if max_attempts:
        flags |= _HAS_ATTEMPTS
        fields += _I.pack(max_attempts)
    fields += more
    if headers:
        packed = headers if isinstance(headers, bytes) else pack_headers(headers)
        flags |= _HAS_HEADERS
        fields += _H.pack(len(packed)) + packed
    return _BYTES[flags] + fields if nonce == NO_NONCE else _BYTES[flags | _HAS_NONCE] + nonce + fields


def change_head(head: bytes, flags: int, nonce: bytes) -> bytes:
    """A head without a nonce, with more flags and perhaps a nonce."""
    if nonce == NO_NONCE:
        return _BYTES[head[0] | flags] + head[1:]
    return _BYTES[head[0] | flags | _HAS_NONCE] + nonce + head[1:]


def _pack_further(values: tuple[Any, ...]) -> tuple[int, bytes]:
    """The further flags, and the fields."""
    flags, fields = 0, b""
    kind: Any
    for value, (_, flag, kind) in zip(values, _FURTHER_FIELDS, strict=True):
        if value is not None:
            flags |= flag
            fields += kind.pack(value)
    return flags, fields


def pack_headers(headers: Mapping[str, str] | None) -> bytes:
    if not headers:
        return b""
    if not isinstance(headers, Mapping):
        raise BadInput(
            f'headers: {type(headers).__name__} given; they are a map from text to text, such as {{"trace": "1"}}.'
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadInput(
                f"headers: {name!r:.60} is {value!r:.60}; name and value are text: {{{str(name)!r:.60}: {str(value)!r:.60}}}."
            )
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
    except JSON_FAULTS:
        raise BodyError(_NO_HEADERS) from None


def unpack_steps(packed: bytes | Mapping[str, bytes]) -> dict[str, bytes]:
    """The steps by their names, in the order in which they were kept; each result is JSON. Damaged ones are left out."""
    if isinstance(packed, Mapping):
        return dict(packed)
    found: dict[str, bytes] = {}
    at = 0
    while at < len(packed):
        begin = at + 1 + packed[at]
        if begin + _I.size > len(packed):
            break
        (size,) = _I.unpack_from(packed, begin)
        name, result = packed[at + 1 : begin], packed[begin + _I.size : begin + _I.size + size]
        found[name.decode("utf-8", "replace")] = result
        at = begin + _I.size + size
    return found


def unpack_head(value: Record) -> JobContents:
    """Parses a record. Raises ``BodyError`` if it is damaged, or has a flag that this version does not know."""
    if isinstance(value, JobContents):
        return value
    if len(value) < _HEAD:
        raise BodyError(_UNREADABLE)
    (word,) = _WORD.unpack_from(value)
    flags, created = word >> _MOMENT_BITS, word & (1 << _MOMENT_BITS) - 1
    if created >> _USED_MOMENT_BITS:
        raise BodyError(_UNREADABLE)
    nonce, ttr_ms, max_attempts, more, headers, body = _fields(value, flags)
    return JobContents(
        created,
        flags & _OF_THE_BODY,
        value[body:],
        nonce,
        ttr_ms,
        max_attempts,
        value[headers:body],
        priority=flags >> _PRIORITY_SHIFT & MOST_PRIORITY,
        **more,
    )


def has_key(value: bytes) -> bool:
    """Whether a record as a client sends it has a key."""
    flags = value[0] << _MOMENT_BITS
    return bool(value[0] & _FURTHER) and unpack_head(_WORD.pack(flags) + value[1:]).key is not None


def body_of(value: Record) -> tuple[bytes, int]:
    """The body and its flags, without parsing the rest. Raises as ``unpack_head`` does."""
    if isinstance(value, JobContents):
        return value.body, value.flags
    if len(value) < _HEAD or value[_FLAGS_AT - 1] > _LAST_TOP:
        raise BodyError(_UNREADABLE)
    flags = value[_FLAGS_AT]
    if flags <= RAW:
        return value[_HEAD:], flags
    return value[_fields(value, flags)[-1] :], flags & _OF_THE_BODY


def _fields(value: bytes, flags: int) -> tuple[bytes, int, int, dict[str, Any], int, int]:
    """The fields that the flags of a head name: nonce, TTR, attempts, further ones, and where headers and body begin. Raises ``BodyError``."""
    at, further, ttr_ms, max_attempts, size = _HEAD, 0, 0, 0, 0
    nonce, more = NO_NONCE, _NO_MORE
    try:
        if flags & _HAS_NONCE:
            nonce = value[at : at + _NONCE_SIZE]
            at += _NONCE_SIZE
        if flags & _FURTHER:
            (further,) = _H.unpack_from(value, at)
            at += _H.size
            if further & ~_KNOWN_FLAGS:
                raise BodyError(_UNREADABLE)
        if flags & _HAS_TTR:
            (ttr_ms,) = _I.unpack_from(value, at)
            at += _I.size
        if flags & _HAS_ATTEMPTS:
            (max_attempts,) = _I.unpack_from(value, at)
            at += _I.size
        if further:
            more = {}
            for name, flag, kind in _READ:
                if further & flag:
                    more[name], at = kind.read(value, at)
        if flags & _HAS_HEADERS:
            (size,) = _H.unpack_from(value, at)
            at += _H.size
    except struct.error:
        raise BodyError(_UNREADABLE) from None
    if at + size > len(value):
        raise BodyError(_UNREADABLE)
    return nonce, ttr_ms, max_attempts, more, at, at + size


def unpack_run(run: bytes | None) -> JobRun:
    """Parses a run record; ``NO_RUN`` if it is damaged."""
    if run is None or len(run) < _RUN.size:
        return NO_RUN
    attempt, limit, receipt, first, size = _RUN.unpack_from(run)
    holder = _RUN.size + size
    behind = holder + 1 + run[holder] if first % 1 and len(run) > holder else holder
    fault, note = unpack_fault(run[behind:].decode("utf-8", "replace"))
    return JobRun(
        attempt & _MOST_ATTEMPTS,
        limit,
        _whole(receipt),
        _whole(abs(first)),
        run[_RUN.size : holder].decode("utf-8", "replace"),
        fault,
        note,
    )


def pack_fault(fault: str, note: str = "") -> str:
    """A failure as it is stored: reason, error, and behind a mark the note. A note is never cut; the mark in the failure itself,
    which a user's exception may have, is none."""
    fault = fault.replace(_NOTE_MARK[-1], " ")
    if not note:
        return fault
    raw = fault.encode("utf-8", "replace")[: _LONGEST_FAULT - len(f"{_NOTE_MARK}{note}".encode())]
    return f"{raw.decode('utf-8', 'ignore')}{_NOTE_MARK}{note}"


def unpack_fault(stored: str) -> tuple[str, str]:
    """The failure, and the note or nothing."""
    fault, mark, note = stored.rpartition(_NOTE_MARK)
    return (fault, note) if mark else (stored, "")


def unpack_attempts(failed: bytes) -> tuple[FailedAttempt, ...]:
    """Parses the failed attempts of a run, the last one first. Damaged ones are left out."""
    found: list[FailedAttempt] = []
    at = 0
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
    if len(record) < _HISTORY.size or record[0] != _HISTORY_FORMAT:
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


def pack_job(created: int, flags: int, body: bytes) -> bytes:
    """The complete record of a job without options, as the script writes it, for jobs that come another way."""
    return created.to_bytes(_FLAGS_AT, "little") + _BYTES[flags] + body


def keep_finished_arg(span: Duration | None) -> bytes:
    """How long finished jobs are kept, as it is sent: µs, or nothing. Raises ``BadInput``."""
    return b"" if span is None else b"%d" % duration_us(span, "keep_finished", minimum=SECOND)


def handlers_keep_finished_arg(span: Duration | None) -> bytes:
    """The same for a handler or a task, whose 0 keeps none, whatever the topic says."""
    return b"0" if span is not None and duration_us(span, "keep_finished") == 0 else keep_finished_arg(span)
