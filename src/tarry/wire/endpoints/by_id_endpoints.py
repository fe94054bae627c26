"""Endpoints for jobs by their ids, one or many: the models of the bodies, and the rows."""

from __future__ import annotations

from tarry.verbs.jobs import by_id as verbs
from tarry.verbs.jobs.job_values import State
from tarry.wire import answers
from tarry.wire.endpoint import ANY_SCOPE, PRODUCE, Endpoint, Example
from tarry.wire.endpoints.job_endpoints import PATH, SHOWN
from tarry.wire.types import Ids, Moment, Span, Strict, WaitWords


class GetQuery(Strict):
    """``wait``: until the job is finished or dead, at most this long; up to 60 s."""

    wait: WaitWords = "0s"


class Several(Strict):
    """Jobs by their ids."""

    ids: Ids


class DeleteMany(Several, omit_defaults=True):
    """Jobs by their ids. With ``running`` the workers that run them stop the runs; with ``state`` jobs in another state stay."""

    running: bool = False
    state: State | None = None


class Reschedule(Strict):
    """``delay`` or ``at``."""

    delay: Span | None = None
    at: Moment | None = None


class RescheduleMany(Reschedule, kw_only=True):
    """Jobs by their ids; ``delay`` or ``at``."""

    ids: Ids


GET = Endpoint(
    "GET",
    "/v1/topics/{topic}/jobs/{id}",
    scopes=ANY_SCOPE,
    query_model=GetQuery,
    returns=answers.JOB,
    problem_codes=("unknown_job",),
    example=Example(answer=SHOWN, path=PATH),
)
GET_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/get",
    scopes=ANY_SCOPE,
    body_model=Several,
    returns=answers.JOBS,
    example=Example(Several(["7"]), [None], PATH),
)
BODY = Endpoint(
    "GET",
    "/v1/topics/{topic}/jobs/{id}/body",
    scopes=ANY_SCOPE,
    returns=bytes,
    media="*/*",
    problem_codes=("unknown_job", "body_error"),
)
DELETE = Endpoint(
    "DELETE",
    "/v1/topics/{topic}/jobs/{id}",
    scopes=PRODUCE,
    returns=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(answer="delayed", path=PATH),
)
DELETE_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/delete",
    scopes=PRODUCE,
    body_model=DeleteMany,
    returns=answers.WERE_MANY,
    example=Example(DeleteMany(["7"]), ["delayed"], PATH),
)
KICK = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/kick",
    scopes=PRODUCE,
    returns=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(answer="dead", path=PATH),
)
KICK_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/kick",
    scopes=PRODUCE,
    body_model=Several,
    returns=answers.WERE_MANY,
    example=Example(Several(["7"]), ["dead"], PATH),
)
RESCHEDULE = Endpoint(
    "POST",
    "/v1/topics/{topic}/jobs/{id}/reschedule",
    scopes=PRODUCE,
    body_model=Reschedule,
    returns=answers.WAS,
    problem_codes=("unknown_job",),
    example=Example(Reschedule(delay="1h"), "delayed", PATH),
)
RESCHEDULE_MANY = Endpoint(
    "POST",
    "/v1/topics/{topic}/many/reschedule",
    scopes=PRODUCE,
    body_model=RescheduleMany,
    returns=answers.WERE_MANY,
    example=Example(RescheduleMany(ids=["7"], delay="1h"), ["delayed"], PATH),
)
MANY: dict[verbs.ByIdVerb[...], Endpoint[list[State | None]]] = {
    verbs.DELETE: DELETE_MANY,
    verbs.CANCEL: DELETE_MANY,
    verbs.KICK: KICK_MANY,
    verbs.RESCHEDULE: RESCHEDULE_MANY,
}
"""The endpoint of each verb. The options of the verb are fields of its body."""
