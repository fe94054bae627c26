"""Views of a topic, which change nothing: ``get_jobs``, ``list_jobs``, ``topic_stats``, ``due_histogram``, ``check_topic``."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tarry.core.flows import gather
from tarry.core.requests import Command, Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput, BodyError
from tarry.values import names
from tarry.values.durations import LAST_MOMENT_US, SECOND, Duration, as_datetime, as_timedelta, duration_us, moment_us
from tarry.values.keys import (
    COUNTING_PARTS,
    GETTING_PARTS,
    KEY_PARTS,
    LISTING_PARTS,
    MOVING_PARTS,
    TOPIC_PARTS,
    TopicKeys,
    keys_of_parts,
    part_key,
)
from tarry.verbs.jobs import records
from tarry.verbs.jobs.holders import parse_receipt
from tarry.verbs.jobs.job_fields import FinishedRecord
from tarry.verbs.jobs.job_values import JobInfo, JobPage, JobState, Range, StateFilter, ranges_of
from tarry.verbs.jobs.stats import CheckReport, DueSoon, Histogram, Lateness, LimitReason, LimitStatus, Stats
from tarry.verbs.jobs.topic_context import Share, TopicContext

if TYPE_CHECKING:
    from tarry.verbs.jobs.dead_groups import JobSearch

T = TypeVar("T")

GET = Script("topic/get", args=("history",), item=("id",), keys=(*GETTING_PARTS, *KEY_PARTS), read_only=True)
LIST = Script(
    "topic/list",
    args=("place", "side", "from", "to", "past", "limit"),
    keys=(*LISTING_PARTS, *KEY_PARTS),
    read_only=True,
)
STATS = Script("topic/stats", args=("lately",), keys=(*COUNTING_PARTS, *KEY_PARTS), read_only=True)
HISTOGRAM = Script(
    "topic/histogram", args=("from", "width", "buckets"), keys=(*TOPIC_PARTS, *KEY_PARTS), read_only=True
)
DUE_SOON = Script("topic/due_soon", args=("horizon", "limit"), keys=(*TOPIC_PARTS, *KEY_PARTS), read_only=True)
CHECK = Script("topic/check", args=("part", "cursor", "limit"), keys=(*TOPIC_PARTS, *KEY_PARTS))
COUNT_BYTES = Script("topic/count_bytes", args=("begins", "limit"), keys=(*TOPIC_PARTS, *KEY_PARTS))
_STEP = 100
LATELY_US = 10 * 60 * SECOND
"""Dead jobs that died within this time died lately."""
MOST_SEARCHED = 1000
"""A page of a search reads at most this many jobs, however few match."""
NO_PLACE_FAULT, NO_HEADERS = b"in no place", b"headers that cannot be read"


def get_jobs(context: TopicContext[T], ids: Sequence[str], *, history: bool) -> ScriptCall[list[JobInfo[T] | None]]:
    """Reads jobs as they are now. ``history``: a finished one, if it is kept and no other job has the id."""

    def decode(reply: Reply) -> list[JobInfo[T] | None]:
        return [job_info(context, raw) if raw is not None else None for raw in reply[1:]]

    return ScriptCall(
        GET,
        GET.keys_for(context.keys),
        (b"1" if history else b"0",),
        decode,
        items=[names.check_name(id, "id") for id in ids],
        reply_header=1,
    )


def job_info(context: TopicContext[T], raw: list[Any]) -> JobInfo[T] | None:
    """``None`` for a finished job whose record is a newer version's."""
    id, state, since, value, run, failed = raw
    history: FinishedRecord | None = None
    if state == b"finished":
        if (record := records.unpack_history(value)) is None:
            return None
        history, run, failed, value = record
    return JobInfo(
        context.name,
        context.codec,
        id.decode("utf-8", "replace"),
        cast("JobState", state.decode()),
        since,
        value,
        records.unpack_run(run),
        failed or b"",
        history=history,
    )


def list_jobs(
    contexts: Sequence[TopicContext[T]],
    state: StateFilter | None = None,
    *,
    due_after: datetime | None = None,
    due_before: datetime | None = None,
    limit: int = 100,
    cursor: str | None = None,
    search: JobSearch | None = None,
    reads: int = MOST_SEARCHED,
) -> Flow[JobPage[T]]:
    """Reads one page of jobs, in the order of their moments: due, end of TTR, death. All partitions are one list.

    With a search it returns those that match of the next ``reads`` jobs, at most ``limit``.
    """
    places, after, before, (index, since, past) = page_args(state, due_after, due_before, limit, cursor)
    found: list[JobInfo[T]] = []
    scanned = 0
    while True:
        args = (*places[index], since or after, before, past)
        rows, more = yield from _read_rows(contexts, args, reads - scanned if search else limit - len(found))
        for context, row in rows:
            scanned += 1
            info = job_info(context, row) if row[1] is not None and row[3] else None
            if info is not None and (search is None or search.matches(info)):
                found.append(info)
                if search and len(found) == limit:
                    return JobPage(tuple(found), _write_cursor(index, *_position(row)), scanned)
        if more and rows:
            return JobPage(tuple(found), _write_cursor(index, *_position(rows[-1][1])), scanned)
        index, since, past = index + 1, b"", b""
        if index == len(places):
            return JobPage(tuple(found), None, scanned)
        if scanned >= reads if search else len(found) >= limit:
            return JobPage(tuple(found), _write_cursor(index, None, b""), scanned)


