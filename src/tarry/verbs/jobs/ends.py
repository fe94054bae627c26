"""Reads ends of jobs: one portion of all partitions, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, TypeVar

from tarry.core.flows import gather
from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import NotKept
from tarry.values.durations import MILLISECOND, SECOND, as_datetime
from tarry.values.keys import LISTING_PARTS
from tarry.verbs.jobs.end_values import End, EndsPage, EndState, Position, UnknownEnds
from tarry.verbs.jobs.job_values import JobInfo
from tarry.verbs.jobs.topic_context import TopicContext
from tarry.verbs.jobs.views import job_info

T = TypeVar("T")
ENDS = Script("topic/ends", args=("from", "job", "run", "limit"), keys=LISTING_PARTS, read_only=True)
TOO_LATE = "too late"
"""The reason of a job that died because it was too late; lua/lib/unfit_jobs.lua writes the same."""
_LONGEST_PAUSE_US = SECOND


def read_ends(contexts: Sequence[TopicContext[T]], position: Position, limit: int) -> Flow[EndsPage]:
    """Reads the ends behind a position, as far as each partition knows them for certain: the others come later. Raises
    ``NotKept`` if the topic does not keep finished jobs."""
    args = (
        b"" if position.at is None else b"%d" % position.at, position.job, b"%d" % position.run, b"%d" % limit,
    )  # fmt: skip
    calls: list[ScriptCall[Reply]] = [ScriptCall(ENDS, ENDS.keys_for(context.keys), args, list) for context in contexts]
    replies = yield from gather(map(ask, calls))
    if any(len(reply) == 1 for reply in replies):
        name = contexts[0].name
        raise NotKept(
            f"{name} keeps no finished jobs, so nobody knows how its jobs end. Keep them for as long as a reader may be away: "
            f'topic.configure(keep_finished="1d"), or tarry configure {quote(name)} --keep-finished 1d.',
            topic=name,
        )
    known_to = min(Position(*reply[1:4]) for reply in replies)
    found: list[tuple[Position, Any]] = []
    for context, reply in zip(contexts, replies, strict=True):
        for moment, receipt, *row in reply[7:]:
            info = job_info(context, row) if row[3] else None
            found.append((Position(moment, row[0], receipt), info))
    found.sort(key=lambda one: one[0])
    certain = [one for one in found if one[0] <= known_to]
    more = any(reply[4] for reply in replies)
    if len(certain) > limit:
        certain, more = certain[:limit], True
        known_to = certain[-1][0]
    again = 0.0 if more else None
    if more and position.at is not None and known_to <= position:  # the clock of a server was set back
        again = _LONGEST_PAUSE_US / SECOND
    if not more and len(found) > len(certain):  # the clock of another partition's server is behind
        wait_us = (found[len(certain)][0].at or 0) - (known_to.at or 0)
        again = min(max(wait_us, MILLISECOND), _LONGEST_PAUSE_US) / SECOND
    return EndsPage([*_unknown(replies), *map(_end_of, certain)], known_to, again)


def _unknown(replies: Sequence[Reply]) -> list[UnknownEnds]:
    """One for all partitions."""
    spans = [(since, until) for _, _, _, _, _, since, until, *_ in replies if until]
    if not spans:
        return []
    return [UnknownEnds(as_datetime(min(since for since, _ in spans)), as_datetime(max(until for _, until in spans)))]


def _end_of(one: tuple[Position, JobInfo[Any] | None]) -> End[Any] | UnknownEnds:
    position, info = one
    at = as_datetime(position.at or 0)
    if info is None:  # damaged, or of a newer version
        return UnknownEnds(at, at)
    state: EndState = "finished" if info.state == "finished" else "late" if info.reason == TOO_LATE else "dead"
    return End(str(position), state, at, info)
