"""Firing schedules that are due: by any consumer, in any number of processes at once, each of which may be killed at any time.

    due ──▶ schedules and times      the client computes      fire ──▶ jobs added, schedules moved on; unless another was first

Nothing is locked between the two calls: if a process dies there, the schedule stays as it was, and the next consumer finds it.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values.durations import SECOND
from tarry.values.keys import FIRING_PARTS, SCHEDULE_PARTS, TopicKeys
from tarry.verbs.schedules import recurrences
from tarry.verbs.schedules.records import Missed, moments_of, unpack
from tarry.verbs.schedules.recurrences import Recurrence

DUE = Script("schedules/due", args=("limit",), keys=SCHEDULE_PARTS)
FIRE = Script(
    "schedules/fire", item=("id", "at", "changed", "next", "after", "skipped", "occurrences"), keys=FIRING_PARTS
)
SCHEDULES, JOBS, JOBS_OF_ONE = 100, 500, 100
"""Limits of one script: schedules, jobs, and jobs of one schedule."""
MOST_MISSED = 1000
"""The maximum number of missed occurrences that get a job."""
ON_TIME_WITHIN_US = 60 * SECOND
"""An occurrence that is later than this was missed."""
RETRY_US = 60 * SECOND
"""A schedule that this process cannot read is left to other processes for this time."""
MOST_ROUNDS = 100

logger = logging.getLogger("tarry.schedules")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def fire_due(keys: TopicKeys) -> Flow[int]:
    """Adds the jobs of all occurrences that are due. Returns how many this call added."""
    places, added = DUE.keys_for(keys), 0
    for _ in range(MOST_ROUNDS):
        now, *due = yield from ask(ScriptCall(DUE, places, (b"%d" % SCHEDULES,), list))
        items: list[bytes] = []
        jobs = 0
        for id, at, stored in due:
            item, count = _item(id, at, stored, now)
            items += item
            jobs += count
            if jobs >= JOBS:
                break
        if not items:
            break
        added += yield from ask(ScriptCall(FIRE, FIRE.keys_for(keys), (), _count_added, items=items))
        if len(due) < SCHEDULES and jobs < JOBS_OF_ONE:
            break  # none was left for another round
    return added


def _count_added(reply: Reply) -> int:
    return sum(count for count in reply if count > 0)


def _item(id: bytes, at: int, stored: bytes, now: int) -> tuple[list[bytes], int]:
    """The arguments of ``fire`` for one schedule, and the number of its jobs."""
    try:
        plan = unpack(id, stored)
        due, after, skipped = occurrences(plan.recurrence, plan.options.missed, plan.after, now)
        following = recurrences.next_occurrence(plan.recurrence, after)
    except BadInput as fault:
        logger.warning("schedule %s is left to other processes for a minute: %s", id.decode("utf-8", "replace"), fault)
        attended, changed = moments_of(stored)
        return [id, b"%d" % at, b"%d" % changed, b"%d" % (now + RETRY_US), b"%d" % attended, b"0", b""], 0
    moments = " ".join(f"{moment} {occurrence_stamp(moment)}" for moment in due).encode()
    next_word = b"" if following is None else b"%d" % following
    return [
        id, b"%d" % at, b"%d" % plan.changed, next_word, b"%d" % after, b"%d" % skipped, moments,
    ], len(due)  # fmt: skip


def occurrences(recurrence: Recurrence, missed: Missed, after: int, now: int) -> tuple[list[int], int, int]:
    """The occurrences after a moment that get a job now; the moment up to which all are handled then; the number that got none."""
    most = MOST_MISSED if missed == "all" else 1
    due, skipped = recurrences.last_occurrences(recurrence, after, now, most)
    if not due:  # too early, by this machine's time zone data: none is lost, and none fires early
        return [], after, 0
    last = due[-1]
    if missed == "skip" and now - last > ON_TIME_WITHIN_US:
        return [], last, skipped + 1
    if len(due) > JOBS_OF_ONE:
        due = due[:JOBS_OF_ONE]
        last = due[-1]
    return due, last, skipped


def occurrence_stamp(moment: int) -> str:
    """An occurrence as part of a job's id: ``2026-03-29T07:00:00Z``."""
    at = _EPOCH + timedelta(microseconds=moment)
    return at.isoformat(timespec="microseconds" if moment % SECOND else "seconds").replace("+00:00", "Z")
