"""Endpoints that settle reserved jobs, one or many: the models of the bodies, and the rows."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from tarry.clients.http.wire import answers
from tarry.clients.http.wire.endpoint import ADMIN, CONSUME, Endpoint, Example
from tarry.clients.http.wire.endpoints.jobs import PATH
from tarry.clients.http.wire.schemas import NOTHING
from tarry.clients.http.wire.types import MOST_ITEMS, AnyJson, Name, Receipt, SomeSpan, Span, Strict


class Held(Strict):
    """The proof that a job is yours."""

    receipt: Receipt


class Touch(Held):
    """``ttr``: how long the reservation lasts from now."""

    ttr: SomeSpan


class Release(Held):
    """Without ``delay``: back-off by ``attempt``. ``count=false`` takes the attempt back, and means at once."""

    delay: Span | None = None
    attempt: Annotated[int, Meta(ge=1, le=2**31)] | None = None
    count: bool = True
    reason: str = ""


class Bury(Held):
    """``reason``: one line."""

    reason: str = ""


class Finish(Held):
    """``result`` is kept with the job if the topic keeps finished jobs; ``no_result``: why there is none."""

    result: AnyJson | UnsetType = UNSET
    no_result: str | None = None


class OneHeld(Held):
    """One of many."""

    id: Name
    attempt: Annotated[int, Meta(ge=1, le=2**31)] | None = None


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
    """As ``Release``, for all."""

    delay: Span | None = None
    count: bool = True
    reason: str = ""


class BuryMany(ManyHeld):
    """As ``Bury``, for all."""

    reason: str = ""


class HolderTouch(Strict):
    """The reservations of a dead or silent process."""

    ttr: SomeSpan


class HolderRelease(Strict):
    """``count``: the attempts stay counted; ``limit``: the most jobs."""

    count: bool = False
    limit: Annotated[int, Meta(ge=1, le=2**31)] | None = None


_DONE = [OneFinished(1800000000000000, "7")]
_HELD = [OneHeld(1800000000000000, "7")]
_WHO = {"topic": "orders", "holder": "worker-3"}

FINISH = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/finish",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=Finish,
    problem_codes=("stale_receipt",),
    example=Example(Finish(1800000000000000), path=PATH),
)
FINISH_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/finish",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=FinishMany,
    problem_codes=("stale_receipt",),
    example=Example(FinishMany(_DONE), path=PATH),
)
TOUCH = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/touch",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=Touch,
    problem_codes=("stale_receipt",),
    example=Example(Touch(1800000000000000, "1m"), path=PATH),
)
TOUCH_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/touch",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=TouchMany,
    problem_codes=("stale_receipt",),
    example=Example(TouchMany(_HELD, "1m"), path=PATH),
)
RELEASE = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/release",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=Release,
    problem_codes=("stale_receipt",),
    example=Example(Release(1800000000000000, delay="10s", reason="The shop does not answer"), path=PATH),
)
RELEASE_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/release",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=ReleaseMany,
    problem_codes=("stale_receipt",),
    example=Example(ReleaseMany(_HELD, delay="10s"), path=PATH),
)
BURY = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/bury",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=Bury,
    problem_codes=("stale_receipt",),
    example=Example(Bury(1800000000000000, "No such order"), path=PATH),
)
BURY_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/bury",
    scopes=CONSUME,
    returns=NOTHING,
    body_model=BuryMany,
    problem_codes=("stale_receipt",),
    example=Example(BuryMany(_HELD, "No such order"), path=PATH),
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
