"""Firing schedules that are due: by any consumer, in any number of processes at once, each of which may be killed at any time.

    fire ──▶ schedules, reserved for a second      the client computes      fire ──▶ jobs added, schedules moved on; further ones
                                                                                     reserved

A reserved schedule is due again after that second. So if a process dies between two calls, another one does the same, and if it
was only slow, the second of the two changes nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from tarry.core.requests import MOST_BYTES, Flow, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import SECOND
from tarry.values.keys import FIRING_PARTS, KEY_PARTS, TopicKeys
from tarry.verbs.schedules import recurrences
from tarry.verbs.schedules.records import Missed, moments_of, unpack
from tarry.verbs.schedules.recurrences import Recurrence

FIRE = Script(
    "schedules/fire",
    args=("limit",),
    item=("id", "changed", "before", "next", "after", "skipped", "occurrences"),
    keys=(*FIRING_PARTS, *KEY_PARTS),
)
SCHEDULES, JOBS = 100, 500
"""Limits of one script: the schedules that it reserves, and the jobs that it adds."""
MANY = 1000
"""The number of schedules or jobs after which a consumer looks for jobs before it fires more."""
MOST_MISSED = 1000
"""The maximum number of missed occurrences that get a job."""
ON_TIME_WITHIN_US = 60 * SECOND
"""An occurrence that is later than this was missed."""
RETRY_US = 60 * SECOND
"""A schedule that this process cannot read is left to other processes for this time."""

logger = logging.getLogger("tarry.schedules")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
Row = tuple[bytes, bytes, int]
"""A schedule that is reserved: its id, the plan without the head and body of its jobs, the size of these."""
FireReply = tuple[int, list[int], list[Row]]
"""Now; of each schedule how many jobs were added, or -1, or HELD less those that were added; the schedules that are reserved."""
HELD = -2
"""The answer for a schedule whose topic is full."""
LOG_AGAIN_US = 60 * SECOND
_logged: dict[bytes, int] = {}


def fire_due(keys: TopicKeys) -> Flow[int]:
    """Adds the jobs of occurrences that are due, of many schedules at most. Returns how many this call added."""
    rows = deque[Row]()
    now = added = read = 0
    while True:
        items = _next_items(rows, now)
        limit = 0 if rows or max(added, read) >= MANY else SCHEDULES
        now, counts, more = yield from ask(fire(keys, items, limit))
        _log_held([id for id, count in zip(items[:: FIRE.stride], counts, strict=True) if count <= HELD], keys, now)
        added += sum(HELD - count if count <= HELD else max(count, 0) for count in counts)
        read += len(more)
        rows.extend(more)
        if not rows:
            return added


def _log_held(ids: list[bytes], keys: TopicKeys, now: int) -> None:
    """Says that schedules wait, once a minute for each topic."""
    if ids and not 0 <= now - _logged.get(keys.due, -LOG_AGAIN_US) < LOG_AGAIN_US:
        _logged[keys.due] = now
        logger.warning(
            "schedule %s of %s waits, and %d others: the topic is full (max_pending, max_pending_bytes)",
            ids[0].decode("utf-8", "replace"), keys.due.decode("utf-8", "replace").removesuffix(":due"), len(ids) - 1,
        )  # fmt: skip


def fire(keys: TopicKeys, items: list[bytes], limit: int) -> ScriptCall[FireReply]:
    """Adds the jobs of some schedules, and reserves others that are due."""

    def decode(reply: Any) -> FireReply:
        now, counts, rows = reply
        return now, counts, rows

    return ScriptCall(FIRE, FIRE.keys_for(keys), (b"%d" % limit,), decode, items=items, never_merged=True)


def _next_items(rows: deque[Row], now: int) -> list[bytes]:
    """Takes as many rows as one script may handle, and computes its arguments."""
    items: list[bytes] = []
    jobs = size = 0
    while rows:
        id, stored, job_size = rows[0]
        most = min(JOBS, MOST_BYTES // (job_size + 1) or 1)
        item, count = item_of(id, stored, now, most)
        jobs += count
        size += count * job_size
        if items and (jobs > JOBS or size > MOST_BYTES):
            break
        rows.popleft()
        items += item
    return items


def item_of(id: bytes, stored: bytes, now: int, most: int) -> tuple[list[bytes], int]:
    """The arguments of ``fire`` for one schedule, and the number of its jobs, at most ``most``."""
    try:
        plan = unpack(id, stored)
        jobs, *computed = _computed(plan.recurrence, plan.options.missed, plan.after, now, most)
    except BadInput as fault:
        logger.warning("schedule %s is left to other processes for a minute: %s", id.decode("utf-8", "replace"), fault)
        attended, changed = moments_of(stored)
        before = b"%d" % attended
        return [id, b"%d" % changed, before, b"%d" % (now + RETRY_US), before, b"0", b""], 0
    return [id, b"%d" % plan.changed, b"%d" % plan.after, *computed], jobs


@lru_cache(maxsize=64)
def _computed(
    recurrence: Recurrence, missed: Missed, after: int, now: int, most: int
) -> tuple[int, bytes, bytes, bytes, bytes]:
    """How many jobs, and the last arguments of ``fire``. Many schedules have the same calendar: it is computed once for them."""
    due, after, skipped = occurrences(recurrence, missed, after, now, most)
    following = recurrences.next_occurrence(recurrence, after)
    moments = " ".join(f"{moment} {occurrence_stamp(moment)}" for moment in due).encode()
    return len(due), b"" if following is None else b"%d" % following, b"%d" % after, b"%d" % skipped, moments


def occurrences(
    recurrence: Recurrence, missed: Missed, after: int, now: int, at_once: int = JOBS
) -> tuple[list[int], int, int]:
    """The occurrences after a moment that get a job now, the first ``at_once``; the moment up to which all are handled then; the
    number that got none."""
    most = MOST_MISSED if missed == "all" else 1
    due, skipped = recurrences.last_occurrences(recurrence, after, now, most)
    if not due:  # too early, by this machine's time zone data: none is lost, and none fires early
        return [], after, 0
    last = due[-1]
    if missed == "skip" and now - last > ON_TIME_WITHIN_US:
        return [], last, skipped + 1
    due = due[:at_once]
    return due, due[-1], skipped


def occurrence_stamp(moment: int) -> str:
    """An occurrence as part of a job's id: ``2026-03-29T07:00:00Z``."""
    at = _EPOCH + timedelta(microseconds=moment)
    return at.isoformat(timespec="microseconds" if moment % SECOND else "seconds").replace("+00:00", "Z")
