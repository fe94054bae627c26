"""Verbs by key: what its jobs do, the keys with the most jobs, and deleting those of a key. Each walks the index of keys
(lua/lib/by_key.lua), in steps; none scans the topic."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar, cast

from tarry.core.requests import Flow, Reply, ScriptCall, ask
from tarry.core.scripts import Script
from tarry.errors import BadInput
from tarry.values import rates
from tarry.values.durations import as_datetime
from tarry.values.keys import KEY_PARTS, RETRYING_PARTS, TOPIC_PARTS, TopicKeys
from tarry.verbs.jobs.job_values import StateFilter, ranges_of
from tarry.verbs.jobs.options import key_of
from tarry.verbs.jobs.stats import KeyStats, LimitReason, LimitStatus
from tarry.verbs.jobs.topic_context import TopicContext

T = TypeVar("T")
KEY_STATS = Script("topic/key_stats", item=("key",), keys=(*TOPIC_PARTS, *KEY_PARTS), read_only=True)
BUSIEST_KEYS = Script(
    "topic/busiest_keys", args=("after", "step", "limit"), keys=(*TOPIC_PARTS, *KEY_PARTS), read_only=True
)
PURGE_KEY = Script("topic/purge_key", args=("key", "place", "limit"), keys=(*RETRYING_PARTS, *KEY_PARTS))
_STEP = 100
_PURGED = 500
MOST_LISTED = 100
_PLACES: dict[StateFilter | None, bytes] = {
    None: b"all",
    "delayed": b"delayed",
    "ready": b"ready",
    "reserved": b"reserved",
}


def key_stats(context: TopicContext[T], keys: Sequence[str]) -> ScriptCall[list[KeyStats]]:
    """Reads the numbers of keys."""

    def decode(reply: Reply) -> list[KeyStats]:
        now, places, count, span, *rows = reply
        return [
            KeyStats(
                topic=context.name,
                key=key.decode("utf-8", "replace"),
                now=as_datetime(now),
                delayed=delayed,
                ready=ready,
                reserved=reserved,
                held_back=held_back,
                limited=None if why is None else LimitStatus(cast("LimitReason", why.decode()), _moment(until)),
                next_run=_moment(next_run),
                paused_until=_moment(paused),
                concurrency=places or None,
                rate=rates.as_rate(count, span) if count else None,
            )
            for key, delayed, ready, reserved, held_back, why, until, next_run, paused in rows
        ]

    items = [raw_key(key) for key in keys]
    return ScriptCall(KEY_STATS, KEY_STATS.keys_for(context.keys), (), decode, items=items, reply_header=4)


def _moment(us: int | None) -> datetime | None:
    return None if us is None else as_datetime(us)


def raw_key(key: str) -> bytes:
    """Raises ``BadInput``."""
    return (key_of(key) or "").encode()


def busiest_keys(context: TopicContext[T], limit: int) -> Flow[tuple[KeyStats, ...]]:
    """The keys with the most jobs that wait or are reserved, the most first. It looks at 1,000 keys at most."""
    sizes: dict[bytes, int] = {}
    after = step = b""
    while True:
        args = after, step, b"%d" % _STEP
        stride, *flat = yield from ask(ScriptCall(BUSIEST_KEYS, BUSIEST_KEYS.keys_for(context.keys), args, list))
        sizes |= zip(flat[::2], flat[1::2], strict=True)
        if len(flat) < 2 * _STEP:
            break
        after, step = flat[-2], b"%d" % stride
    names = sorted(sizes, key=lambda key: (-sizes[key], key))[:limit]
    if not names:
        return ()
    return tuple((yield from ask(key_stats(context, [name.decode("utf-8", "replace") for name in names]))))


def checked_limit(limit: int) -> int:
    """Raises ``BadInput``."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MOST_LISTED:
        raise BadInput(f"limit: {limit!r}; it is a whole number from 1 to {MOST_LISTED}.")
    return limit


def place_of(state: StateFilter | None) -> bytes:
    """Raises ``BadInput`` for a state in which jobs are not found by their key."""
    ranges_of(state)
    if state not in _PLACES:
        raise BadInput(
            f"state: {state!r}; by their key only jobs are found that are delayed, ready or reserved. Leave key= out, or state=; "
            "or list the jobs of this state, and delete those whose key it is."
        )
    return _PLACES[state]


def purge_key(keys: TopicKeys, state: StateFilter | None, key: str) -> Flow[int]:
    """Deletes the jobs of a key, in bounded steps: those that wait and are reserved, or those of a state. Returns their number."""
    args = raw_key(key), place_of(state), b"%d" % _PURGED
    gone, more = 0, True
    while more:
        step, more = yield from ask(ScriptCall(PURGE_KEY, PURGE_KEY.keys_for(keys), args, list))
        gone += step
    return gone