def page_args(
    state: StateFilter | None, due_after: datetime | None, due_before: datetime | None, limit: int, cursor: str | None
) -> tuple[list[Range], bytes, bytes, tuple[int, bytes, bytes]]:
    """The ranges of a page, its bounds, and where it begins. Raises ``BadInput``."""
    if not isinstance(limit, int) or not 1 <= limit <= 1000:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to 1000.")
    places = ranges_of(state)
    after, before = b"", b""
    if due_after is not None or due_before is not None:
        if state in ("reserved", "dead", "finished"):
            raise BadInput("due_after, due_before: reserved, dead and finished jobs are not due.")
        places = [place for place in places if place[0] in (b"due", b"retrying")]
        after = b"%d" % moment_us(due_after, "due_after") if due_after is not None else b""
        before = b"%d" % (moment_us(due_before, "due_before") - 1) if due_before is not None else b""
    return places, after, before, _read_cursor(cursor, len(places))


def _read_rows(
    contexts: Sequence[TopicContext[T]], args: tuple[bytes, ...], limit: int
) -> Flow[tuple[list[tuple[TopicContext[T], list[Any]]], bool]]:
    """The next rows of one range, in order, and whether there are more. If a partition returns only a part (its bodies are
    large), the rows of others beyond its last one come with the next page."""
    rows: list[tuple[TopicContext[T], list[Any]]] = []
    ends: list[tuple[int, bytes]] = []
    calls = [ScriptCall(LIST, LIST.keys_for(context.keys), (*args, b"%d" % limit), list) for context in contexts]
    found = yield from gather(map(ask, calls))
    for context, (_, more, *some) in zip(contexts, found, strict=True):
        rows += [(context, row) for row in some]
        if more and some:
            ends.append(_position(some[-1]))
    if len(contexts) > 1:
        rows.sort(key=lambda row: _position(row[1]))
        rows = [row for row in rows if not ends or _position(row[1]) <= min(ends)]
    return rows[:limit], bool(ends) or len(rows) > limit


def _position(row: list[Any]) -> tuple[int, bytes]:
    return row[2], row[0]


def cursor_after(due: datetime, id: str) -> str:
    """The cursor of a page of delayed jobs that begins behind this one, whether it is there or not."""
    return _write_cursor(0, moment_us(due, "due"), id.encode())


def _write_cursor(index: int, at: int | None, id: bytes) -> str:
    return urlsafe_b64encode(json.dumps([index, at, id.decode()]).encode()).decode()


def _read_cursor(cursor: str | None, places: int) -> tuple[int, bytes, bytes]:
    if cursor is None:
        return 0, b"", b""
    try:
        index, at, id = json.loads(urlsafe_b64decode(cursor))
        if 0 <= index < places:
            return index, b"" if at is None else b"%d" % at, id.encode()
    except (ValueError, TypeError, AttributeError):
        pass
    raise BadInput("cursor: it is not one that list returned for this state.")


