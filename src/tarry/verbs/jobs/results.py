"""The result of a job, as ``finish`` sends it: how long to keep the job, if the task sets it; the kind of result; and the result.

    ┌ µs, or nothing: the topic decides ┬ j: JSON follows, x: why there is no result, n: none was given ┬ … ┐

A result that is too large or cannot be encoded is no error: the job is finished, and the place of the result says why it is not there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarry.values.durations import Duration
from tarry.verbs.jobs.settings import keep_finished_arg

LONGEST_RESULT = 65536
NO_RESULT = b""
"""A job without a result, for which the topic decides."""
_LONGEST_REASON = 500
_encode = msgspec.json.Encoder().encode


def result_fields(given: bytes) -> dict[str, Any]:
    """The same as fields of a service's request."""
    if given[:1] == b"j":
        return {"result": msgspec.Raw(given[1:])}
    return {"no_result": given[1:].decode("utf-8", "replace")} if given[:1] == b"x" else {}


def result_in(fields: Any) -> bytes:
    """The result of such a request, as ``finish`` sends it."""
    if isinstance(fields.result, msgspec.UnsetType):
        return b"x" + fields.no_result.encode()[:_LONGEST_REASON] if fields.no_result else NO_RESULT
    return encode_result(fields.result)


def encode_result(result: Any, keep: Duration | None = None) -> bytes:
    """A result as ``finish`` sends it. ``keep``: how long the task keeps its finished jobs. Raises ``BadInput`` for a wrong ``keep``."""
    span = keep_finished_arg(keep)
    if result is None:
        return span + b"n" if span else NO_RESULT
    try:
        raw = _encode(result)
    except Exception as fault:  # noqa: BLE001  # whatever a user's object raises, the job is done
        reason = f"it cannot be encoded as JSON: {fault}"
        return span + b"x" + reason.encode("utf-8", "replace")[:_LONGEST_REASON]
    if len(raw) > LONGEST_RESULT:
        return span + b"xit has %d bytes; at most %d are kept" % (len(raw), LONGEST_RESULT)
    return span + b"j" + raw
