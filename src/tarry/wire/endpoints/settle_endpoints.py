"""Endpoints that settle reserved jobs, one or many: the models of the bodies, and the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tarry.values.durations import as_timedelta
from tarry.verbs.jobs import settle
from tarry.verbs.jobs.job_values import HasReceipt
from tarry.verbs.jobs.settle import NO_RESULT, SettleVerb, result_fields, result_in
from tarry.wire import answers, bodies
from tarry.wire.endpoint import ADMIN, CONSUME, Endpoint, Example
from tarry.wire.endpoints.job_endpoints import PATH
from tarry.wire.schemas import NOTHING
from tarry.wire.types import MOST_ITEMS, AnyJson, Name, Receipt, SomeSpan, Span, Strict


class Held(Strict):
    """The proof that a job is yours."""

    receipt: Receipt


class Touch(Held):
    """``ttr``: how long the reservation lasts from now."""

    ttr: SomeSpan


class Release(Held):
    """Without ``delay``: a back-off by the job's attempt. ``counted=false`` takes the attempt back, and means at once."""

    delay: Span | None = None
    counted: bool = True
    reason: str = ""


class Bury(Held):
    """``reason``: one line."""

    reason: str = ""


class Finish(Held):
    """``result`` is kept with the job if the topic keeps finished jobs; ``no_result``: why there is none."""

    result: AnyJson | UnsetType = UNSET
    no_result: str | None = None


class Step(Held):
    """``name``: of the step; ``result``: what it has done, any JSON."""

    name: Name
    result: AnyJson


class OneHeld(Held):
    """One of many."""

    id: Name


HeldJobs = Annotated[list[OneHeld], Meta(min_length=1, max_length=MOST_ITEMS)]


class OneFinished(OneHeld):
    """One of many; ``result`` and ``no_result`` as ``Finish`` has them."""

    result: AnyJson | UnsetType = UNSET
    no_result: str | None = None


class FinishMany(Strict):
    """Those whose receipts hold are finished, whatever becomes of the others."""

    jobs: Annotated[list[OneFinished], Meta(min_length=1, max_length=MOST_ITEMS)]


class ManyHeld(Strict):
    """Those whose receipts hold are settled, whatever becomes of the others."""

    jobs: HeldJobs


class TouchMany(ManyHeld):
    """All of them last ``ttr`` from now."""

    ttr: SomeSpan


class ReleaseMany(ManyHeld):
    """All of them become ready again, after ``delay`` if it is given. ``reason`` is kept as the error of each."""

    delay: Span | None = None
    counted: bool = True
    reason: str = ""


class BuryMany(ManyHeld):
    """All of them become dead, each with ``reason``."""

    reason: str = ""


class HolderTouch(Strict):
    """The reservations of a dead or silent process."""

    ttr: SomeSpan


class HolderRelease(Strict):
    """``counted=false`` takes the attempts back; ``limit``: the most jobs."""

    counted: bool = True
    limit: Annotated[int, Meta(ge=1, le=2**31)] | None = None


Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettleEndpoints:
    """The two endpoints of a verb: for one job, and for many. A client makes bodies of the verb's jobs and options, a service the
    options of a body."""

    verb: SettleVerb[...]
    one: Endpoint[None]
    many: Endpoint[None]
    descriptions: tuple[str, str]
    """Of the two, for the documents."""
    groups_of: Callable[[Sequence[HasReceipt], Options], list[tuple[list[Any], Options]]]
    """The jobs as the body for many has them, with its other fields; more than one body, where these differ."""
    options_of: Callable[[Any], Options]


def held_job(job: HasReceipt) -> OneHeld:
    return OneHeld(job.receipt, job.id)


def _all_alike(jobs: Sequence[HasReceipt], options: Options) -> list[tuple[list[Any], Options]]:
    return [([held_job(job) for job in jobs], options)]


def _by_ttr(jobs: Sequence[HasReceipt], options: Options) -> list[tuple[list[Any], Options]]:
    groups: dict[bytes, list[Any]] = {}
    for job in jobs:
        groups.setdefault(settle.ttr_us(job, options["ttr"]), []).append(held_job(job))
    return [(held, {"ttr": as_timedelta(int(us))}) for us, held in groups.items()]


