"""Settling a reservation: ``finish``, ``touch``, ``release``, ``bury``. Each needs the receipt, and is one value, which a topic of a
server and one of a service perform alike: ``verbs.settle(RELEASE, [job], delay=5)``.

A receipt that no longer holds is refused with ``StaleReceipt``, and nothing changes. Of many jobs, all whose receipts hold are
settled, then the first refusal is raised, with the reasons of all.

The result of a job, as ``finish`` sends it: how long to keep the job, if the task sets it; the kind of result; and the result.

    ┌ µs, or nothing: the topic decides ┬ j: JSON follows, x: why there is no result, n: none was given ┬ … ┐

A result that is too large or cannot be encoded is no error: the job is finished, and the place of the result says why it is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import random
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec

import msgspec
from msgspec import UNSET, UnsetType

from tarry.core.patience import exponential_delay
from tarry.core.requests import FIRST_TIME, Flow, Reply, ScriptCall, split_items
from tarry.core.scripts import Script
from tarry.errors import BadInput, StaleReceipt, StepNotKept
from tarry.values import names
from tarry.values.durations import HOUR, MILLISECOND, SECOND, Duration, duration_us
from tarry.values.keys import (
    FINISHING_PARTS,
    KEY_PARTS,
    TOUCHING_PARTS,
    WAITING_PARTS,
    TopicKeys,
)
from tarry.verbs.jobs import records
from tarry.verbs.jobs.job_values import BaseJob, HasReceipt
from tarry.verbs.jobs.options import max_attempts_of
from tarry.verbs.jobs.topic_context import one_line

P = ParamSpec("P")
Item = tuple[bytes, ...]
"""The arguments of a script for one job: its id, its receipt, and more."""
Outcome = StaleReceipt | None
SET_HEADERS = Script("topic/set_headers", item=("id", "receipt", "headers", "priority"), keys=WAITING_PARTS)
_NO_HANDLER = b"0"
"""No handler says how many attempts there are."""
_REASONS = {
    "again": "was handed out again",
    "timed out": "ran out of its time to run",
    "released": "was released, or ran out of its time to run",
    "dead": "was set aside",
    "never": "waits, and was not handed out since it was added or replaced",
    "gone": "was finished or deleted, or belongs to another topic",
}
_MOST_NAMED = 10
"""How many refused jobs a message names."""
LONGEST_RESULT = 65536
NO_RESULT = b""
"""A job without a result, for which the topic decides."""
_LONGEST_REASON = 500
_encode = msgspec.json.Encoder().encode
_AT_ONCE = b"0"
_VERY_MANY = 100
_DEAD = (1, b"dead")
"""Answers of BURY and RELEASE for a dead job. A job that was changed meanwhile does not die."""
_NOT_COUNTED, _COUNTED, _REFUNDED = b"0", b"1", b"2"
"""Whether a released attempt counts, or a refused renewal. A refunded one does not, and gives back its share of the topic's rate;
behind it may be how late the job was handed out: then the hand-out does not count either."""


@dataclass(frozen=True, slots=True, eq=False)
class SettleVerb(Generic[P]):
    """A verb on reserved jobs. ``encode`` checks the jobs and its options, which are keywords, and returns what the script takes of
    each job; ``done`` is what the script answers for a settled job besides 1."""

    script: Script
    encode: Callable[Concatenate[Sequence[HasReceipt], P], list[Item]]
    done: tuple[bytes, ...] = ()

    @property
    def name(self) -> str:
        return self.script.name.rpartition("/")[2]

    def call(self, keys: TopicKeys, items: Sequence[Item]) -> ScriptCall[list[Outcome]]:
        """The call for the jobs of one partition, as ``encode`` returned them."""

        def decode(reply: Reply) -> list[Outcome]:
            if isinstance(reply, int):  # all receipts hold
                return [None] * len(items)
            return [refusal_of(item[0], answer, self.done) for item, answer in zip(items, reply, strict=True)]

        flat = [arg for item in items for arg in item]
        return ScriptCall(self.script, self.script.keys_for(keys), (FIRST_TIME,), decode, items=flat)


def _finish(jobs: Sequence[HasReceipt], *, results: Sequence[bytes] | None = None) -> list[Item]:
    """``results``: as ``encode_result`` returns them, one for each job; used if the topic or the task keeps finished jobs."""
    given = results or [NO_RESULT] * len(jobs)
    return [(*receipt_args(job), result) for job, result in zip(jobs, given, strict=True)]


def _touch(jobs: Sequence[HasReceipt], *, ttr: Duration | None, counted: bool = True) -> list[Item]:
    """``counted=False``: the topic does not count a refusal."""
    after = _COUNTED if counted else _NOT_COUNTED
    return [(*receipt_args(job), ttr_us(job, ttr), after) for job in jobs]


def _release(
    jobs: Sequence[HasReceipt],
    *,
    delay: Duration | None,
    counted: bool = True,
    reason: str = "",
    draw: Callable[[], float] = random,
) -> list[Item]:
    """``draw`` returns random numbers from 0 to 1, for the back-off."""
    if delay is not None:
        due_times = [b"%d" % duration_us(delay)] * len(jobs)
    elif not counted:
        due_times = [_AT_ONCE] * len(jobs)
    else:
        due_times = [_back_off(draw()) for _ in jobs]
    after = _COUNTED if counted else _NOT_COUNTED, _NO_HANDLER, records.pack_fault(reason).encode("utf-8", "replace")
    return [(*receipt_args(job), due_time, *after) for job, due_time in zip(jobs, due_times, strict=True)]


def _bury(jobs: Sequence[HasReceipt], *, reason: str = "") -> list[Item]:
    text = f"{' '.join(reason.split())}\n".encode("utf-8", "replace")
    return [(*receipt_args(job), _NO_HANDLER, text) for job in jobs]


FINISH = SettleVerb(
    Script(
        "topic/finish", args=("is_replay",), item=("id", "receipt", "result"), keys=FINISHING_PARTS, learns_keys=True
    ),
    _finish,
)
"""Removes jobs whose work is done."""
TOUCH = SettleVerb(
    Script("topic/touch", args=("is_replay",), item=("id", "receipt", "ttr", "counted"), keys=TOUCHING_PARTS), _touch
)
"""Renews reservations: ``ttr`` from now, or each job's own."""
RELEASE = SettleVerb(
    Script(
        "topic/release",
        args=("is_replay",),
        item=("id", "receipt", "due_time", "counted", "max_attempts", "fault"),
        keys=WAITING_PARTS,
        learns_keys=True,
    ),
    _release,
    done=(b"delayed", b"dead"),  # for the other verbs "dead" is a reason why the receipt does not hold
)
"""Puts jobs back, due after a delay; without one after a back-off by the job's attempt, which the server knows, or at once if the attempt does not count.
``counted=False`` takes the attempt back."""
BURY = SettleVerb(
    Script(
        "topic/bury",
        args=("is_replay",),
        item=("id", "receipt", "max_attempts", "fault"),
        keys=(*WAITING_PARTS, *KEY_PARTS),
    ),
    _bury,
)
"""Sets jobs aside as dead, with a reason of one line."""


