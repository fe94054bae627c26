"""Each verb of a guarded queue with plain commands, for servers without scripts: under a guard, which excludes others.

    WATCH fence   TIME   HGET fence   ZRANGE items        what is due, and has a higher token been seen?
    MULTI  HSET fence token   ZREM each   EXEC            done only if no token came meanwhile

Two things are certain even if the guard fails: an item that EXEC's ZREM did not remove belongs to another caller and is not
returned; and a caller with a lower token than the queue has seen is refused, and removes nothing. Tokens of different guards are not
compared: each guard has its own field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tarry.core.requests import Reply, Transaction
from tarry.errors import LockLost
from tarry.values.durations import SECOND, as_datetime, as_timedelta
from tarry.verbs.guarded.guarded_context import GuardedContext, GuardedStats, PollReply

REPLY_KEPT_S = b"60"
NONCE_BYTES = 8


def push(context: GuardedContext[Any], members: Sequence[tuple[bytes, int]]) -> Transaction[list[int]]:
    keys = context.keys
    scores: list[int] = []

    def decide(replies: list[Reply]) -> list[tuple[bytes, ...]]:
        now = _micros(replies[0])
        scores[:] = [context.score(now, delay, i, len(members)) for i, (_, delay) in enumerate(members)]
        pairs = [arg for (member, _), score in zip(members, scores, strict=True) for arg in (b"%d" % score, member)]
        first = replies[1]
        args: list[tuple[bytes, ...]] = [(b"ZADD", keys.items, *pairs)]
        if not first or min(scores) < float(first[1]):
            args.append((b"PUBLISH", keys.channel, b"1"))
        return args

    begin = ((b"TIME",), (b"ZRANGE", keys.items, b"0", b"0", b"WITHSCORES"))
    return Transaction(keys.items, begin, decide, lambda _: scores)


def poll(context: GuardedContext[Any], limit: int, poller: bytes, domain: bytes, token: int) -> Transaction[PollReply]:
    keys, nonce = context.keys, context.random(NONCE_BYTES)
    begin = (
        (b"WATCH", keys.fence),
        (b"TIME",),
        (b"HMGET", keys.fence, domain),
        (b"HGET", keys.polled, poller),
        (b"ZRANGE", keys.items, b"0", b"%d" % limit, b"WITHSCORES"),
    )
    due: list[tuple[bytes, int]] = []
    seen: dict[str, Any] = {"now": 0, "next": None, "done": False}

    def decide(replies: list[Reply]) -> list[tuple[bytes, ...]]:
        _, time, (highest,), mine, flat = replies
        if mine == nonce:  # the answer to EXEC was lost, but it was done, under the guard
            seen["done"] = True
            return []
        now = seen["now"] = _micros(time)
        if highest is not None and int(highest) > token:
            raise LockLost(
                f"The queue {context.name} has seen the token {int(highest)}, and this one is {token}: another caller holds the "
                f"guard. Nothing was taken.",
                name=context.name,
                token=token,
                reason="another holds it",
            )
        found = [(member, int(float(score))) for member, score in zip(flat[::2], flat[1::2], strict=True)]
        due[:] = [(member, score) for member, score in found[:limit] if score * context.unit <= now]
        seen["next"] = next((score * context.unit for _, score in found[len(due) :]), None)
        if due:
            context.refuse_late(now - due[0][1] * context.unit)
        removals = [(b"ZREM", keys.items, member) for member, _ in due]
        if not removals:
            return []
        return [
            *removals,
            (b"HSET", keys.fence, domain, b"%d" % token),
            (b"HSET", keys.polled, poller, nonce),
            (b"EXPIRE", keys.polled, REPLY_KEPT_S),
        ]

    def decode(answers: list[Reply]) -> PollReply:
        removed = due if seen["done"] else [item for item, gone in zip(due, answers, strict=False) if gone == 1]
        return PollReply(list(removed), seen["now"], seen["next"])

    return Transaction(keys.items, begin, decide, decode)


def give_back(context: GuardedContext[Any], polled: PollReply) -> Transaction[None]:
    """Puts items back with their due times, when they are no longer wanted."""
    args = [arg for member, score in polled.members for arg in (b"%d" % score, member)]
    return Transaction(
        context.keys.items, ((b"TIME",),), lambda _: [(b"ZADD", context.keys.items, *args)], lambda _: None
    )


def stats(context: GuardedContext[Any]) -> Transaction[GuardedStats]:
    """The numbers of the queue. Changes nothing."""
    keys = context.keys
    seen: list[Any] = []

    def decide(replies: list[Reply]) -> list[tuple[bytes, ...]]:
        seen[:] = replies
        last = _micros(replies[0]) // context.unit
        return [(b"ZCOUNT", keys.items, b"-inf", b"%d" % last)]

    def decode(answers: list[Reply]) -> GuardedStats:
        time, size, first = seen
        due = int(float(first[1])) * context.unit if first else None
        late = max(_micros(time) - due, 0) if due is not None else 0
        return GuardedStats(size, answers[0], as_datetime(due) if due is not None else None, as_timedelta(late))

    begin = ((b"TIME",), (b"ZCARD", keys.items), (b"ZRANGE", keys.items, b"0", b"0", b"WITHSCORES"))
    return Transaction(keys.items, begin, decide, decode)


def clear(context: GuardedContext[Any]) -> Transaction[bool]:
    def decide(_: list[Reply]) -> list[tuple[bytes, ...]]:
        return [(b"DEL", context.keys.items)]

    return Transaction(context.keys.items, ((b"EXISTS", context.keys.items),), decide, lambda answers: answers[0] > 0)


def _micros(time: Reply) -> int:
    return int(time[0]) * SECOND + int(time[1])
