"""Adds a job and replaces any other with its id, in whatever topic, even when others do the same at the same time.

    search   all topics: the new job's turn is one more than the highest turn found
    add      to its topic; replaces exactly the job that was found there, or none. If another add was faster: search again
    search   all topics again: of two jobs the one with the lower (turn, topic) is deleted, by its nonce, and no other

Topics may lie on several servers, so no script sees two of them. These guarantees hold nevertheless:

- If an id is added to several topics at once, by any number of services, exactly one job is left when all have been
  answered: the one with the highest turn. A later add has found the earlier ones and so has a higher turn. Of adds that did
  not find each other, the one in the last topic by name wins.
- The id is never lost. A job is deleted only when one with a higher turn exists. The highest is replaced in its topic only
  by an add that has found it, and so has a higher turn still. No clock is involved.
- Two jobs are left only where a service died in between and did not answer. Both are handed out until the id is added
  again, finished or deleted.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.errors import BodyError, JobExists
from tarry.internal import JSON, IdGenerator, JobOptions, head_of, on_behalf_of, perform, server_verbs
from tarry.programs.dialects import verbs_by_id as by_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarry import Added, AsyncTopic, JobInfo
    from tarry.programs.serving.request import ServiceRequest
    from tarry.wire.bodies import Body

TURN = "turn"
"""The header that stores a job's turn; a job without it, added in another way, has the lowest."""
NONCE_BYTES = 6
ANY_NONCE = b""
"""Deletes the job whatever it is."""
NO_LIMIT = None
"""These systems hand a job out again and again, until it is finished."""


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job with the id, and its topic. One whose record is damaged has no nonce; it is deleted whatever it is."""

    topic: AsyncTopic[Body]
    turn: int
    nonce: bytes

    async def delete(self, id: str) -> None:
        await perform(self.topic, server_verbs(self.topic).delete_exactly(id, self.nonce))

    def is_older(self, other: FoundJob) -> bool:
        return (self.turn, self.topic.name) < (other.turn, other.topic.name)


class _FixedNonce(IdGenerator):
    """Always the same nonce, known in advance."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce

    def nonce(self) -> bytes:
        return self._nonce


async def replace_job(
    request: ServiceRequest, topic: str, id: str, text: Any, *, headers: Mapping[str, str], **payload: Any
) -> Added:
    """Adds a job and replaces any other with this id: one add, and a search of all topics before and after it."""
    nonce, body = os.urandom(NONCE_BYTES), (msgspec.json.encode(text), JSON)
    place = on_behalf_of(request.topic_named(topic), ids=_FixedNonce(nonce))
    own, verbs = FoundJob(place, 0, nonce), server_verbs(place)
    verbs.add(body, JobOptions(headers=headers, **payload), id)  # raises before anything is written
    await perform(place, verbs.partitions(), registers=True)  # so that a search after this add knows the topic
    added, lost = None, False
    while added is None:
        seen = await _find_all(request, id)
        own = replace(own, turn=1 + max((one.turn for one in seen), default=-1))
        kept = {**headers, TURN: str(own.turn)} if own.turn else headers
        chosen = JobOptions(max_attempts=NO_LIMIT, headers=kept or None, **payload).encode()
        here = next((one for one in seen if one.topic.name == topic), None)
        if lost or (here is not None and here.nonce == ANY_NONCE):
            chosen = chosen._replace(mark=b"r")
        elif here is not None:
            chosen = chosen.replacing_nonce(here.nonce)
        try:
            added = await perform(place, verbs.add_with(body, chosen, id))
        except JobExists as fault:
            lost = fault.state == "lost"  # a damaged record, in no state where a search would find it
    others = [one for one in await _find_all(request, id) if one.topic.name != topic]
    obsolete = [one for one in others if one.is_older(own)]
    if len(obsolete) < len(others):
        obsolete.append(own)
    await asyncio.gather(*[one.delete(id) for one in obsolete])
    return added


async def _find_all(request: ServiceRequest, id: str) -> list[FoundJob]:
    """The jobs with the id, in all topics, in one pipeline."""
    return [_found_job(topic, job) for topic, job in await by_id.find_everywhere(request, id)]


def _found_job(topic: AsyncTopic[Body], job: JobInfo[Body]) -> FoundJob:
    try:
        return FoundJob(topic, by_id.header_number(job, TURN), head_of(job).nonce)
    except BodyError:
        return FoundJob(topic, -1, ANY_NONCE)