def outcome_of(verbs: Any, job: Any, fault: BaseException | None) -> Flow[None]:
    """The end of ``with job:`` as a flow: finish, release with back-off, or release at once without counting the attempt. A job whose step
    has run in vain is buried: a retry would run it again."""
    settling: Flow[None]
    if fault is None:
        settling = verbs.settle(FINISH, [job])
    elif isinstance(fault, StepNotKept) and fault.id == job.id:
        settling = verbs.settle(BURY, [job], reason=one_line(fault))
    elif isinstance(fault, Exception):
        settling = verbs.settle(RELEASE, [job], delay=None, reason=one_line(fault))
    else:
        settling = verbs.settle(RELEASE, [job], delay=0, counted=False)
    return settling


def items_to_give_back(jobs: Sequence[HasReceipt], due: Sequence[int]) -> list[Item]:
    """Of ``RELEASE``, for jobs that go back to the moments at which they were due, as if they had not been handed out."""
    after = _REFUNDED, _NO_HANDLER, b""
    return [(*receipt_args(job), b"@%d" % at, *after) for job, at in zip(jobs, due, strict=True)]


def set_headers(
    keys: TopicKeys, job: HasReceipt, headers: Mapping[str, str], priority: int | None = None
) -> ScriptCall[bool]:
    """Replaces the headers of a reserved job, and its priority if one is given. Returns whether the receipt holds."""
    item = (*receipt_args(job), records.pack_headers(headers), b"" if priority is None else b"%d" % priority)
    return ScriptCall(SET_HEADERS, SET_HEADERS.keys_for(keys), (), lambda reply: bool(reply[0]), items=item)


class Failure(NamedTuple):
    """A failed attempt and its consequence: the job is released, due after a delay in µs or at "@" and a moment, or set aside (``None``).

    ``max_attempts`` is the handler's, if that counts; it is stored with the run. ``unseen_us``, if no handler saw the
    job: how late it was handed out. Then neither the attempt nor the hand-out counts, and its share of the topic's rate is given back.
    The fault's first line is the reason, the rest the error.
    """

    job: HasReceipt
    due_time: bytes | None
    fault: str
    counted: bool = True
    max_attempts: int | UnsetType | None = UNSET
    unseen_us: int | None = None

    @property
    def verb(self) -> SettleVerb[...]:
        return BURY if self.due_time is None else RELEASE

    def item(self) -> Item:
        after = _COUNTED if self.counted else _NOT_COUNTED
        if self.unseen_us is not None:
            after = _REFUNDED + b"%d" % max(self.unseen_us, 0)
        settling = () if self.due_time is None else (self.due_time, after)
        limit = b"%d" % max_attempts_of(self.max_attempts)
        return (*receipt_args(self.job), *settling, limit, self.fault.encode("utf-8", "replace"))


