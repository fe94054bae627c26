"""Adding jobs over HTTP. The nonce of a job is made of the ``Idempotency-Key``, so a repeated request adds nothing while the
job exists. Once the job was finished or deleted its nonce is gone, and the request adds it again.

key, no id      the id is made of the key: the same key finds the same job
key and id      the id is the caller's; the nonce distinguishes a repeated request from another caller's job
many            each job's nonce and id are made of the key and the job's position in the request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tarry.clients.handle_verbs import server_verbs
from tarry.clients.http.wire import bodies, models
from tarry.clients.http.wire.job_options import given_options
from tarry.errors import BadInput
from tarry.programs.service.idempotency import KeyedIds
from tarry.verbs.jobs.models import Added
from tarry.verbs.jobs.options import JobOptions, NewJob

if TYPE_CHECKING:
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.core.requests import Flow, ScriptCall


def add_operation(
    topic: AsyncTopic[bodies.Body],
    body: bodies.Body,
    given: models.Add | models.AddQuery,
    headers: Any,
    ids: KeyedIds | None,
) -> ScriptCall[Added] | Flow[Added]:
    """The operation that adds a job. Raises ``BadInput``."""
    verbs, id = server_verbs(topic), given.id
    if ids is not None:
        verbs, id = verbs.on_behalf_of(ids=ids), id if id is not None else ids.id(0)
    return verbs.add(body, JobOptions(**{**given_options(given), "headers": headers}), id)


def add_many_flow(
    topic: AsyncTopic[bodies.Body], payload: models.AddMany, ids: KeyedIds | None
) -> ScriptCall[list[Added]] | Flow[list[Added]]:
    """The flow that adds many. Raises ``BadInput``."""
    verbs = server_verbs(topic) if ids is None else server_verbs(topic).on_behalf_of(ids=ids)
    jobs = [_new_job(job, ids, index) for index, job in enumerate(payload.jobs)]
    return verbs.add_many(jobs, JobOptions(**given_options(payload)), atomic=payload.atomic)


def _new_job(job: models.OneOfMany, ids: KeyedIds | None, index: int) -> Any:
    try:
        body = bodies.body_of(job.body, job.body_base64, job.coded)
    except BadInput as fault:
        raise BadInput(f"job {index}: {fault}") from None
    own, id = given_options(job), job.id
    if ids is not None and id is None:
        id = ids.id(index)
    return body if id is None and not own else NewJob(body, id=id, **own)