def topic_stats(context: TopicContext[T]) -> ScriptCall[Stats]:
    """Reads the numbers of a topic."""

    def decode(reply: Reply) -> Stats:
        now, delayed, ready, reserved, dead, next_due, oldest, seats, jobs, why, until, flat, retrying, kept, *more = (
            reply
        )
        died_lately, last_died, expired, leaving, *soon = more
        placed = delayed + ready + reserved + dead
        meta = dict(zip(flat[::2], flat[1::2], strict=True))
        last_receipt = parse_receipt(meta.get(b"last"))
        paused = int(float(meta.get(b"paused", 0)))
        popped, lateness = _popped_and_lateness(meta)
        counters = {name: int(meta.get(b"n:" + name.encode(), 0)) for name in _COUNTERS}
        return Stats(
            topic=context.name,
            now=as_datetime(now),
            delayed=delayed,
            ready=ready,
            reserved=reserved,
            dead=dead,
            retrying=retrying,
            finished_kept=kept,
            next_due=_moment_of(next_due),
            oldest_ready=_moment_of(oldest),
            paused_until=as_datetime(paused) if paused > now else None,
            limited=_limit_of(why, until),
            watching=seats,
            added=jobs + sum(counters[name] for name in _REMOVAL_COUNTERS),
            lateness=lateness,
            popped=popped,
            **counters,
            died_lately=died_lately,
            last_died=_moment_of(last_died),
            last_popped=as_datetime(min(last_receipt, now)) if last_receipt else None,
            expired=expired,
            damaged=abs(jobs - placed - max(leaving - 1, 0)),
            due_in_1m=soon[0],
            due_in_5m=soon[1],
            due_in_15m=soon[2],
            held_back=soon[3],
            can_go_since=_moment_of(soon[4]),
            full=_is_full(meta, delayed + ready - expired),
            pending_bytes=_pending_bytes(meta.get(b"bytes")),
            max_pending=_limit_set(meta, b"max_pending"),
            max_pending_bytes=_limit_set(meta, b"max_pending_bytes"),
        )

    return ScriptCall(STATS, STATS.keys_for(context.keys), (b"%d" % LATELY_US,), decode)


_COUNTERS = "finished released timed_out died too_late kicked deleted replaced refused repeated lost swept finished_lost not_added held".split()
_REMOVAL_COUNTERS = ("finished", "deleted", "replaced", "lost", "swept")


def _pending_bytes(stored: bytes | None) -> int | None:
    """lua/lib/bytes.lua; ``None`` if they are not counted, or not all of them are yet."""
    total = re.match(rb"-?\d+", stored or b"")
    return max(int(total[0]), 0) if total else None


def _limit_set(meta: dict[bytes, bytes], name: bytes) -> int | None:
    """The limit of the whole topic, as it was set: lua/topic/configure.lua."""
    value = meta.get(b"all:" + name, meta.get(name))
    return None if value is None else int(value)


def _is_full(meta: dict[bytes, bytes], waiting: int) -> bool:
    """Whether one more job, of one byte, would be refused: lua/lib/bounds.lua."""
    most, most_bytes, _ = map(int, meta.get(b"bounds", b"0 0 0").split())
    known = _pending_bytes(meta.get(b"bytes")) or 0
    return bool((most and waiting >= most) or (most_bytes and known >= most_bytes))


def _moment_of(score: bytes | None) -> datetime | None:
    return as_datetime(int(float(score))) if score is not None else None


def _limit_of(why: bytes | None, until: int) -> LimitStatus | None:
    if why is None:
        return None
    return LimitStatus(
        cast("LimitReason", why.decode()), as_datetime(until) if until < LAST_MOMENT_US - SECOND else None
    )


def _popped_and_lateness(meta: dict[bytes, bytes]) -> tuple[int, Lateness]:
    """Of two numbers the larger is shown: see lua/lib/put_backs.lua."""
    counts = _numbered(meta, b"late:")
    most = _numbered(meta, b"most:")
    return max(sum(counts.values()) + int(meta.get(b"noted", 0)), int(meta.get(b"most", 0))), Lateness.of(
        {bucket: max(n, most.get(bucket, 0)) for bucket, n in counts.items()}
    )


def _numbered(meta: dict[bytes, bytes], prefix: bytes) -> dict[int, int]:
    return {int(field[5:]): int(n) for field, n in meta.items() if field.startswith(prefix)}


def due_histogram(
    context: TopicContext[T],
    *,
    start: Duration | datetime,
    span: Duration,
    buckets: int,
    past: Duration,
) -> ScriptCall[Histogram]:
    """Counts jobs by their due times, from ``past`` before now, ``start`` after it, or a moment, over ``span``."""
    first, arg, width = histogram_args(start, span, buckets, past)

    def decode(reply: Reply) -> Histogram:
        now, before, *counts, after = reply
        begin = first if arg[:1] == b"@" else now + first
        return Histogram(as_datetime(now), as_datetime(begin), as_timedelta(width), before, tuple(counts), after)

    return ScriptCall(HISTOGRAM, HISTOGRAM.keys_for(context.keys), (arg, b"%d" % width, b"%d" % buckets), decode)


def due_soon(context: TopicContext[T], horizon_us: int, limit: int, share: Share) -> ScriptCall[DueSoon[T]]:
    """Reads what is due within a time, at most ``limit`` jobs, and what may hold it back."""

    def decode(reply: Reply) -> DueSoon[T]:
        now, paused, limited, spent, reserved, expired, within, *rows = reply
        numbers = [int(part) for part in limited.split()] if limited else [0] * 5
        since, used = map(int, (spent or b"0 0").split())
        found = [job_info(context, row) for row in rows if row[3]]
        return DueSoon(
            now_us=now,
            paused_us=paused,
            rate=(numbers[0], numbers[1], numbers[2]),
            spent=(since, used),
            concurrency=numbers[3],
            max_lateness_us=numbers[4],
            reserved=reserved,
            expired=expired,
            within=within,
            jobs=tuple(job for job in found if job is not None),
            share=share,
        )

    return ScriptCall(DUE_SOON, DUE_SOON.keys_for(context.keys), (b"%d" % horizon_us, b"%d" % limit), decode)