def fail(keys: TopicKeys, failure: Failure) -> ScriptCall[bool]:
    """Settles a failed job. Returns whether it is dead now; the decoder raises ``StaleReceipt``."""
    verb, item = failure.verb, failure.item()

    def decode(reply: Reply) -> bool:
        raise_refusals([refusal_of(item[0], reply[0], verb.done)])
        return reply[0] in _DEAD

    return ScriptCall(verb.script, verb.script.keys_for(keys), (FIRST_TIME,), decode, items=item)


def fail_many(keys: TopicKeys, failures: Sequence[Failure], dead: dict[Any, bool]) -> Flow[None]:
    """Settles failed jobs, in steps. Those whose receipts hold are in ``dead`` then, with whether they are dead now; the first refusal
    is raised."""
    refusals: list[Outcome] = []
    for verb in (RELEASE, BURY):
        some = [(one.job, one.item()) for one in failures if one.verb is verb]
        for part in split_items(some, lambda one: one[1][-1]):
            call = verb.call(keys, [item for _, item in part])
            call.decode = list
            for (job, item), answer in zip(part, (yield call), strict=True):
                refusals.append(refusal_of(item[0], answer, verb.done))
                if refusals[-1] is None:
                    dead[job] = answer in _DEAD
    raise_refusals(refusals)


def retry_delay_us(
    attempt: int, draw: float, *, first: int = SECOND, factor: float = 2.0, longest: int = HOUR, spread: float = 0.2
) -> int:
    """Microseconds to wait after a failed attempt (the first is 1): 1 s × 2ⁿ ± 20 %, at most 1 h, or a worker's ``BackOff``.
    ``draw`` is a random number from 0 to 1."""
    delay = exponential_delay(max(attempt, 1) - 1, first, longest, factor=factor, spread=spread, draw=draw)
    return min(round(delay), longest)


def _back_off(draw: float) -> bytes:
    """A back-off whose attempt only the script knows: those after the first attempt and after very many, which are the longest."""
    return b"~%d %d" % (retry_delay_us(1, draw), retry_delay_us(_VERY_MANY, draw))


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


def refusal_of(id: bytes, answer: int | bytes, done: tuple[bytes, ...] = ()) -> Outcome:
    """The refusal that a script has answered for a job, if it is one."""
    if isinstance(answer, int) or answer in done:
        return None
    text = answer.lstrip(b"!").decode()
    reason, _, attempt = text.partition(" ") if text.startswith("again") else (text, "", "")
    which = f" (attempt {attempt})" if attempt else ""
    return StaleReceipt(
        f"Job {id.decode()} {_REASONS.get(reason, reason)}{which}; stop working on it.",
        id=id.decode(),
        reason=reason,
        attempt=int(attempt) if attempt else None,
    )


def raise_refusals(outcomes: Sequence[Outcome]) -> None:
    """Raises the first refusal, with the reasons of all refused jobs."""
    faults = [outcome for outcome in outcomes if outcome is not None]
    if not faults:
        return
    reasons: dict[str, str] = {}
    for fault in faults:
        for id, reason in fault.reasons.items():
            reasons.setdefault(id, reason)
    faults[0].reasons = reasons
    if len(reasons) > 1:
        faults[0].args = (_refusals_text(reasons),)
    raise faults[0]


def _refusals_text(reasons: Mapping[str, str]) -> str:
    named = [f"{id} {_REASONS.get(reason, reason)}" for id, reason in islice(reasons.items(), _MOST_NAMED)]
    if len(reasons) > _MOST_NAMED:
        named.append(f"and {len(reasons) - _MOST_NAMED} more")
    return f"{len(reasons)} jobs were refused; stop working on them: {'; '.join(named)}."


# ── results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def result_fields(given: bytes) -> dict[str, Any]:
    """A result, as ``finish`` sends it, as fields of a service's request."""
    if given[:1] == b"j":
        return {"result": msgspec.Raw(given[1:])}
    return {"no_result": given[1:].decode("utf-8", "replace")} if given[:1] == b"x" else {}


def result_in(fields: Any) -> bytes:
    """The result of such a request, as ``finish`` sends it."""
    if isinstance(fields.result, msgspec.UnsetType):
        return b"x" + fields.no_result.encode()[:_LONGEST_REASON] if fields.no_result else NO_RESULT
    return encode_result(fields.result)


def encode_result(result: Any, keep: Duration | None = None) -> bytes:
    """A result as ``finish`` sends it. ``keep``: how long the handler keeps its finished jobs. Raises ``BadInput`` for a wrong ``keep``."""
    span = records.handlers_keep_finished_arg(keep)
    if result is None or span == b"0":
        return span + b"n" if span else NO_RESULT
    try:
        raw = _encode(result)
    except Exception as fault:  # noqa: BLE001  # whatever a user's object raises, the job is done
        reason = f"it cannot be encoded as JSON: {fault}"
        return span + b"x" + reason.encode("utf-8", "replace")[:_LONGEST_REASON]
    if len(raw) > LONGEST_RESULT:
        return span + b"xit has %d bytes; at most %d are kept" % (len(raw), LONGEST_RESULT)
    return span + b"j" + raw
