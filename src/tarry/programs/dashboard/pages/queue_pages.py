"""The pages of delayed queues that are shared with Java: due times, elements to be taken, elements set aside.

Neither tarry nor Redisson keeps a list of them: they are found by SCAN, a few steps with each view, and remembered. One
that is not found yet can be entered by name.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from tarry import Histogram
from tarry.errors import BadInput
from tarry.internal import Command, as_datetime, duration_us, moment_us, perform, server_verbs
from tarry.programs.dashboard import filters
from tarry.programs.dashboard.charts import timeline
from tarry.programs.dashboard.charts.timeline import TimeLine
from tarry.programs.dashboard.forms import ActionPlan, Form
from tarry.programs.dashboard.key_scanner import QUEUES
from tarry.programs.dashboard.page_request import NotFound, PageRequest
from tarry.programs.dashboard.pages.job_page import MOST_BYTES, dump
from tarry.programs.dashboard.sections import Action, Section
from tarry.programs.serving.conditions import assess_queue, severity
from tarry.redisson import AsyncDelayedQueue, PoisonElement
from tarry.types import Duration

SHOWN, PREVIEW = 50, 160
US_PER_MS = 1000
POISON_SHOWN = 1000


@dataclass(frozen=True, slots=True)
class QueueView:
    """The state of a queue. ``late``: how long the first due element has not been moved."""

    name: str
    delayed: int
    ready: int
    poison: int
    movers: int
    next_due: timedelta | None
    late: timedelta | None


class QueueHistogram:
    """The histogram of a queue's due times, as a topic has it."""

    def __init__(self, visit: PageRequest, queue: AsyncDelayedQueue[Any], now: datetime) -> None:
        self._client, self._keys, self._now = visit.client, server_verbs(queue).keys, now

    async def histogram(
        self, *, start: Duration | datetime = 0, span: Duration = 3600, buckets: int = 60, past: Duration = 0
    ) -> Histogram:
        now = moment_us(self._now)
        first = moment_us(start) if isinstance(start, datetime) else now + duration_us(start) - duration_us(past)
        width = duration_us(span) // buckets
        edges = [b"%d" % ((first + i * width) // US_PER_MS) for i in range(buckets + 1)]
        pairs = [
            (b"-inf", b"(" + edges[0]),
            *zip(edges, [b"(" + edge for edge in edges[1:]], strict=False),
            (edges[-1], b"+inf"),
        ]
        requests = [perform(self._client, Command((b"ZCOUNT", self._keys.timeouts, *pair), int)) for pair in pairs]
        before, *counts, after = await asyncio.gather(*requests)
        return Histogram(self._now, as_datetime(first), timedelta(microseconds=width), before, tuple(counts), after)


async def _now(visit: PageRequest) -> datetime:
    """The server's time."""
    info = await perform(visit.client, Command((b"INFO", b"server"), bytes))
    [(_, us)] = re.findall(rb"(server_time_usec):(\d+)", info)
    return as_datetime(int(us))


async def _queue(visit: PageRequest, name: str, now: datetime) -> QueueView:
    visit.require_java()
    keys = server_verbs(visit.client.delayed_queue(name, codec="bytes")).keys
    run = partial(perform, visit.client)
    delayed, ready, poison, movers, first = await asyncio.gather(
        run(Command((b"ZCARD", keys.timeouts), int)),
        run(Command((b"LLEN", keys.ready), int)),
        run(Command((b"HLEN", keys.poison), int)),
        run(Command((b"ZCARD", keys.movers), int)),
        run(Command((b"ZRANGE", keys.timeouts, b"0", b"0", b"WITHSCORES"), list)),
    )
    due = as_datetime(int(float(first[1])) * US_PER_MS) - now if first else None
    late = -due if due is not None and due < timedelta(0) else None
    return QueueView(
        name=name,
        delayed=delayed,
        ready=ready,
        poison=poison,
        movers=movers,
        next_due=due if late is None else None,
        late=late,
    )


async def view(visit: PageRequest) -> dict[str, Any]:
    """The list of known queues."""
    visit.require_java()
    scanner = visit.dashboard.key_scanner
    await scanner.scan_some()
    now = await _now(visit)
    names = scanner.shown(QUEUES)
    found = await asyncio.gather(*[_queue(visit, name, now) for name in names], return_exceptions=True)
    queues = [(queue, assess_queue(queue)) for queue in found if isinstance(queue, QueueView)]
    queues.sort(key=lambda pair: (severity(pair[1]), pair[0].name))
    return {"queues": queues, "known": len(scanner.known(QUEUES)), "scanner": scanner}


async def one(visit: PageRequest) -> dict[str, Any]:
    """One queue: its time line and its next elements."""
    name = visit.query.get("name", "")
    now = await _now(visit)
    handle = visit.client.delayed_queue(name, codec="bytes")
    queue = await _queue(visit, name, now)
    if not (queue.delayed or queue.ready or queue.poison):
        raise NotFound(f"There is no delayed queue named {filters.plain(name)}.")
    line, rows, poison = await asyncio.gather(
        _line(visit, QueueHistogram(visit, handle, now), now),
        perform(visit.client, server_verbs(handle).first_due(SHOWN)),
        handle.poison() if queue.poison <= POISON_SHOWN else _nothing(),
    )
    return {
        "queue": queue,
        "conditions": assess_queue(queue),
        "line": line,
        "windows": timeline.WINDOWS.values(),
        "now": now,
        "elements": [
            (as_datetime(at * US_PER_MS), f"cannot be read: {why}" if why else _text(payload))
            for at, payload, why in rows
        ],
        "poison": [(entry.reason, _text(entry.raw)) for entry in poison[:SHOWN]],
    }


async def _nothing() -> list[PoisonElement]:
    return []


async def _line(visit: PageRequest, due: QueueHistogram, now: datetime) -> TimeLine:
    look = visit.parameter("look")
    return (
        await timeline.window_timeline(due, look, now)
        if look in timeline.WINDOWS
        else await timeline.whole_timeline(due)
    )


def _text(raw: bytes) -> str:
    """UTF-8 as text, anything else as hex: the Java application's codec is not known."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return dump(raw[: min(PREVIEW, MOST_BYTES)])
    return text[:PREVIEW] + ("…" if len(text) > PREVIEW else "")


async def _plan_clear(visit: PageRequest, form: Form) -> ActionPlan:
    name = form.value("name")
    queue = await _queue(visit, name, await _now(visit))
    question = f"Remove all elements of {filters.plain(name)} that are not due yet: {queue.delayed:,}?"
    note = f"They will never be delivered. The {queue.ready:,} ready ones stay."
    if not queue.delayed:
        return ActionPlan("No elements are delayed.", "", nothing_to_do=True)
    return ActionPlan(question, f"Clear {queue.delayed:,}", note, many=True, typed=name)


async def _clear(visit: PageRequest, form: Form) -> str:
    name = form.value("name")
    if not name:
        raise BadInput("name: give the queue's name.")
    await visit.client.delayed_queue(name, codec="bytes").clear()
    return f"All delayed elements of {filters.plain(name)} were removed."


SECTIONS = (
    Section("/queues", "queues.html", view, title="Delayed queues", every_s=3.0, kinds=(QUEUES,)),
    Section("/queue", "queue.html", one),
)
ACTIONS = (Action("clear-queue", "Clear", _plan_clear, _clear, destroys=True),)
