"""Views over many jobs, for operators: how many jobs a filter matches, and why dead jobs are dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tarry.core.flows import gather
from tarry.core.requests import Command, Flow, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import as_datetime, moment_us
from tarry.values.keys import TopicKeys, priority_keys, retrying_keys
from tarry.verbs.jobs.models import StateFilter
from tarry.verbs.jobs.partition import PartitionVerbs
from tarry.verbs.jobs.partitions import on_each, partition_of_id
from tarry.verbs.jobs.topic import TopicVerbs

CAUSES = Script("topic/causes", args=("from", "limit"), read_only=True)
MOST, _STEP = 1000, 100


@dataclass(frozen=True, slots=True)
class Cause:
    """Dead jobs with the same reason and the same last line of their error; ``id`` is the one that died last."""

    reason: str
    error: str
    count: int
    id: str
    last: datetime
    first: datetime


@dataclass(frozen=True, slots=True)
class Causes:
    """Why jobs are dead, of the ``looked_at`` jobs that died last; the largest groups first."""

    dead: int
    looked_at: int
    groups: tuple[Cause, ...]


def causes(verbs: TopicVerbs[Any], limit: int = MOST) -> Flow[Causes]:
    """Groups the dead jobs by reason and error; those that died last, at most a thousand of each partition; in bounded steps."""
    if not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to {MOST}.")
    return verbs.over_partitions(lambda parts: on_each(parts, lambda part: _causes(part.keys, limit), _merge_groups))


def _merge_groups(found: list[Causes]) -> Causes:
    groups: dict[tuple[str, str], Cause] = {}
    for group in (group for part in found for group in part.groups):
        known = groups.get((group.reason, group.error), group)
        newest = max(known, group, key=lambda one: one.last)
        count = group.count if known is group else known.count + group.count
        groups[group.reason, group.error] = replace(newest, count=count, first=min(known.first, group.first))
    return Causes(sum(one.dead for one in found), sum(one.looked_at for one in found), _largest_first(groups))


def _largest_first(groups: Mapping[tuple[str, str], Cause]) -> tuple[Cause, ...]:
    return tuple(sorted(groups.values(), key=lambda cause: -cause.count))


def _causes(keys: TopicKeys, limit: int) -> Flow[Causes]:
    dead = looked = 0
    groups: dict[tuple[str, str], Cause] = {}
    while looked < limit:
        step = min(_STEP, limit - looked)
        dead, seen, *rows = yield from ask(ScriptCall(CAUSES, keys, (b"%d" % looked, b"%d" % step), list))
        looked += seen
        for row in rows:
            more = _cause(*row)
            known = groups.get((more.reason, more.error))
            groups[more.reason, more.error] = (
                replace(known, count=known.count + more.count, first=more.first) if known else more
            )
        if seen < step:
            break
    return Causes(dead, looked, _largest_first(groups))


def _cause(reason: bytes, error: bytes, count: int, id: bytes, last: int, first: int) -> Cause:
    return Cause(_text(reason), _text(error), count, _text(id), as_datetime(last), as_datetime(first))


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace").strip()


def due_between(
    verbs: TopicVerbs[Any], now: datetime, state: StateFilter | None, after: datetime | None, before: datetime | None
) -> Flow[int]:
    """The number of jobs that ``list`` would return at ``now`` for a window of due times; they are counted, not read."""
    low = b"%d" % moment_us(after, "due_after") if after is not None else b"-inf"
    high = b"(%d" % moment_us(before, "due_before") if before is not None else b"+inf"
    present = b"%d" % moment_us(now, "now")
    if state in ("delayed", "retrying") and (after is None or after <= now):
        low = b"(" + present
    if state == "ready" and (before is None or before > now):
        high = present

    def key_of(part: PartitionVerbs[Any]) -> bytes:
        return retrying_keys(part.keys)[-2] if state == "retrying" else part.keys.due

    return verbs.over_partitions(
        lambda parts: on_each(parts, lambda part: Command((b"ZCOUNT", key_of(part), low, high), int), sum)
    )


def ready_of_priority(verbs: TopicVerbs[Any], now: datetime, least: int) -> Flow[int]:
    """The number of jobs with at least this priority, above 0, that are ready at ``now``; without those whose TTR has just ended."""
    present = b"%d" % moment_us(now, "now")

    def count(part: PartitionVerbs[Any]) -> Flow[int]:
        counts = [Command((b"ZCOUNT", key, b"-inf", present), int) for key in priority_keys(part.keys)[least - 1 :]]
        return sum((yield from gather(map(ask, counts))))

    return verbs.over_partitions(lambda parts: on_each(parts, count, sum))


def is_held(verbs: TopicVerbs[Any], id: str) -> Flow[bool]:
    """Whether a job is in ``reserved``. Its reservation may be over."""
    raw = id.encode("utf-8", "replace")

    def score(parts: Sequence[PartitionVerbs[Any]]) -> Flow[bool]:
        keys = parts[partition_of_id(raw, len(parts))].keys
        return ask(Command((b"ZSCORE", keys.reserved, raw), lambda reply: reply is not None))

    return verbs.over_partitions(score)