def count_dead(keys: TopicKeys) -> Command[int]:
    """The number of dead jobs."""
    return Command((b"ZCARD", keys.dead), int, read_only=True)


def is_known(keys: TopicKeys) -> Command[bool]:
    """Whether anything was ever added to a topic, or configured for it. Only its own keys prove it: the list of topics is a hint.
    A topic that ran empty keeps its counters."""
    proofs = keys_of_parts((*MOVING_PARTS, "leaving"))(keys)
    return Command((b"EXISTS", *proofs), bool, read_only=True)


def histogram_args(start: Duration | datetime, span: Duration, buckets: int, past: Duration) -> tuple[int, bytes, int]:
    """Where a histogram begins, in µs and as the script expects it, and the width of its buckets. Raises ``BadInput``."""
    if not isinstance(buckets, int) or not 1 <= buckets <= 1000:
        raise BadInput(f"buckets: {buckets!r}; it is a whole number from 1 to 1000.")
    width = -(-duration_us(span, "span", minimum=1) // buckets)
    if isinstance(start, datetime):
        first = moment_us(start, "start")
        return first, b"@%d" % first, width
    first = duration_us(start, "start") - duration_us(past, "past")
    return first, b"%d" % first, width


def check_topic(keys: TopicKeys) -> Flow[CheckReport]:
    """Checks a whole topic in bounded steps: every job is in exactly one place, and every record belongs to a job.

    Each job is read once. The places are read only if they have another number of entries than there are jobs.
    """
    looked, faults = 0, list[str]()
    unplaced = beyond = 0
    for part in ("jobs", "runs", "reserved", "twice", "due", "dead", "keyed"):
        if part == "twice" and unplaced + beyond == 0:
            break
        cursor = b"0"
        while True:
            args = (part.encode(), cursor, b"%d" % _STEP)
            cursor, seen, beyond, headers, *found = yield from ask(ScriptCall(CHECK, CHECK.keys_for(keys), args, list))
            looked += seen
            wrong = [*_pairs(found), *((NO_HEADERS, id) for id, packed in _pairs(headers) if not _can_be_read(packed))]
            nowhere = [id for what, id in wrong if what == NO_PLACE_FAULT]
            unplaced += len(nowhere)
            gone = yield from _find_leaving(keys, nowhere)
            faults += [f"{id.decode('utf-8', 'replace')}: {what.decode()}" for what, id in wrong if id not in gone]
            if cursor == b"0":
                break
    faults += yield from count_bytes(keys)
    away = yield from gather(map(ask, count_leaving(keys)))
    return CheckReport(looked, tuple(faults), *away)


def count_bytes(keys: TopicKeys) -> Flow[list[str]]:
    """Counts the bytes of a topic that limits them, from the beginning. Returns the fault if another number was known."""
    begins = b"1"
    while True:
        counted = yield from ask(
            ScriptCall(COUNT_BYTES, COUNT_BYTES.keys_for(keys), (begins, b"%d" % _STEP), lambda reply: reply)
        )
        begins = b"0"
        if counted is None:
            return []
        if counted:
            before, bytes_now = counted
            wrong = before not in (None, bytes_now)
            return [f"the bytes of waiting jobs were {before}, and are {bytes_now}: corrected"] if wrong else []


def _pairs(flat: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    return list(zip(*[iter(flat)] * 2, strict=True))


def _can_be_read(headers: bytes) -> bool:
    try:
        records.unpack_headers(headers)
    except BodyError:
        return False
    return True


def count_leaving(keys: TopicKeys) -> tuple[Command[int], Command[int]]:
    """The numbers of jobs and of schedules that an interrupted move has left between the topics.

    One field of ``leaving`` is the departure itself (lua/lib/departure.lua).
    """
    jobs: Command[int] = Command((b"HLEN", part_key(keys, "leaving")), lambda fields: max(fields - 1, 0))
    return jobs, Command((b"HLEN", part_key(keys, "moving")), int)


def _find_leaving(keys: TopicKeys, ids: Sequence[bytes]) -> Flow[set[bytes]]:
    """Those of some ids that are in ``leaving``."""
    if not ids:
        return set()
    places = yield from ask(Command((b"HMGET", part_key(keys, "leaving"), *ids), list))
    return {id for id, place in zip(ids, places, strict=True) if place is not None}
