"""Settling a reservation: ``finish``, ``touch``, ``release``, ``bury``. Each needs the receipt.

A receipt that no longer holds is refused with ``StaleReceipt``, and nothing changes. Of many jobs, all whose receipts hold are
settled, then the first refusal is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tarry.core.patience import exponential_delay
from tarry.core.requests import FIRST_TIME, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput, StaleReceipt
from tarry.values import names
from tarry.values.durations import HOUR, MILLISECOND, SECOND, Duration, duration_us
from tarry.values.keys import (
    FINISHING_PARTS,
    RETRYING_PARTS,
    WAITING_PARTS,
    TopicKeys,
    finishing_keys,
    retrying_keys,
    waiting_keys,
)
from tarry.verbs.jobs import records
from tarry.verbs.jobs.models import BaseJob, HasReceipt
from tarry.verbs.jobs.results import NO_RESULT

FINISH = Script("topic/finish", args=("is_replay",), item=("id", "receipt", "result"), keys=FINISHING_PARTS)
TOUCH = Script("topic/touch", args=("is_replay",), item=("id", "receipt", "ttr"))
RELEASE = Script(
    "topic/release",
    args=("is_replay",),
    item=("id", "receipt", "due_time", "counted", "max_attempts", "fault"),
    keys=WAITING_PARTS,
)
SET_HEADERS = Script("topic/set_headers", item=("id", "receipt", "headers", "priority"), keys=WAITING_PARTS)
BURY = Script("topic/bury", args=("is_replay",), item=("id", "receipt", "max_attempts", "fault"), keys=RETRYING_PARTS)
_UNLIMITED = b"0"
"""No handler's limit."""
_REASONS = {
    "again": "was handed out again (attempt {})",
    "timed out": "ran out of its time to run",
    "released": "was released, or ran out of its time to run",
    "dead": "was set aside",
    "never": "waits, and was never handed out",
    "gone": "was finished or deleted",
}
_RELEASED = (b"delayed", b"dead")
"""The states that release answers. For the other verbs "dead" is a reason why the receipt does not hold."""

Outcome = StaleReceipt | None


def finish(
    keys: TopicKeys, jobs: Sequence[HasReceipt], results: Sequence[bytes] | None = None
) -> ScriptCall[list[Outcome]]:
    """Removes jobs whose work is done. ``results`` are as ``results.encode`` returns them; used if the topic or the task keeps
    finished jobs."""
    given = results or [NO_RESULT] * len(jobs)
    items = [(*receipt_args(job), result) for job, result in zip(jobs, given, strict=True)]
    return _settle(FINISH, finishing_keys(keys), jobs, items)


def touch(keys: TopicKeys, jobs: Sequence[HasReceipt], ttr: Duration | None = None) -> ScriptCall[list[Outcome]]:
    """Renews reservations: ``ttr`` from now, or each job's own."""
    return _settle(TOUCH, keys, jobs, [(*receipt_args(job), ttr_us(job, ttr)) for job in jobs])


def release(
    keys: TopicKeys,
    jobs: Sequence[HasReceipt],
    due_times: Sequence[bytes],
    *,
    count: bool = True,
    fault: str = "",
    uncounted: bool = False,
) -> ScriptCall[list[Outcome]]:
    """Puts jobs back, due after a delay in µs, or at "@" and a moment. ``count=False`` takes the attempt back;
    ``uncounted=True`` also refunds its share of the topic's rate."""
    text, counted = fault.encode("utf-8", "replace"), b"2" if uncounted else b"1" if count else b"0"
    pairs = zip(jobs, due_times, strict=True)
    return _settle(
        RELEASE,
        waiting_keys(keys),
        jobs,
        [(*receipt_args(job), due_time, counted, _UNLIMITED, text) for job, due_time in pairs],
    )


def bury(keys: TopicKeys, jobs: Sequence[HasReceipt], reason: str = "", error: str = "") -> ScriptCall[list[Outcome]]:
    """Sets jobs aside as dead, with a reason of one line."""
    line = " ".join(reason.split())
    text = f"{line}\n{error}".encode("utf-8", "replace")
    return _settle(BURY, retrying_keys(keys), jobs, [(*receipt_args(job), _UNLIMITED, text) for job in jobs])


def set_headers(
    keys: TopicKeys, job: HasReceipt, headers: Mapping[str, str], priority: int | None = None
) -> ScriptCall[bool]:
    """Replaces the headers of a reserved job, and its priority if one is given. Returns whether the receipt holds."""
    item = (*receipt_args(job), records.pack_headers(headers), b"" if priority is None else b"%d" % priority)
    return ScriptCall(SET_HEADERS, waiting_keys(keys), (), lambda reply: bool(reply[0]), items=item)


