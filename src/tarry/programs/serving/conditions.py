"""The conditions of a topic, worst first, from all that is known of it: what people, alerts and the dashboard are told.

    Stats, live workers, the server  ──▶  assess_topic  ──▶  (Condition(kind, level, sentence, count, since), …)

A condition is ``bad`` when somebody has to act, ``calm`` when it only explains what is seen. The bad ones come first, and of a level they
have the order of ``KINDS``. A topic is ``on_time``, the only ``good`` condition, when it has no other: so nothing green stands over
dead jobs, jobs that wait for a limit, or jobs that nobody takes. Pure functions: the overview, a topic's page, ``tarry top``,
``tarry doctor`` and ``/metrics`` show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol, get_args

if TYPE_CHECKING:
    from tarry import KeyStats, Stats
    from tarry.types import WorkerInfo, WorkerTopic

Kind = Literal[
    "died",
    "unknown_tasks",
    "no_consumer",
    "held_back",
    "full",
    "late",
    "stuck",
    "damaged",
    "unfit_server",
    "slow_server",
    "empty",
    "on_time",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
SERVER_KINDS: tuple[Kind, ...] = ("unfit_server", "slow_server")
"""Conditions that all topics share."""
Level = Literal["bad", "calm", "good"]
LEVELS: tuple[Level, ...] = get_args(Level)
LATE_AFTER = timedelta(seconds=5)
"""A topic is late when a job has been ready for longer."""
MANY_DIED = 10
"""So many jobs that died in ten minutes are bad; fewer, and those that died before, are told calmly."""
CONSUMED_LATELY = timedelta(minutes=1)
"""A topic has a consumer when a job was handed out within this time."""
UNTIL_RESUMED = 9000
"""A pause that ends after this year lasts until it is resumed."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: a sentence, how many (jobs, tasks, records) it is about, and since when.

    A sentence of a topic has no colon: one stands before it where the topic is named.
    """

    kind: Kind
    level: Level
    sentence: str
    count: int = 0
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """The servers of a topic: why one is unfit, and the response time of the slowest if it is slow."""

    unfit: tuple[str, ...] = ()
    slow_ms: float | None = None


UNKNOWN_SERVER = ServerFacts()
"""A server that was not looked at: nothing is said of it."""


class AssessedServer(Protocol):
    """A server that was assessed (connections/health.py)."""

    @property
    def unfit(self) -> tuple[str, ...]: ...
    @property
    def slow_ms(self) -> float | None: ...


def facts_of(servers: Iterable[AssessedServer]) -> ServerFacts:
    """The facts of all servers together: each reason once, and the slowest response."""
    known = list(servers)
    reasons = dict.fromkeys(reason for server in known for reason in server.unfit)
    slow = [server.slow_ms for server in known if server.slow_ms is not None]
    return ServerFacts(tuple(reasons), max(slow, default=None))


def assess_topic(
    stats: Stats, workers: Iterable[WorkerInfo], server: ServerFacts = UNKNOWN_SERVER
) -> tuple[Condition, ...]:
    """The conditions of a topic, the worst first; at least one."""
    serving = [
        (worker, one) for worker in workers if worker.takes_jobs for one in worker.topics if one.name == stats.topic
    ]
    topics = [one for _, one in serving]
    found = [
        *_died(stats),
        *_unknown_tasks(topics),
        *_no_consumer(stats, topics),
        *_held_back(stats),
        *_full(stats),
        *_late(stats, topics),
        *_stuck(stats, topics),
        *_damaged(stats),
        *assess_server(server),
    ]
    if not found:
        found = [_empty_or_on_time(stats)]
    return tuple(sorted(found, key=_rank))


class AssessedQueue(Protocol):
    """A queue that is shared with Java: what waits, what was set aside, who moves due elements, and how late the first is."""

    @property
    def delayed(self) -> int: ...
    @property
    def poison(self) -> int: ...
    @property
    def movers(self) -> int: ...
    @property
    def late(self) -> timedelta | None: ...


def assess_queue(queue: AssessedQueue) -> tuple[Condition, ...]:
    """The conditions of a shared queue, the worst first; at least one."""
    found: list[Condition] = []
    if queue.late is not None and queue.late > LATE_AFTER:
        late = f"The first element is overdue by {_span(queue.late)}"
        if queue.movers:
            found.append(Condition("late", "bad", f"{late}.", queue.delayed))
        else:
            found.append(
                Condition("no_consumer", "bad", f"{late}, and no consumer makes due elements ready.", queue.delayed)
            )
    if queue.poison:
        what, were = ("1 element", "was") if queue.poison == 1 else (f"{queue.poison:,} elements", "were")
        sentence = f"{what} could not be read or handled, and {were} set aside."
        found.append(Condition("damaged", "bad", sentence, queue.poison))
    if not found:
        found = [
            Condition("on_time", "good", "On time.")
            if queue.delayed
            else Condition("empty", "calm", "No elements are delayed.")
        ]
    return tuple(sorted(found, key=_rank))


def assess_server(server: ServerFacts) -> Iterator[Condition]:
    """The conditions of the server alone, which all of its topics share."""
    if server.unfit:
        reasons = "; ".join(server.unfit)
        yield Condition("unfit_server", "bad", f"The server is unfit: {reasons}.", len(server.unfit))
    if server.slow_ms is not None:
        yield Condition("slow_server", "calm", f"The server answers slowly, after {server.slow_ms:.0f} ms.")


def severity(conditions: Sequence[Condition]) -> tuple[float, ...]:
    """Sorts topics: the one with the worst condition first; of the same kind the one with more of it, or for longer."""
    worst = conditions[0]
    return (*_rank(worst), -worst.count, worst.since.timestamp() if worst.since is not None else float("inf"))


def summarize(topics: Mapping[str, Sequence[Condition]]) -> tuple[Level, str]:
    """All topics in a sentence: its level, and what is worst."""
    if not topics:
        return "calm", "Nothing has been added yet."
    ordered = sorted(topics, key=lambda name: (severity(topics[name]), name))
    worst = topics[ordered[0]][0]
    if worst.level == "good":
        return "good", "All is on time."
    if worst.level == "bad":
        many = sum(conditions[0].level == "bad" for conditions in topics.values())
        if worst.kind in SERVER_KINDS:
            return "bad", worst.sentence
        start = f"{many} topics need attention. " if many > 1 else ""
        return "bad", f"{start}{ordered[0]}: {worst.sentence}"
    if worst.kind == "empty":
        if all(conditions[0].kind == "empty" for conditions in topics.values()):
            return "calm", "No job waits."
        return "good", "All is on time."
    named = worst.sentence if worst.kind in SERVER_KINDS else f"{ordered[0]}: {worst.sentence}"
    return "calm", f"Nothing is late. {named}"


def has_consumer(stats: Stats, workers: Iterable[WorkerInfo]) -> bool:
    """Whether a live worker takes jobs of the topic, a client waits for them, or one was handed out lately."""
    served = any(worker.takes_jobs and one.name == stats.topic for worker in workers for one in worker.topics)
    return served or _has_client(stats)


def overdue(stats: Stats) -> timedelta | None:
    """For how long the oldest ready job has waited."""
    return max(stats.now - stats.oldest_ready, timedelta(0)) if stats.oldest_ready is not None else None


def pause_text(stats: Stats) -> str:
    """For how long a paused topic is paused."""
    return _pause_text(stats.paused_until, stats.now)


def _pause_text(until: datetime | None, now: datetime) -> str:
    return "until it is resumed" if until is None or until.year > UNTIL_RESUMED else f"for {_span(until - now)}"


def is_paused(key: KeyStats) -> bool:
    """Whether nothing of a key is handed out until a moment, or until it is resumed."""
    return key.paused_until is not None


def key_text(key: KeyStats) -> str:
    """Why jobs of a key wait, such as ``2 of 2 are running``; empty: none waits that is due, or one can go."""
    why = None if key.limited is None else key.limited.reason
    until = key.limited.until if key.limited is not None else None
    next_in = f"; the next can be handed out in {_span(until - key.now)}" if until is not None else ""
    if is_paused(key):
        return f"paused {_pause_text(key.paused_until, key.now)}"
    if why == "concurrency":
        return f"{key.reserved:,} of {key.concurrency or key.reserved:,} are running"
    if why == "rate":
        return f"its rate of {key.rate} is spent{next_in}"
    if why == "retry":
        return f"a failed job is tried again first{next_in}"
    return ""


def _rank(condition: Condition) -> tuple[int, int]:
    return LEVELS.index(condition.level), KINDS.index(condition.kind)


def _has_client(stats: Stats) -> bool:
    lately = stats.last_popped is not None and stats.now - stats.last_popped <= CONSUMED_LATELY
    return bool(stats.watching or lately)


def _late_since(stats: Stats) -> datetime | None:
    """Since when the first ready job waits that its key does not hold back."""
    return stats.can_go_since if stats.held_back else stats.oldest_ready


def _is_overdue(stats: Stats) -> bool:
    """Whether a job waits that should have been handed out; one that a pause or a limit holds back should not."""
    since = _late_since(stats)
    waits = None if since is None else stats.now - since
    return waits is not None and waits > LATE_AFTER and stats.limited is None and stats.paused_until is None


def _died(stats: Stats) -> Iterator[Condition]:
    if stats.dead == 0:
        return
    if (lately := stats.died_lately) > 0:
        total = f"; {_jobs(stats.dead, 'is', 'are')} dead in all" if stats.dead > lately else ""
        sentence = f"{_jobs(lately)} died in the last ten minutes{total}."
        yield Condition("died", "bad" if lately >= MANY_DIED else "calm", sentence, lately, stats.last_died)
    else:
        last = f"; the last died {_span(stats.now - stats.last_died)} ago" if stats.last_died is not None else ""
        yield Condition("died", "calm", f"{_jobs(stats.dead, 'is', 'are')} dead{last}.", stats.dead, stats.last_died)


def _unknown_tasks(topics: Sequence[WorkerTopic]) -> Iterator[Condition]:
    """Tasks whose jobs some worker has put back lately: bad if no live worker knows them."""
    tasks = list(dict.fromkeys(task for one in topics for task in one.unknown_tasks))
    nowhere = [task for task in tasks if not any(task in one.handlers for one in topics)]
    if nowhere:
        its = "its" if len(nowhere) == 1 else "their"
        sentence = f"No live worker knows {_tasks(nowhere)}, so {its} jobs are put back, and not done."
        yield Condition("unknown_tasks", "bad", sentence, len(nowhere))
    elif tasks:
        lacking = sum(any(task in one.unknown_tasks for task in tasks) for one in topics)
        who = f"{lacking} of {len(topics)} workers {'does' if lacking == 1 else 'do'} not know {_tasks(tasks)}"
        yield Condition("unknown_tasks", "calm", f"{who}; each puts such jobs back for the others.", len(tasks))


def _no_consumer(stats: Stats, topics: Sequence[WorkerTopic]) -> Iterator[Condition]:
    waiting = stats.delayed + stats.ready
    if topics or not waiting or _has_client(stats):
        return
    if _is_overdue(stats):
        jobs = "1 ready job" if stats.ready == 1 else f"{stats.ready:,} ready jobs"
        yield Condition("no_consumer", "bad", f"No consumer takes its {jobs}.", stats.ready, stats.oldest_ready)
    else:
        text = f"{waiting:,} {'waits' if waiting == 1 else 'wait'}"
        if not stats.ready and stats.next_due is not None:
            text += f", {'' if waiting == 1 else 'the next is '}due in {_span(stats.next_due - stats.now)}"
        yield Condition("no_consumer", "calm", f"No consumer takes its jobs; {text}.", waiting, stats.oldest_ready)


def _held_back(stats: Stats) -> Iterator[Condition]:
    waits = overdue(stats)
    count = stats.ready if stats.limited is not None or stats.paused_until is not None else 0
    wait = f", the first for {_span(waits)}" if waits is not None and waits >= timedelta(milliseconds=1) else ""
    if stats.paused_until is not None:
        ready = f"; {_jobs(count, 'waits', 'wait')}{wait}" if count else ""
        yield Condition("held_back", "calm", f"Paused {pause_text(stats)}{ready}.", count, stats.oldest_ready)
    elif stats.limited is not None:
        until = (
            f"; the next can be handed out in {_span(stats.limited.until - stats.now)}" if stats.limited.until else ""
        )
        by = f"the {stats.limited.reason} limit"
        if stats.limited.reason == "key":
            by = "the limits of its key" if count == 1 else "the limits of their keys"
        sentence = f"{_jobs(count, 'is', 'are')} held back by {by}{wait}{until}."
        yield Condition("held_back", "calm", sentence, count, stats.oldest_ready)
    elif stats.held_back:
        by = "the limits of its key" if stats.held_back == 1 else "the limits of their keys"
        sentence = f"{_jobs(stats.held_back, 'is', 'are')} held back by {by}."
        yield Condition("held_back", "calm", sentence, stats.held_back)


def _full(stats: Stats) -> Iterator[Condition]:
    if stats.full:
        pending = stats.delayed + stats.ready
        refused = f"; {_jobs(stats.not_added, 'was', 'were')} refused so far" if stats.not_added else ""
        yield Condition("full", "calm", f"Full with {_jobs(pending)}, so no more are added{refused}.", pending)


def _late(stats: Stats, topics: Sequence[WorkerTopic]) -> Iterator[Condition]:
    if not _is_overdue(stats):
        return
    slots, busy = sum(one.slots for one in topics), sum(one.busy for one in topics)
    since, count = _late_since(stats), stats.ready - stats.held_back
    assert since is not None
    who = f"{_jobs(count, 'is', 'are')} overdue{'' if count == 1 else ', the first'} by {_span(stats.now - since)}"
    why = f"; all {slots} slots of its workers are busy" if slots and busy >= slots else ""
    yield Condition("late", "bad", f"{who}{why}.", count, since)


def _stuck(stats: Stats, topics: Sequence[WorkerTopic]) -> Iterator[Condition]:
    overrun = sum(one.overrun for one in topics)
    if overrun:
        sentence = f"{_jobs(overrun, 'has', 'have')} run longer than the timeout, and cannot be stopped."
        yield Condition("stuck", "bad", sentence, overrun)
    elif stats.expired and _is_overdue(stats):
        what = "1 reservation has" if stats.expired == 1 else f"{stats.expired:,} reservations have"
        yield Condition(
            "stuck",
            "bad",
            f"{what} ended, and no pop has made the {'job' if stats.expired == 1 else 'jobs'} ready again.",
            stats.expired,
            stats.oldest_ready,
        )


def _damaged(stats: Stats) -> Iterator[Condition]:
    if stats.damaged:
        what = "1 record is" if stats.damaged == 1 else f"{stats.damaged:,} records are"
        yield Condition(
            "damaged",
            "bad",
            f"{what} damaged; `tarry check` names {'it' if stats.damaged == 1 else 'them'}.",
            stats.damaged,
        )


def _empty_or_on_time(stats: Stats) -> Condition:
    if not stats.delayed and not stats.ready and not stats.reserved:
        return Condition("empty", "calm", "Empty.")
    return Condition("on_time", "good", "On time.")


def _jobs(count: int, one: str = "", several: str = "") -> str:
    words = ("1 job", one) if count == 1 else (f"{count:,} jobs", several)
    return " ".join(word for word in words if word)


def _tasks(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{'task' if len(names) == 1 else 'the tasks'} {shown}{more}"


def _span(of: timedelta | None) -> str:
    return span_text(max(of.total_seconds(), 0.0)) if of is not None else "–"


STEPS = ((365 * 86400, "y"), (86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
"""Seconds of each unit of a duration, the longest first."""


def span_text(seconds: float) -> str:
    """A duration in a sentence, with two units at most: ``3 d 4 h``, ``3 m 20 s``, ``1.5 s``, ``12 ms``."""
    if seconds < 0:
        return "−" + span_text(-seconds)
    if seconds < 0.0000005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.0995 else f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    left = round(seconds)
    parts = []
    for size, unit in STEPS:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)
