"""Adding over HTTP: an ``Idempotency-Key`` is the nonce of what it adds, so that a repeated request adds nothing.

key, no id      the id is made of the key: the same key finds the same job
key and id      the id is the caller's; the nonce tells a repetition from somebody else's job
many            each job's nonce and id are made of the key and its place in the request
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from tarry.clients.http import bodies, models
from tarry.errors import BadInput
from tarry.verbs.jobs import options
from tarry.verbs.jobs.shapes import Added, NewJob
from tarry.words.names import Ids

if TYPE_CHECKING:
    from tarry.clients.aio.topic import AsyncTopic
    from tarry.idea.calls import Call, Flow

LONGEST_KEY = 255


class KeyedIds(Ids):
    """Ids and nonces that follow from a key: the n-th is always the same."""

    def __init__(self, key: bytes) -> None:
        super().__init__(lambda: 0, lambda _: b"")
        self._key = key
        self._nonces = 0

    def id(self, index: int) -> str:
        """The id of the job at a place."""
        return "k" + urlsafe_b64encode(self._digest(b"id", index)[:15]).decode()

    def nonce(self) -> bytes:
        self._nonces += 1
        return self._digest(b"nonce", self._nonces)[:8]

    def many(self, n: int) -> list[bytes]:
        """Not used: every keyed job is given its id."""
        return [b""] * n

    def _digest(self, what: bytes, index: int) -> bytes:
        return sha256(b"%s %d %s" % (what, index, self._key)).digest()


def key_of(header: bytes | None) -> KeyedIds | None:
    """What an ``Idempotency-Key`` stands for. Raises ``BadInput``."""
    if header is None:
        return None
    if not 1 <= len(header) <= LONGEST_KEY:
        raise BadInput(f"Idempotency-Key: it has {len(header)} bytes; 1 to {LONGEST_KEY} are allowed.")
    return KeyedIds(header)


def add_one(
    topic: AsyncTopic[bodies.Body],
    body: bodies.Body,
    said: models.Add | models.AddQuery,
    headers: Any,
    keyed: KeyedIds | None,
) -> Call[Added] | Flow[Added]:
    """What adds a job. Raises ``BadInput``."""
    verbs, id = topic.verbs, said.id
    if keyed is not None:
        verbs, id = verbs.like(ids=keyed), id if id is not None else keyed.id(0)
    return verbs.put(body, _options(said, said.if_exists, headers), id)


def add_many(topic: AsyncTopic[bodies.Body], said: models.AddMany, keyed: KeyedIds | None) -> Flow[list[Added]]:
    """The flow that adds many. Raises ``BadInput``."""
    verbs = topic.verbs if keyed is None else topic.verbs.like(ids=keyed)
    jobs = [_new_job(job, keyed, index) for index, job in enumerate(said.jobs)]
    opts = _options(said, said.if_exists, said.headers)
    return verbs.put_many(jobs, opts, atomic=said.atomic)


def _new_job(job: models.OneOfMany, keyed: KeyedIds | None, index: int) -> Any:
    try:
        body = bodies.given(job.body, job.body_base64, job.coded)
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


def _options(said: Any, if_exists: Any, headers: Any) -> options.Options:
    delay = 0 if said.delay is None and said.at is None else said.delay
    return options.options(delay, said.at, if_exists, said.ttr, _attempts(said), headers, said.max_lateness)


def _attempts(said: Any) -> int | None:
    found: int | None = options.TOPICS_OWN if said.max_attempts is UNSET else said.max_attempts
    return found
