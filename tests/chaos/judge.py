"""One job's history against what is promised. Pure: events in, counts and breaches out. Nothing of tarry is used here.

Breaches (BREACHES says what each means) are what must never be. What may be is counted by its reason: a job that was handed
out again because its time to run was over, an add that was lost in the second that `everysec` may lose.

A job is handed out under receipts; `created` tells which add put it there, so an add that was sent twice and ran twice can
be told from a job that ran twice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

from . import history
from .faults import Faults
from .history import (
    ADD,
    BODILESS,
    BURY,
    DEAD,
    DELETE,
    EXISTS,
    FINISH,
    FOREVER,
    HANDED,
    KEPT,
    KICK,
    MAYBE,
    OK,
    PLACELESS,
    POLLED,
    PUSH,
    RAISED,
    REFUSED,
    RELEASE,
    RESCHEDULE,
    RESERVED,
    RETURNED,
    TOUCH,
    Event,
)  # fmt: skip

BEGAN, ENDED, KIND, STATUS, TOPIC, WHO, ID, A, B, C, D, E, F = range(1, 14)
SLACK_US = 1000
"""Two processes that read one clock do not read it at once."""
READ_US = 30 * 1_000_000
"""A call without an answer may be read so long after its connection is gone, by a server on a busy machine."""
LEAST_BACK_OFF_US = 800_000
SOFT = (DELETE, RELEASE, BURY, RESCHEDULE, KICK)
SETTLES = (FINISH, RELEASE, BURY, TOUCH)
BREACHES = {
    "lost": "an acknowledged add is neither finished, dead, deleted nor there",
    "early": "handed out before its time",
    "after finish": "handed out, or still there, after an acknowledged finish",
    "after delete": "handed out, or still there, after an acknowledged delete",
    "twice accepted": "two receipts of one job were both accepted by finish",
    "stale accepted": "a receipt was accepted when the job had been handed out again, finished or deleted",
    "late accepted": "a receipt was accepted after the job's time to run, on a whole connection",
    "receipt fell": "a later receipt of a job is not higher",
    "attempts above": "handed out more often than max_attempts allows",
    "attempt fell": "the number of the attempt did not rise, and no attempt was taken back",
    "attempt skipped": "an attempt was used up that nobody saw, and no answer can have been lost",
    "doubled": "handed out twice, and no promised reason for it",
    "ran anew": "handed out as added at a moment at which nobody was adding it",
    "refused": "a receipt was refused that held",
    "existing": "an add of an id of its own was refused as existing",
    "never added": "handed out, or there, and nobody added it",
    "two places": "a job lies in two places, or in none",
    "late back": "a killed worker's job was not ready again within two seconds, though another worker ran",
    "stuck": "due, and not handed out to consumers that wait",
    "key left": "a key is left after the purge",
    "damaged": "the topic's own check found faults",
    "client": "a process ended that should live",
    "over the key": "more jobs of a key were reserved at once than its limit",
    "two holders": "a lock was given while another held it and was not told of its loss",
    "token fell": "a later holder's fencing token is not higher",
}


@dataclass(slots=True)
class Rules:
    """What holds for a run."""

    server_clock: bool = True
    """Whether the server's clock is this machine's: then moments of both may be compared."""
    late_is_told_ok: bool = True
    """Whether a call that was sent twice may be answered `ok` although it came late: it changed nothing."""
    keys: int = 0
    key_concurrency: int = 0


@dataclass
class Tally:
    """What was found: counts, and of each kind of breach the shortest histories."""

    counts: Counter[str] = field(default_factory=Counter)
    breaches: Counter[str] = field(default_factory=Counter)
    excerpts: dict[str, list[tuple[str, list[Event]]]] = field(default_factory=lambda: defaultdict(list))
    recovery: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """How long after a worker was killed its jobs were ready again."""
    most: int = 3

    def breach(self, name: str, events: list[Event], words: str = "") -> None:
        assert name in BREACHES, name
        self.breaches[name] += 1
        kept = self.excerpts[name]
        kept.append((words, list(events)))
        kept.sort(key=lambda one: len(one[1]))
        del kept[self.most :]


class Judge:
    """Judges job after job into one tally."""

    def __init__(self, rules: Rules, faults: Faults, tally: Tally | None = None) -> None:
        self.rules = rules
        self.faults = faults
        self.tally = tally or Tally()
        self._held: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
        """Of each key of a topic: moments, and +1 or -1 for a job of which it is certain that it was reserved from or until then."""

    def job(self, events: list[Event]) -> None:
        """All events of one id, by the moments at which they began."""
        if key := history.key_of(events[0][ID], self.rules.keys):
            self._note_places(key, events)
        if len(events) == 3 and self._is_plain(*events):
            self.tally.counts["plain"] += 1
            return
        Case(self.rules, self.faults, self.tally, events).judge()

    def _note_places(self, key: str, events: list[Event]) -> None:
        """When the job of a key certainly was reserved: until its time to run was over, somebody began to do something with it, its holder died,
        or it was handed out again. What the server may have forgotten does not count."""
        for handed in (one for one in events if one[KIND] == HANDED):
            at = handed[D]
            ends = [
                one[BEGAN] for one in events if one[KIND] not in (HANDED, TOUCH, KEPT) and one[BEGAN] >= handed[BEGAN]
            ]
            ends += [one[D] for one in events if one[KIND] == HANDED and one[D] > at]
            died = self.faults.end_of(handed[WHO])
            end = min([at + handed[F], *ends, *([] if died is None else [died])])
            if end > at and not self.faults.undone_within(at, end):
                self._held[handed[TOPIC], key] += (at, 1), (end, -1)
                self.tally.counts["places of keys"] += 1

    def keys(self) -> None:
        """After all jobs: how many of each key were reserved at once."""
        for (topic, key), moments in self._held.items():
            reserved = 0
            for at, change in sorted(moments):
                reserved += change
                if reserved > self.rules.key_concurrency:
                    self.tally.breach("over the key", [], f"{reserved} of {key} of topic {topic} at {at}")

    def _is_plain(self, add: Event, handed: Event, finish: Event) -> bool:
        """Added, handed out once in time, finished in time: most of them."""
        return (
            add[KIND] == ADD and handed[KIND] == HANDED and finish[KIND] == FINISH
            and add[STATUS] == handed[STATUS] == finish[STATUS] == OK
            and handed[A] == finish[A] and handed[B] == 1 and handed[C] <= handed[D]
            and self.rules.server_clock
            and add[BEGAN] + add[A] - SLACK_US <= handed[D] and handed[C] <= handed[ENDED]
            and add[BEGAN] - SLACK_US <= handed[E] <= add[ENDED] + SLACK_US
            and finish[BEGAN] <= handed[D] + handed[F]
        )  # fmt: skip


class Case:
    """One job that needs a closer look."""

    def __init__(self, rules: Rules, faults: Faults, tally: Tally, events: list[Event]) -> None:
        self.rules, self.faults, self.tally = rules, faults, tally
        self.events = events = [self.softened(event) for event in events]
        by: dict[int, list[Event]] = defaultdict(list)
        for event in events:
            by[event[KIND]].append(event)
        self.by = by
        self.told_undone: set[str] = set()
        self.handed = sorted(by[HANDED], key=lambda one: (one[A], one[D]))
        self.by_receipt = {one[A]: one for one in self.handed}
        self.settles = [one for kind in SETTLES for one in by[kind]]

    def breach(self, name: str, words: str = "") -> None:
        self.tally.breach(name, self.events, words)

    def count(self, what: str, n: int = 1) -> None:
        self.tally.counts[what] += n

    def softened(self, event: Event) -> Event:
        """A call that was sent twice may be told that there is nothing to do: because it was done. Then it is MAYBE."""
        if event[STATUS] != REFUSED or event[KIND] not in SOFT or not self.faults.broken(event[BEGAN], event[ENDED]):
            return event
        self.count("told refused, sent twice")
        return (*event[:STATUS], MAYBE, *event[STATUS + 1 :])

    def undone(self, why: str) -> None:
        """The server forgot something of this job, as it may: once a job."""
        if why not in self.told_undone:
            self.told_undone.add(why)
            self.count(f"undone: {why}")

    def judge(self) -> None:
        if self.by[PUSH] or self.by[POLLED]:
            self.judge_queue()
            return
        if not self.by[ADD]:
            self.breach("never added")
            return
        for add in self.by[ADD]:
            if add[STATUS] == EXISTS:
                self.excused("existing", add[BEGAN], self.tally_words(add))
        self.judge_loss()
        self.judge_places()
        for handed in self.handed:
            self.judge_time(handed)
            self.judge_origin(handed)
            self.judge_after(handed)
        for created in {one[E] for one in self.handed}:
            self.judge_runs([one for one in self.handed if one[E] == created])
        for settle in self.settles:
            if settle[STATUS] == OK:
                self.judge_accepted(settle)
            elif settle[STATUS] == REFUSED:
                self.judge_refused(settle)
        self.judge_finishes()

    # ── who lost, who stays ──────────────────────────────────────────────────────────────────────────────────────────

    def excused(self, name: str, since: int, words: str = "", until: int = 0) -> None:
        """A breach, unless the server may have forgotten since then; ``until``: only what was acknowledged in between."""
        why = self.faults.undone_within(since, until or FOREVER)
        if why:
            self.undone(why)
        else:
            self.breach(name, words)

    def tally_words(self, event: Event) -> str:
        return history.as_line(event, self.events[0][BEGAN])

    def judge_loss(self) -> None:
        acked = [add for add in self.by[ADD] if add[STATUS] == OK]
        if not acked or self.by[KEPT] or self.by[RETURNED]:
            return
        if any(e[STATUS] in (OK, MAYBE) for kind in (FINISH, DELETE) for e in self.by[kind]):
            return
        if why := next(filter(None, (self.faults.undone_within(add[BEGAN], add[ENDED]) for add in acked)), ""):
            self.count(f"lost: {why}")
        else:
            self.breach("lost")

    def judge_places(self) -> None:
        kept = self.by[KEPT]
        if len(kept) > 1 or any(one[A] in (PLACELESS, BODILESS) for one in kept):
            self.breach("two places")
        for one in kept:
            death = self.faults.workers.death(self.handed[-1][WHO]) if one[A] == RESERVED and self.handed else None
            if death is not None and one[ENDED] > death.back_by:
                self.breach("late back", f"still reserved {one[ENDED] - death.at} µs after {death.name}")
            for gone, name in ((FINISH, "after finish"), (DELETE, "after delete")):
                for event in self.by[gone]:
                    if event[STATUS] == OK and self.is_of(event, one[C]):
                        self.forgotten(name, event)

    def is_of(self, event: Event, created: int) -> bool:
        """Whether what ended the job ended the one that was put in at that moment."""
        if event[KIND] == FINISH:
            handed = self.by_receipt.get(event[A])
            return handed is not None and handed[E] == created and not self.is_late(event, handed)
        return not self.rules.server_clock or created < event[BEGAN]

    def forgotten(self, name: str, event: Event) -> None:
        """What was acknowledged is not so: the server may have forgotten it, or it is a breach."""
        if why := self.faults.undone_within(event[BEGAN], event[ENDED]):
            self.undone(why)
        else:
            self.breach(name, self.tally_words(event))

    # ── one handing out ──────────────────────────────────────────────────────────────────────────────────────────────

    def judge_time(self, handed: Event) -> None:
        if handed[C] > handed[D]:
            self.breach("early", f"due {handed[C]}, handed out {handed[D]}")
            return
        if not self.rules.server_clock:
            return
        if handed[C] > handed[ENDED] + SLACK_US:
            self.breach("early", "it arrived before it was due, by this machine's clock")
        elif handed[D] < self.bound(handed) - SLACK_US:
            self.breach("early", f"not due before {self.bound(handed) - self.events[0][BEGAN]} µs")

    def bound(self, handed: Event) -> int:
        """The earliest moment that those who set a due time before allow."""
        at = handed[D]
        known = [one for one in self.settings() if one[0] < at]
        certain = max((one for one in known if one[3] and one[1] <= at), default=(0, 0, 0, True))
        return min((one[2] for one in known if one[1] > certain[0]), default=0)

    def settings(self) -> list[tuple[int, int, int, bool]]:
        """Who set a due time: begun, ended, not due before, whether it is certain."""
        delays = [(e, e[A]) for e in self.by[ADD] + self.by[RESCHEDULE]]
        delays += [(e, 0 if not e[C] else e[B] if e[B] >= 0 else LEAST_BACK_OFF_US) for e in self.by[RELEASE]]
        found = [
            (e[BEGAN], self.last_moment(e), e[BEGAN] + delay, e[STATUS] == OK)
            for e, delay in delays
            if e[STATUS] != REFUSED
        ]
        found += [(e[BEGAN], FOREVER, e[BEGAN], False) for e in self.by[RAISED] + self.by[KICK]]
        for e in self.handed:  # its time to run ends, or its process does and its jobs are released
            over = e[D] if self.faults.ended(e[WHO], FOREVER) or self.faults.undone(e[D]) else e[D] + e[F]
            found.append((over, FOREVER, over, False))
        return found

    def last_moment(self, event: Event) -> int:
        """When the server did it at the latest. A client that gave up takes nothing back: what it sent lies in a buffer on the way,
        or of a server that stands still."""
        if event[STATUS] != MAYBE:
            return event[ENDED]
        return self.faults.calm_after(event[BEGAN], event[ENDED]) + READ_US

    def judge_origin(self, handed: Event) -> None:
        """Somebody was adding it at the moment at which the server says it was added."""
        if not self.rules.server_clock:
            return
        created = handed[E]
        if not any(add[BEGAN] - SLACK_US <= created <= self.last_moment(add) + SLACK_US for add in self.by[ADD]):
            self.breach("ran anew", f"created {created - self.events[0][BEGAN]} µs")

    def judge_after(self, handed: Event) -> None:
        """Not after it was finished or deleted."""
        at = handed[D] if self.rules.server_clock else min([handed[BEGAN], *self.faults.moments(handed[D])])
        for kind, name in ((FINISH, "after finish"), (DELETE, "after delete")):
            for event in self.by[kind]:
                if event[STATUS] == OK and at > event[ENDED] + SLACK_US:
                    if self.is_of(event, handed[E]):
                        self.forgotten(name, event)
                    else:
                        self.count("add repeated" if kind == DELETE or not self.was_late(event) else "late told ok")

    def was_late(self, event: Event) -> bool:
        handed = self.by_receipt.get(event[A])
        return handed is not None and self.is_late(event, handed)

    def is_late(self, event: Event, handed: Event) -> bool:
        """Whether it came after its time and was sent twice: it was told ok and, if another had the job by then, did nothing."""
        if not self.rules.late_is_told_ok or not self.faults.broken(event[BEGAN], event[ENDED]):
            return False
        over = event[ENDED] > handed[D] + handed[F] or not self.rules.server_clock
        return over or any(other[A] > handed[A] and other[E] == handed[E] for other in self.handed)

    # ── from one handing out to the next ─────────────────────────────────────────────────────────────────────────────

    def judge_runs(self, handed: list[Event]) -> None:
        """Those of one add, by their receipts."""
        limit = max(add[B] for add in self.by[ADD])
        for one in handed:
            if one[B] < 1 or 0 < limit < one[B]:
                self.excused("attempts above", one[BEGAN]) if one[B] >= 1 else self.breach("attempts above")
        if handed[0][B] > 1:
            self.judge_skip(handed[0][B] - 1, handed[0][E], handed[0][ENDED])
        for one, other in pairwise(handed):
            self.judge_pair(one, other)
            self.judge_return(one, other)

    def judge_pair(self, one: Event, other: Event) -> None:
        if one[TOPIC] == other[TOPIC] and (other[A] <= one[A] or (self.rules.server_clock and other[D] < one[D])):
            self.breach("receipt fell")
            return
        reason = self.reason(one, other)
        if not reason:
            self.breach("doubled", f"receipts {one[A]}, {other[A]}")
            return
        self.count(f"again: {reason}")
        if reason.startswith("undone") or any(k[BEGAN] <= other[ENDED] for k in self.by[KICK] if k[STATUS] != REFUSED):
            return
        uncounted = any(e[C] == 0 for e in self.given_back(one, other) if e[KIND] == RELEASE) or reason in (
            "its process ended", "handler raised",
        )  # fmt: skip
        least = one[B] if uncounted else one[B] + 1
        if other[B] < least:
            self.excused("attempt fell", one[BEGAN], f"receipts {one[A]}, {other[A]}", other[ENDED])
        elif other[B] > one[B] + 1:
            self.judge_skip(other[B] - one[B] - 1, one[BEGAN], other[ENDED])

    def judge_skip(self, n: int, since: int, until: int) -> None:
        if not self.rules.server_clock or self.faults.disturbed(since, until):
            self.count("attempts nobody saw", n)
        else:
            self.breach("attempt skipped")

    def given_back(self, one: Event, other: Event) -> list[Event]:
        return [
            e for kind in (RELEASE, RAISED, BURY) for e in self.by[kind]
            if e[A] == one[A] and e[STATUS] != REFUSED and e[BEGAN] <= other[ENDED]
        ]  # fmt: skip

    def reason(self, one: Event, other: Event) -> str:
        """Why the job was handed out again: a promised reason, or none."""
        if given := self.given_back(one, other):
            kinds = {e[KIND] for e in given}
            if RELEASE in kinds:
                return "released"
            if RAISED in kinds:
                return "handler raised"
        if any(
            k[STATUS] != REFUSED and k[BEGAN] <= other[ENDED] and self.last_moment(k) >= one[BEGAN]
            for k in self.by[KICK]
        ):
            return "kicked"
        touched = [
            t[BEGAN] + t[B] for t in self.by[TOUCH]
            if t[A] == one[A] and t[STATUS] == OK and t[ENDED] <= other[D] and not self.faults.undone(t[ENDED])
        ]  # fmt: skip
        ends = max([one[D] + one[F], *(touched if self.rules.server_clock else ())])
        if other[D] >= ends - SLACK_US:
            return "time to run over"
        if not self.rules.server_clock and any(self.set_due(t, other[C]) for t in self.by[TOUCH] if t[A] == one[A]):
            return "time to run over, by a clock that was set"
        if self.faults.ended(one[WHO], other[ENDED]):
            return "its process ended"
        if self.faults.workers.was_cut_off(one[WHO], other[C]):
            return "its worker was cut off"
        acked = [e[ENDED] for e in self.settles if e[A] == one[A] and e[STATUS] == OK]
        if why := self.faults.undone(one[D], one[ENDED], *acked):
            return f"undone, {why}"
        return ""

    def judge_return(self, one: Event, other: Event) -> None:
        """When a killed worker's job was ready again: `due` of the next handing out is the moment of its release."""
        death = self.faults.workers.death(one[WHO])
        if death is None or self.is_moved_since(death.at, one, other) or other[B] > one[B] + 1:
            return
        if self.rules.server_clock:
            moments = [other[C]]
        else:  # `due` of one whose time to run is over is the end of that, which a clock that is set forth reaches at once
            moments = self.faults.moments(other[D] if other[C] >= one[D] + one[F] else other[C])
        back = min((at for at in moments if at >= death.at - SLACK_US), default=0)
        if not back:
            return
        judged = (
            "" if death.back_by < FOREVER else ", not judged"
        )  # no other worker ran, nothing told of the end, or too busy
        self.tally.recovery[f"{death.name}: jobs ready again{judged}"].append(max(back - death.at, 0))
        if back > death.back_by + SLACK_US:
            self.breach(
                "late back", f"killed {death.at - self.events[0][BEGAN]}, {death.name}; back {back - death.at} µs later"
            )

    def is_moved_since(self, at: int, one: Event, other: Event) -> bool:
        """Whether something else than the death of its holder may have made it ready."""
        if other[ENDED] < at or self.given_back(one, other) or self.faults.undone(one[D]):
            return True
        others = self.by[KICK] + self.by[RESCHEDULE]
        return any(e[STATUS] != REFUSED and e[BEGAN] <= other[ENDED] and self.last_moment(e) >= at for e in others)

    def set_due(self, touch: Event, due: int) -> bool:
        """Whether a touch gave the job this time to run, by the server's clock as it was then."""
        moments = self.faults.moments(due - touch[B])
        return touch[STATUS] != REFUSED and any(
            touch[BEGAN] - SLACK_US <= at <= touch[ENDED] + SLACK_US for at in moments
        )

    # ── settling ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def ends(self, handed: Event) -> tuple[int, int]:
        """When its time to run is over: at the earliest, at the latest."""
        first = last = handed[D] + handed[F]
        for touch in self.by[TOUCH]:
            if touch[A] == handed[A] and touch[STATUS] in (OK, MAYBE):
                last = max(last, touch[ENDED] + touch[B] if touch[STATUS] == OK else FOREVER)
                first = max(first, touch[BEGAN] + touch[B]) if touch[STATUS] == OK else first
        return first, last

    def judge_accepted(self, settle: Event) -> None:
        handed = self.by_receipt.get(settle[A])
        if handed is None:
            self.breach("never added", "settled under a receipt that nobody was given")
            return
        later = [h for h in self.handed if h[A] > handed[A] and h[E] == handed[E] and self.was_before(h, settle)]
        gone = [
            e for kind in (DELETE, FINISH) for e in self.by[kind]
            if e is not settle and e[STATUS] == OK and e[ENDED] < settle[BEGAN] and self.is_of(e, handed[E])
        ]  # fmt: skip
        late = self.rules.server_clock and settle[BEGAN] > self.ends(handed)[1] + SLACK_US
        if not (later or gone or late):
            return
        if self.rules.late_is_told_ok and self.faults.broken(settle[BEGAN], settle[ENDED]):
            self.count("late told ok")
        else:
            words = self.tally_words(settle)
            moments = [h[D] for h in later] + [e[ENDED] for e in gone] + [settle[ENDED]]
            if why := self.faults.undone(*moments):
                self.undone(why)
            else:
                self.breach("stale accepted" if later or gone else "late accepted", words)

    def was_before(self, handed: Event, event: Event) -> bool:
        return (handed[D] + SLACK_US if self.rules.server_clock else handed[ENDED]) < event[BEGAN]

    def judge_finishes(self) -> None:
        """Of one add, one finish is accepted."""
        accepted: dict[int, list[Event]] = defaultdict(list)
        for event in self.by[FINISH]:
            handed = self.by_receipt.get(event[A])
            if event[STATUS] == OK and handed is not None and not self.is_late(event, handed):
                accepted[handed[E]].append(event)
        for events in accepted.values():
            if len({event[A] for event in events}) > 1:
                if why := self.faults.undone(*(event[ENDED] for event in events)):
                    self.undone(why)
                else:
                    self.breach("twice accepted")

    def judge_refused(self, settle: Event) -> None:
        handed = self.by_receipt.get(settle[A])
        if handed is None or not self.rules.server_clock or settle[ENDED] >= self.ends(handed)[0] - SLACK_US:
            self.count("refused, its time to run over")
            return
        others = [
            e for e in self.events
            if e is not settle and (
                (e[KIND] == HANDED and e[A] > settle[A] and e[D] <= settle[ENDED] + SLACK_US)  # read later
                or (e[BEGAN] <= settle[ENDED] and e[STATUS] in (OK, MAYBE) and (
                    e[KIND] == DELETE or (e[KIND] in (FINISH, RELEASE, BURY, RETURNED, RAISED) and e[A] == settle[A])
                ))
            )
        ]  # fmt: skip
        cut_off = self.faults.workers.was_cut_off(
            settle[WHO], settle[ENDED]
        )  # who had it next was killed before it said so
        if others or cut_off or self.faults.ended(settle[WHO], settle[ENDED]):
            self.count("refused, settled or deleted before")
        else:
            self.excused("refused", handed[BEGAN], self.tally_words(settle), settle[ENDED])

    # ── guarded queues ───────────────────────────────────────────────────────────────────────────────────────────────

    def judge_queue(self) -> None:
        pushes, polled, kept = self.by[PUSH], self.by[POLLED], self.by[KEPT]
        if not pushes:
            self.breach("never added")
            return
        if any(one[A] > one[B] or one[B] < pushes[0][BEGAN] + pushes[0][A] - SLACK_US for one in polled):
            self.breach("early")
        if len(polled) + len(kept) > 1:
            self.excused("doubled", pushes[0][BEGAN])
        if not polled and not kept and pushes[0][STATUS] == OK:
            why = self.faults.undone_within(pushes[0][BEGAN], pushes[0][ENDED])
            self.count(f"lost: {why}" if why else "taken by who did not live to tell")


def judge_locks(events: list[Event], tally: Tally) -> None:
    """Who held a lock, and when: its events, of one lock."""
    held = sorted(events, key=lambda one: one[B])
    for index, one in enumerate(held):
        _, token, had, given, lost = one[ID], one[A], one[B], one[C], one[D]
        tally.counts["locks held"] += 1
        for other in held[index + 1 : index + 50]:
            if other[BEGAN] > had and other[A] <= token:
                tally.breach("token fell", [one, other])
            if not lost and other[B] < given:
                tally.breach("two holders", [one, other])


__all__ = ["BREACHES", "DEAD", "Judge", "Rules", "Tally", "judge_locks"]