def _with_results(jobs: Sequence[HasReceipt], options: Options) -> list[tuple[list[Any], Options]]:
    results = options.get("results") or [NO_RESULT] * len(jobs)
    pairs = zip(jobs, results, strict=True)
    return [([OneFinished(job.receipt, job.id, **result_fields(result)) for job, result in pairs], {})]


def _fields_of(body: Any) -> Options:
    """The fields of a body that are no job's: the options of the verb."""
    return {
        name: getattr(body, name) for name in body.__struct_fields__ if name not in ("jobs", *OneHeld.__struct_fields__)
    }


def _results_of(body: Finish | FinishMany) -> Options:
    jobs = body.jobs if isinstance(body, FinishMany) else (body,)
    for job in jobs:
        if not isinstance(job.result, UnsetType):
            bodies.text(bytes(job.result), "result")
    return {"results": list(map(result_in, jobs))}


def _endpoints(
    verb: SettleVerb[...],
    one: Held,
    many: FinishMany | ManyHeld,
    *descriptions: str,
    groups_of: Callable[[Sequence[HasReceipt], Options], list[tuple[list[Any], Options]]] = _all_alike,
    options_of: Callable[[Any], Options] = _fields_of,
) -> SettleEndpoints:
    """The endpoints of a verb, by an example of each body."""

    def endpoint(place: str, body: Strict) -> Endpoint[None]:
        return Endpoint(
            "POST",
            f"/v1/topics/{{topic}}/{place}/{verb.name}",
            scopes=CONSUME,
            returns=NOTHING,
            body_model=type(body),
            problem_codes=("stale_receipt",),
            example=Example(body, path=PATH),
        )

    first, second = descriptions
    return SettleEndpoints(
        verb, endpoint("jobs/{id}", one), endpoint("many", many), (first, second), groups_of, options_of
    )


_RECEIPT = 1800000000000000
_HELD = [OneHeld(_RECEIPT, "7")]
_WHO = {"topic": "orders", "holder": "worker-3"}

FINISH = _endpoints(
    settle.FINISH,
    Finish(_RECEIPT),
    FinishMany([OneFinished(_RECEIPT, "7")]),
    "Finishes the job: the work is done, and the job is deleted.",
    "Finishes the jobs whose receipts are valid; the problem names all others.",
    groups_of=_with_results,
    options_of=_results_of,
)
TOUCH = _endpoints(
    settle.TOUCH,
    Touch(_RECEIPT, "1m"),
    TouchMany(_HELD, "1m"),
    "Renews the reservation: it lasts for `ttr` from now.",
    "Renews the reservations of many jobs.",
    groups_of=_by_ttr,
)
RELEASE = _endpoints(
    settle.RELEASE,
    Release(_RECEIPT, delay="10s", reason="The shop does not answer"),
    ReleaseMany(_HELD, delay="10s"),
    "Releases the job, due again after a delay or a back-off. After its last attempt it is dead instead.",
    "Releases many jobs, due again after a delay, or each after a back-off.",
)
BURY = _endpoints(
    settle.BURY,
    Bury(_RECEIPT, "No such order"),
    BuryMany(_HELD, "No such order"),
    "Sets the job aside as dead. `kick` brings it back.",
    "Sets many jobs aside as dead.",
)
ENDPOINTS = {one.verb: one for one in (FINISH, TOUCH, RELEASE, BURY)}
KEEP_STEP = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/step",
    scopes=CONSUME,
    body_model=Step,
    returns=answers.STEP,
    problem_codes=("stale_receipt", "step_not_kept"),
    example=Example(Step(_RECEIPT, "charge", msgspec.Raw(b'"ch_17"')), msgspec.Raw(b'"ch_17"'), PATH),
)
RELEASE_HOLDER = Endpoint(
    "POST",
    "/v1/topics/{topic}/holders/{holder}/release",
    scopes=ADMIN,
    body_model=HolderRelease,
    returns=answers.COUNT,
    example=Example(HolderRelease(), 3, _WHO),
)
TOUCH_HOLDER = Endpoint(
    "POST",
    "/v1/topics/{topic}/holders/{holder}/touch",
    scopes=ADMIN,
    body_model=HolderTouch,
    returns=answers.COUNT,
    example=Example(HolderTouch("1m"), 3, _WHO),
)
