"""Views for operators: how many jobs a filter matches, and whether a job is held."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tarry.core.flows import gather
from tarry.core.requests import Command, Flow, ask
from tarry.values.durations import moment_us
from tarry.values.keys import PRIORITY_PARTS, part_key
from tarry.verbs.jobs.job_values import StateFilter
from tarry.verbs.jobs.partitions import Partitions, PartitionVerbs, on_each, partition_of_id


def due_between(
    verbs: Partitions[Any], now: datetime, state: StateFilter | None, after: datetime | None, before: datetime | None
) -> Flow[int]:
    """The number of jobs that ``list`` would return at ``now`` for a window of due times; they are counted, not read."""
    low = b"%d" % moment_us(after, "due_after") if after is not None else b"-inf"
    high = b"(%d" % moment_us(before, "due_before") if before is not None else b"+inf"
    present = b"%d" % moment_us(now, "now")
    if state in ("delayed", "retrying") and (after is None or after <= now):
        low = b"(" + present
    if state == "ready" and (before is None or before > now):
        high = present

    sets = ("retrying",) if state == "retrying" else ("due", "keyed")

    def count(part: PartitionVerbs[Any]) -> Flow[int]:
        keys = [part_key(part.keys, name) for name in sets]
        return sum((yield from gather(ask(Command((b"ZCOUNT", key, low, high), int)) for key in keys)))

    return verbs.over_partitions(lambda parts: on_each(parts, count, sum))


def ready_of_priority(verbs: Partitions[Any], now: datetime, least: int) -> Flow[int]:
    """The number of jobs with at least this priority, above 0, that are ready at ``now``; without those whose TTR has just ended."""
    present = b"%d" % moment_us(now, "now")

    def count(part: PartitionVerbs[Any]) -> Flow[int]:
        keys = [part_key(part.keys, name) for name in PRIORITY_PARTS[least - 1 :]]
        counts = [Command((b"ZCOUNT", key, b"-inf", present), int) for key in keys]
        return sum((yield from gather(map(ask, counts))))

    return verbs.over_partitions(lambda parts: on_each(parts, count, sum))


def is_held(verbs: Partitions[Any], id: str) -> Flow[bool]:
    """Whether a job is in ``reserved``. Its reservation may be over."""
    raw = id.encode("utf-8", "replace")

    def score(parts: Sequence[PartitionVerbs[Any]]) -> Flow[bool]:
        keys = parts[partition_of_id(raw, len(parts))].keys
        return ask(Command((b"ZSCORE", keys.reserved, raw), lambda reply: reply is not None))

    return verbs.over_partitions(score)
