"""Putting a job in, in the place of any other with its id, in whatever topic, whoever else does the same just now.

    look     in all topics: our turn is one more than the highest that is there
    add      in our topic, in the place of the very job that was seen there, or of none; somebody was faster: look again
    look     in all topics again: of two jobs the one with the lower (turn, topic) is deleted, by its nonce, and no other

Topics may lie on several servers, so no script sees two of them. What holds all the same:

- Of an id that is put into several topics at once, in any number of services, exactly one job is left when all have been
  answered: the one with the highest turn. Who puts later has seen the earlier ones, and so has a higher turn; of those who
  did not see each other it is the last topic's by name.
- Never none. A job goes only when a higher one stands, and the highest stands for all: nothing takes its place in its topic
  without having seen it, and so with a higher turn still. No server's clock is asked.
- Two only where a service died in the middle, its caller without an answer: both are handed out until the id is put in
  anew, finished or deleted.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tarry.errors import BodyError, JobExists
from tarry.programs.service.dialects import by_id
from tarry.values.names import IdGenerator
from tarry.verbs.codecs import JSON
from tarry.verbs.jobs import options
from tarry.verbs.jobs.by_id import ANY_NONCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tarry.clients.awaited.topic import AsyncTopic
    from tarry.clients.http.wire.bodies import Body
    from tarry.programs.service.request import ServiceRequest
    from tarry.verbs.jobs.models import Added, JobInfo

TURN = "turn"
"""The header in which a job keeps its turn; a job without it, perhaps of another origin, has the lowest."""
NONCE_BYTES = 8
NO_LIMIT = None
"""These systems hand a job out again and again, until somebody finishes it."""


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job of the id, where it was found. One that cannot be read has no nonce: it gives way as it is."""

    topic: AsyncTopic[Body]
    turn: int
    nonce: bytes

    async def gives_way(self, id: str) -> None:
        await self.topic.engine.run(self.topic.verbs.delete_exactly(id, self.nonce))

    def is_older(self, other: FoundJob) -> bool:
        return (self.turn, self.topic.name) < (other.turn, other.topic.name)


class _FixedNonce(IdGenerator):
    """The nonce that is known before."""

    def __init__(self, nonce: bytes) -> None:
        self._nonce = nonce

    def nonce(self) -> bytes:
        return self._nonce


async def replace_job(
    x: ServiceRequest, topic: str, id: str, text: Any, *, headers: Mapping[str, str], **payload: Any
) -> Added:
    """Puts a job in, in the place of any other with this id. An add, and a look at all topics before and after it."""
    place, body = x.topic_named(topic), (msgspec.json.encode(text), JSON)
    own = FoundJob(place, 0, os.urandom(NONCE_BYTES))
    verbs = place.verbs.on_behalf_of(ids=_FixedNonce(own.nonce))
    verbs.add_with(body, options.job_options(headers=headers, **payload), id)  # refuses before anything is written
    await place.engine.register_topic(topic)  # whoever looks after our add knows the topic
    added, lost = None, False
    while added is None:
        seen = await _find_all(x, id)
        own = replace(own, turn=1 + max((one.turn for one in seen), default=-1))
        kept = {**headers, TURN: str(own.turn)} if own.turn else headers
        chosen = options.job_options(max_attempts=NO_LIMIT, headers=kept or None, **payload)
        here = next((one for one in seen if one.topic.name == topic), None)
        if lost or (here is not None and here.nonce == ANY_NONCE):
            chosen = chosen._replace(mark=b"r")
        elif here is not None:
            chosen = chosen.replacing_nonce(here.nonce)
        try:
            added = await place.engine.run(verbs.add_with(body, chosen, id))
        except JobExists as fault:
            lost = fault.state == "lost"  # what is left of a job, in no place where a look would find it
    others = [one for one in await _find_all(x, id) if one.topic.name != topic]
    going = [one for one in others if one.is_older(own)]
    if len(going) < len(others):
        going.append(own)
    await asyncio.gather(*[one.gives_way(id) for one in going])
    return added


async def _find_all(x: ServiceRequest, id: str) -> list[FoundJob]:
    """The jobs of the id, in all topics, in one pipeline."""
    return [_found_job(topic, job) for topic, job in await by_id.find_everywhere(x, id)]


def _found_job(topic: AsyncTopic[Body], job: JobInfo[Body]) -> FoundJob:
    try:
        return FoundJob(topic, by_id.header_number(job, TURN), job.head.nonce)
    except BodyError:
        return FoundJob(topic, -1, ANY_NONCE)
