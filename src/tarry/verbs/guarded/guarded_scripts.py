"""Each verb of a guarded queue as one script, which is atomic: no lock is needed."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from tarry.core.requests import FIRST_TIME, Command, Flow, Reply, ScriptCall, ask_in_turn, split_items
from tarry.core.scripts import Script
from tarry.values.keys import GUARDED_PARTS
from tarry.verbs.guarded.guarded_context import GuardedContext, PollReply

PUSH = Script("guarded/push", args=("unit", "is_replay"), item=("member", "delay"), keys=GUARDED_PARTS)
POLL = Script("guarded/poll", args=("unit", "limit", "bound", "who", "nonce", "is_replay"), keys=GUARDED_PARTS)
NONCE_BYTES = 8


def push(context: GuardedContext[Any], members: list[tuple[bytes, int]]) -> Flow[list[int]]:
    """Adds items; returns their due times in units. One script for each 1,000 items or 1 MB."""

    def call(part: Sequence[tuple[bytes, int]]) -> ScriptCall[list[int]]:
        items = [arg for member, delay in part for arg in (member, b"%d" % delay)]
        return ScriptCall(PUSH, context.keys, (b"%d" % context.unit, FIRST_TIME), list, items=items, never_merged=True)

    return ask_in_turn(map(call, split_items(members, itemgetter(0))))


def poll(context: GuardedContext[Any], limit: int, poller: bytes) -> ScriptCall[PollReply]:
    bound = b"" if context.max_lateness_us is None else b"%d" % context.max_lateness_us
    args = (b"%d" % context.unit, b"%d" % limit, bound, poller, context.random(NONCE_BYTES), FIRST_TIME)

    def decode(reply: Reply) -> PollReply:
        now, next_due, late, *flat = reply
        context.refuse_late(late)
        return _parse_reply(context, now, next_due, flat)

    return ScriptCall(POLL, context.keys, args, decode, undo=lambda polled: give_back(context, polled))


def give_back(context: GuardedContext[Any], polled: PollReply) -> Any:
    """Puts items back with their due times, when they are no longer wanted."""
    if not polled.members:
        return None
    args = [arg for member, score in polled.members for arg in (b"%d" % score, member)]
    return Command((b"ZADD", context.keys.items, *args), int)


def _parse_reply(context: GuardedContext[Any], now: int, next_due: int, flat: list[Any]) -> PollReply:
    members = [(member, int(float(score))) for member, score in zip(flat[::2], flat[1::2], strict=True)]
    return PollReply(members, now, next_due * context.unit if next_due >= 0 else None)
