"""Adding over HTTP: an ``Idempotency-Key`` is the nonce of what it adds, so that a repeated request adds nothing while the
job is there. Once it was finished or deleted, nothing is known of its nonce, and the request adds it anew.

key, no id      the id is made of the key: the same key finds the same job
key and id      the id is the caller's; the nonce tells a repetition from somebody else's job
many            each job's nonce and id are made of the key and its place in the request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tarry.clients.http.wire import bodies, models
from tarry.errors import BadInput
from tarry.programs.service.keyed import KeyedIds
from tarry.verbs.jobs import options
from tarry.verbs.jobs.models import Added, NewJob

if TYPE_CHECKING:
    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.core.requests import Flow, ScriptCall


def add_one(
    topic: AsyncTopic[bodies.Body],
    body: bodies.Body,
    said: models.Add | models.AddQuery,
    headers: Any,
    keyed: KeyedIds | None,
) -> ScriptCall[Added] | Flow[Added]:
    """What adds a job. Raises ``BadInput``."""
    verbs, id = topic.verbs, said.id
    if keyed is not None:
        verbs, id = verbs.on_behalf_of(ids=keyed), id if id is not None else keyed.id(0)
    return verbs.with_durability(verbs.add_with(body, _options(said, said.if_exists, headers), id), said.durability)


def add_many(
    topic: AsyncTopic[bodies.Body], said: models.AddMany, keyed: KeyedIds | None
) -> ScriptCall[list[Added]] | Flow[list[Added]]:
    """The flow that adds many. Raises ``BadInput``."""
    verbs = topic.verbs if keyed is None else topic.verbs.on_behalf_of(ids=keyed)
    jobs = [_new_job(job, keyed, index) for index, job in enumerate(said.jobs)]
    opts = _options(said, said.if_exists, said.headers)
    return verbs.with_durability(verbs.add_many_with(jobs, opts, atomic=said.atomic), said.durability)


def _new_job(job: models.OneOfMany, keyed: KeyedIds | None, index: int) -> Any:
    try:
        body = bodies.body_of(job.body, job.body_base64, job.coded)
    except BadInput as fault:
        raise BadInput(f"job {index}: {fault}") from None
    if keyed is None and job == _bare(job):
        return body
    return NewJob(
        body,
        delay=job.delay,
        at=job.at,
        id=job.id if job.id is not None or keyed is None else keyed.id(index),
        ttr=job.ttr,
        max_attempts=_attempts(job),
        headers=job.headers,
        max_lateness=job.max_lateness,
    )


def _bare(job: models.OneOfMany) -> models.OneOfMany:
    """The same body without any option."""
    return models.OneOfMany(body=job.body, body_base64=job.body_base64, coded=job.coded)


def _options(said: Any, if_exists: Any, headers: Any) -> options.JobOptions:
    delay = 0 if said.delay is None and said.at is None else said.delay
    return options.job_options(delay, said.at, if_exists, said.ttr, _attempts(said), headers, said.max_lateness)


def _attempts(said: Any) -> int | None:
    found: int | None = options.TOPIC_DEFAULT if said.max_attempts is UNSET else said.max_attempts
    return found
