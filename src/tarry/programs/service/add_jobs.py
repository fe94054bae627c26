"""Adding jobs over HTTP. The nonce of a job is made of the ``Idempotency-Key``, so a repeated request adds nothing while the
job exists. Once the job was finished or deleted its nonce is gone, and the request adds it again.

key, no id      the id is made of the key: the same key finds the same job
key and id      the id is the caller's; the nonce distinguishes a repeated request from another caller's job
many            each job's nonce and id are made of the key and the job's position in the request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tarry.clients.http.wire import bodies, models
from tarry.errors import BadInput
from tarry.programs.service.idempotency import KeyedIds
from tarry.verbs.jobs import options
from tarry.verbs.jobs.models import Added, NewJob

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
    verbs, id = topic.verbs, given.id
    if ids is not None:
        verbs, id = verbs.on_behalf_of(ids=ids), id if id is not None else ids.id(0)
    return verbs.with_durability(verbs.add_with(body, _options(given, given.if_exists, headers), id), given.durability)


def add_many_flow(
    topic: AsyncTopic[bodies.Body], payload: models.AddMany, ids: KeyedIds | None
) -> ScriptCall[list[Added]] | Flow[list[Added]]:
    """The flow that adds many. Raises ``BadInput``."""
    verbs = topic.verbs if ids is None else topic.verbs.on_behalf_of(ids=ids)
    jobs = [_new_job(job, ids, index) for index, job in enumerate(payload.jobs)]
    opts = _options(payload, payload.if_exists, payload.headers)
    return verbs.with_durability(verbs.add_many_with(jobs, opts, atomic=payload.atomic), payload.durability)


def _new_job(job: models.OneOfMany, ids: KeyedIds | None, index: int) -> Any:
    try:
        body = bodies.body_of(job.body, job.body_base64, job.coded)
    except BadInput as fault:
        raise BadInput(f"job {index}: {fault}") from None
    if ids is None and job == _body_of(job):
        return body
    return NewJob(
        body,
        delay=job.delay,
        at=job.at,
        id=job.id if job.id is not None or ids is None else ids.id(index),
        ttr=job.ttr,
        max_attempts=_attempts(job),
        headers=job.headers,
        max_lateness=job.max_lateness,
    )


def _body_of(job: models.OneOfMany) -> models.OneOfMany:
    """The same job without any option."""
    return models.OneOfMany(body=job.body, body_base64=job.body_base64, coded=job.coded)


def _options(given: Any, if_exists: Any, headers: Any) -> options.JobOptions:
    delay = 0 if given.delay is None and given.at is None else given.delay
    return options.job_options(delay, given.at, if_exists, given.ttr, _attempts(given), headers, given.max_lateness)


def _attempts(given: Any) -> int | None:
    found: int | None = options.TOPIC_DEFAULT if given.max_attempts is UNSET else given.max_attempts
    return found