def fail(
    keys: TopicKeys,
    job: HasReceipt,
    due_time: bytes | None,
    fault: str,
    *,
    count: bool = True,
    max_attempts: int | None = None,
    refund: bool = False,
) -> ScriptCall[bool]:
    """Releases a job after a failed attempt, due after a delay in µs, or sets it aside (``None``). Returns whether the job is
    dead now. ``max_attempts`` is the handler's; the smaller limit is stored with the run. ``refund=True``, for an attempt that
    does not count, also gives back its share of the topic's rate.

    The fault's first line is the reason, the rest the error. Its decoder raises ``StaleReceipt``.
    """
    text = fault.encode("utf-8", "replace")
    script = BURY if due_time is None else RELEASE
    limit = _UNLIMITED if max_attempts is None else b"%d" % max_attempts
    settling = () if due_time is None else (due_time, b"2" if refund else b"1" if count else b"0")
    item = (*receipt_args(job), *settling, limit, text)

    def decode(reply: Reply) -> bool:
        raise_first_fault([_outcome(job.id, reply[0], _RELEASED if script is RELEASE else ())])
        return script is BURY or reply[0] == b"dead"

    places = waiting_keys(keys) if script is RELEASE else retrying_keys(keys)
    return ScriptCall(script, places, (FIRST_TIME,), decode, items=item)


def back_off_us(attempt: int, jitter: float) -> int:
    """Microseconds to wait after a failed attempt: 1 s × 2ⁿ ± 20 %, at most 1 h. ``jitter`` is a number from 0 to 1."""
    return min(round(exponential_delay(max(attempt, 1) - 1, SECOND, HOUR, spread=0.2, jitter=jitter)), HOUR)


def attempt_of(job: Any) -> int:
    """The attempt that a back-off depends on. Raises ``BadInput`` for a ``Reservation``."""
    attempt = getattr(job, "attempt", None)
    if attempt is None:
        raise BadInput("release: Reservation(id, receipt) has no attempt; give delay=.")
    return int(attempt)


def _settle(
    script: Script, keys: tuple[bytes, ...], jobs: Sequence[HasReceipt], items: Sequence[tuple[bytes, ...]]
) -> ScriptCall[list[Outcome]]:
    ids = [job.id for job in jobs]
    done = _RELEASED if script is RELEASE else ()

    def decode(reply: Reply) -> list[Outcome]:
        return [_outcome(id, answer, done) for id, answer in zip(ids, reply, strict=True)]

    return ScriptCall(script, keys, (FIRST_TIME,), decode, items=[arg for item in items for arg in item])


def receipt_args(job: HasReceipt) -> tuple[bytes, bytes]:
    """A job's id and receipt, as they are sent. Raises ``BadInput``."""
    if isinstance(job, BaseJob):
        return job.id.encode(), b"%d" % job.receipt
    receipt = getattr(job, "receipt", None)
    if not isinstance(receipt, int) or isinstance(receipt, bool) or not 0 < receipt < 2**53:
        raise BadInput(f"receipt: {receipt!r}; give the job that pop returned, or its id and receipt.")
    return names.check_name(job.id, "id"), b"%d" % receipt


def ttr_us(job: Any, ttr: Duration | None) -> bytes:
    """How long the job's reservation shall last: ``ttr``, or the job's own. Raises ``BadInput``."""
    if ttr is None:
        ttr = getattr(job, "ttr", None)
        if ttr is None:
            raise BadInput("ttr: a Reservation does not know its own; give ttr=.")
    return b"%d" % duration_us(ttr, "ttr", minimum=MILLISECOND)


def _outcome(id: str, answer: int | bytes, done: tuple[bytes, ...]) -> Outcome:
    if isinstance(answer, int) or answer in done:
        return None
    text = answer.lstrip(b"!").decode()
    reason, _, attempt = text.partition(" ") if text.startswith("again") else (text, "", "")
    why = _REASONS.get(reason, reason).format(attempt)
    return StaleReceipt(
        f"Job {id} {why}; stop working on it.",
        id=id,
        reason=reason,
        attempt=int(attempt) if attempt else None,
    )


def raise_first_fault(outcomes: Sequence[Outcome]) -> None:
    """Raises the first refusal; it names all refused jobs."""
    stale = [outcome for outcome in outcomes if outcome is not None]
    if stale:
        stale[0].ids = tuple(outcome.id for outcome in stale)
        raise stale[0]
