"""The steps of a job: what its handler has done of it, kept with the job under its receipt (lua/lib/steps.lua).

    find_step ──▶ a result: it was kept before
        └───────▶ None: call the function, once at a time ──▶ encode_step ──▶ keep_step ──▶ the result that is kept

A refusal comes before the function is called, wherever that can be: once it has run, a retry would run it again.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from tarry.core.requests import FIRST_TIME, Reply, ScriptCall
from tarry.core.scripts import Script
from tarry.errors import BadInput, BodyError, StaleReceipt, StepNotKept
from tarry.values import names
from tarry.values.keys import TOUCHING_PARTS, TopicKeys
from tarry.verbs.codecs import has_nan
from tarry.verbs.jobs.job_values import BaseJob, HasReceipt
from tarry.verbs.jobs.settle import raise_refusals, receipt_args, refusal_of

KEEP_STEP = Script(
    "topic/keep_step", args=("is_replay",), item=("id", "receipt", "name", "result"), keys=TOUCHING_PARTS
)
MOST_BYTES = 65536
"""Of the steps of a job; lua/lib/steps.lua has the same."""
_LENGTHS = 5
"""Bytes that each step needs besides its name and result."""
_encode = msgspec.json.Encoder().encode
_called: dict[tuple[int, str], object] = {}
"""Steps whose functions are being called: the job in this process, and the name."""


def find_step(job: BaseJob[Any], name: str, function: Any) -> bytes | None:
    """The result that a step has kept; ``None`` if its function is to be called. Raises ``BadInput``, ``StaleReceipt`` or
    ``StepNotKept`` if that would be in vain."""
    raw = names.check_name(name, "name")
    if not callable(function):
        if inspect.iscoroutine(function):
            function.close()
        given = type(function).__name__
        raise BadInput(f"step: {given} given; give a function without arguments, such as lambda: charge(order).")
    kept = job.kept_steps
    if name in kept:
        return kept[name]
    if job.settled:
        raise BadInput(f"job {job.id}: it is settled, and keeps no further step.")
    if job.lost:
        raise StaleReceipt(
            f"Job {job.id} is no longer held here, or has taken longer than its timeout; stop working on it.",
            id=job.id,
            reason="timed out",
        )
    used = sum(len(one.encode()) + len(result) + _LENGTHS for one, result in kept.items())
    if used + len(raw) + _LENGTHS >= MOST_BYTES:
        raise _too_many(job.id, name, used, "was not called")
    return None


@contextmanager
def only_call(job: BaseJob[Any], name: str) -> Generator[None]:
    """While the function of a step is called, by whichever thread or task. Raises ``BadInput`` if it is already: both would do its work."""
    step, mine = (id(job), name), object()
    if _called.setdefault(step, mine) is not mine:
        raise BadInput(
            f"step {name!r} of job {job.id}: its function is being called already, and would be called twice. Give each step a name of "
            "its own, or wait for the first call."
        )
    try:
        yield
    finally:
        del _called[step]


def encode_step(job: BaseJob[Any], name: str, result: Any) -> bytes:
    """The result of a function as it is kept. Raises ``StepNotKept``."""
    try:
        raw = _encode(result)
        problem = "it contains a number that is not finite" if b"null" in raw and has_nan(result) else ""
    except Exception as fault:  # noqa: BLE001  # whatever a user's object raises
        raw, problem = b"", str(fault) or type(fault).__name__
    if problem:
        raise StepNotKept(
            f"Step {name!r} of job {job.id} has run, and its result is no JSON: {problem}. Return plain data, such as the number "
            "of a receipt.",
            id=job.id,
            step=name,
        )
    if len(raw) > MOST_BYTES:
        raise _too_many(job.id, name, len(raw), "has run")
    return raw


def decode_step(job: BaseJob[Any], name: str, kept: bytes, kind: Any) -> Any:
    """The result of a step, as a type. Raises ``BodyError``."""
    try:
        return msgspec.json.decode(kept, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
        raise BodyError(f"step {name} of job {job.id}: what was kept does not decode as the type: {fault}.") from fault


def keep_step(keys: TopicKeys, job: HasReceipt, name: str, result: bytes) -> ScriptCall[bytes]:
    """Keeps the result of a step; returns the one that the step has. Its decoder raises ``StaleReceipt`` or ``StepNotKept``."""
    id, receipt = receipt_args(job)

    def decode(reply: Reply) -> bytes:
        answer = reply[0]
        if isinstance(answer, int):
            raise _too_many(job.id, name, answer, "has run")
        if not answer.startswith(b"="):
            raise_refusals([refusal_of(id, answer)])
        kept: bytes = answer[1:]
        return kept

    item = id, receipt, names.check_name(name, "name"), result
    return ScriptCall(KEEP_STEP, KEEP_STEP.keys_for(keys), (FIRST_TIME,), decode, items=item)


def _too_many(id: str, name: str, size: int, what: str) -> StepNotKept:
    return StepNotKept(
        f"Step {name!r} of job {id} {what}, and its result cannot be kept: the job's steps would have {size} bytes; at most "
        f"{MOST_BYTES} are kept. Return less, such as an address, or divide the job.",
        id=id,
        step=name,
    )
