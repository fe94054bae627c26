"""The watch, small enough to try everything: an explicit-state model of how idle consumers wait (docs/decisions/0003-the-watch.md).

    server                                          consumer (a process)

    due, reserved   the topic's deadlines           looking ──▶ answered ──▶ waiting ──▶ looking …
    watch           consumer → promised to look        │            │          │  ▲
    wake, relay     at most one token each             │            ▼          ▼  │
    BLPOP queue     who waits, first come first        └──────▶   away  ◀── leaving

Time is a whole number of ticks and all times in a state are *relative to now*, so that the number of states is finite
without a horizon. Steps of running processes take no time: the clock ticks only when nobody has anything left to do.
Faults and changes of the world may come between any two steps, in any order, as often as their budget lasts.

The file reads from the inside out: `settle` (the rules, a pure function), `Watch` (the server's scripts and the client's
decisions, each a method that a mutant may override), the world and its faults, the search, the properties.
"""

# ruff: noqa: N803, ARG002  G and R are the design's names; what a mutant may override sees more than the protocol needs
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────────


def settle(
    now: int,
    next: int | None,
    seats: dict[Any, int],
    wake: int,
    relay: int,
    me: Any,
    stays: bool,
    *,
    G: int,
    R: int,
    H: int | None = None,
) -> tuple[dict[Any, int], int, int, int | None, int]:
    """The lines that end every script, as a pure function: what the Lua is compared with.

    `next` is the topic's earliest deadline (None: none, or paused), `seats` who promised to look by when, `me` the caller
    (None: nobody's seat is dropped; must not stay), `stays` whether it goes on to wait. Any one integer unit.
    Answers the new seats, the tokens that `wake` and `relay` shall hold (0 or 1), the caller's alarm (None: it does not
    stay) and the seat that it took: 1, 2, or 0 for none. The old tokens do not matter: a list is set, not counted.
    """
    # 1. Drop promises overdue by more than G, and the caller's own.
    seats = {who: at for who, at in seats.items() if at >= now - G and who != me}

    # 2. Nothing within the longest look-around, R or a little more: no seats are needed; everything is emptied.
    if next is None or next > now + (R if H is None else H):
        return {}, 0, 0, now + R if stays else None, 0

    in_time = max(next, now)
    alarm, seat = (now + R if stays else None), 0

    # 3. Nobody has promised to look in time: the caller takes the first seat.
    if stays and not any(at <= in_time for at in seats.values()):
        alarm, seat = min(in_time, now + G), 1
    # 4. Somebody has, but alone: the caller takes the second seat.
    elif stays and len(seats) < 2:
        alarm, seat = now + G, 2
    # 5. Any other caller that stays keeps the alarm now + R.
    if seat and alarm is not None:
        seats[me] = alarm

    # 6. Nobody in time: a token in wake. Fewer than two seats: one in relay. What is not needed is removed.
    wake = int(not any(at <= in_time for at in seats.values()))
    relay = int(len(seats) < 2)
    return seats, wake, relay, alarm, seat


def earliest(
    due: int | None, back: int | None, *, paused: int | None = None, opens: int | None = None, full: bool = False,
    fires: int | None = None,
) -> int | None:  # fmt: skip
    """The topic's earliest deadline. `due` is the first job's, `back` the end of the first reservation, `opens` when the rate
    lets a job go, `full` whether the cap is reached (then only a reservation that ends helps), `fires` the next schedule."""
    ready = [at for at in (None if full else due, back) if at is not None]
    first = [max(min(ready), opens if opens is not None else min(ready))] if ready else []
    first += [fires] if fires is not None else []
    return max(min(first), paused if paused is not None else min(first)) if first else None


# ── states ───────────────────────────────────────────────────────────────────────────────────────────────────────────

NEVER = 99  # no alarm, no promise, not paused
FOR_EVER = 98  # paused without end
LOST = 97  # held: the reservation ran out and was put back, the handler still works


class Consumer(NamedTuple):
    life: str = "up"  # up, frozen, dead
    phase: str = "looking"  # looking, answered, waiting, leaving, away
    wants: bool = True  # the process wants jobs
    line: str = ""  # its BLPOP: "" none, "w" on wake, "wr" on wake and relay, "token" (a reply on its way)
    place: int = 0  # in the server's queue of blocked clients
    alarm: int = NEVER
    seat: int = 0  # what its last answer said: 0, 1, 2
    promise: int = NEVER  # its seat at the server
    fires: bool = False  # its answer said that a schedule is due: it attends to it, then looks again
    held: tuple[int, ...] = ()  # reservations: ticks to the end of the TTR, 0 and below: over, -n neglected, or LOST


class State(NamedTuple):
    crew: tuple[Consumer, ...]
    jobs: tuple[int, ...] = ()  # ticks until due; 0 ready; -n: neglected for n ticks
    wake: int = 0
    relay: int = 0
    paused: int = NEVER  # NEVER: not paused; FOR_EVER; else ticks until it ends
    gate: int = 0  # ticks until the rate lets a job go
    fires: int = NEVER  # ticks until the next schedule is due
    occurrences: int = 0  # how many it has left
    adds: int = 0  # budgets left
    changes: int = 0
    faults: int = 0


Steps = Iterator[tuple[str, State]]


def change(s: State, i: int, **fields: Any) -> State:
    crew = list(s.crew)
    crew[i] = crew[i]._replace(**fields)
    return s._replace(crew=tuple(crew))


def name(i: int) -> str:
    return "ABCDE"[i]


@dataclass(frozen=True)
class Watch:
    """The protocol and the bounds of its world. A mutant overrides one method."""

    G: int = 1
    R: int = 6
    ttr: int = 8
    slots: int = 1  # jobs at a time a consumer
    cap: int = NEVER  # jobs at a time in all
    every: int = 0  # ticks between two jobs, by a rate
    period: int = 3  # ticks between two occurrences of the schedule
    delays: tuple[int, ...] = (0, 3, 8)  # at once, within R, beyond R
    fault_kinds: tuple[str, ...] = ("kill", "ghost", "freeze")  # and "lose"
    change_kinds: tuple[str, ...] = ("reschedule", "pause", "stop", "end", "pass")

    # ── the server's scripts ──

    settle = staticmethod(settle)

    def next(self, s: State) -> int | None:
        """The earliest deadline; while paused for ever none."""
        if s.paused == FOR_EVER:
            return None
        paused = s.paused if s.paused != NEVER else None
        fires = s.fires if s.fires != NEVER else None
        held = [h for c in s.crew for h in c.held if h != LOST]
        head, back = min(s.jobs, default=None), min(held, default=None)
        return earliest(head, back, paused=paused, opens=s.gate, full=len(held) >= self.cap, fires=fires)

    def settled(self, s: State, me: int | None = None, stays: bool = False) -> tuple[State, int | None, int]:
        seats = {i: c.promise for i, c in enumerate(s.crew) if c.promise != NEVER}
        next_ = self.next(s)
        seats, wake, relay, alarm, seat = self.settle(0, next_, seats, s.wake, s.relay, me, stays, G=self.G, R=self.R)
        crew = tuple(
            c if c.promise == seats.get(i, NEVER) else c._replace(promise=seats.get(i, NEVER))
            for i, c in enumerate(s.crew)
        )
        return serve(s._replace(crew=crew, wake=wake, relay=relay)), alarm, seat

    def put_back_and_take(self, s: State, n: int) -> tuple[State, int]:
        jobs, crew = list(s.jobs), list(s.crew)
        for i, c in enumerate(crew):
            if any(h <= 0 for h in c.held):
                jobs += [h for h in c.held if h <= 0]
                crew[i] = c._replace(held=tuple(sorted(LOST if h <= 0 else h for h in c.held)))
        jobs.sort()
        got = 0
        n = min(n, self.cap - sum(h != LOST for c in crew for h in c.held), n if s.gate <= 0 else 0)
        n = min(n, 1) if self.every else n
        if s.paused == NEVER:
            while got < n and jobs and jobs[0] <= min(0, s.fires):
                got += 1
                del jobs[0]
        gate = self.every if got and self.every else s.gate
        return s._replace(jobs=tuple(jobs), crew=tuple(crew), gate=gate), got

    def pop(self, s: State, i: int) -> State:
        """Put back what ran out, hand out up to n, settle; the caller stays when it got fewer than it asked for."""
        n = self.slots - len(s.crew[i].held)
        s, got = self.put_back_and_take(s, n)
        s = change(s, i, held=tuple(sorted(s.crew[i].held + (self.ttr,) * got)))
        s, alarm, seat = self.settled(s, i, stays=got < n)
        fires = got == 0 and s.fires <= 0 and s.paused == NEVER
        alarm = NEVER if alarm is None else max(alarm, 0)
        return change(s, i, phase="answered", alarm=alarm, seat=seat, fires=fires)

    def fire(self, s: State) -> State:
        """The job of the occurrence is added and the schedule moves on, if nobody did it before."""
        if s.fires > 0:
            return s
        left = s.occurrences - 1
        s = s._replace(jobs=tuple(sorted((*s.jobs, s.fires))), occurrences=left)
        return self.settled(s._replace(fires=s.fires + self.period if left else NEVER))[0]

    def add(self, s: State, delay: int) -> State:
        if self.add_may_skip(s, delay):
            return s._replace(jobs=tuple(sorted((*s.jobs, delay))))
        return self.settled(s._replace(jobs=tuple(sorted((*s.jobs, delay)))))[0]

    def add_may_skip(self, s: State, delay: int) -> bool:
        """Whether this add need not settle."""
        return False

    def finish(self, s: State, i: int, h: int) -> State:
        held = list(s.crew[i].held)
        held.remove(h)
        s = change(s, i, held=tuple(held))
        return s if h == LOST else self.settled(s)[0]

    # ── the client's decisions: what an `up` consumer does at once ──

    def free(self, c: Consumer) -> bool:
        return c.wants and len(c.held) < self.slots

    def keys(self, c: Consumer) -> str:
        """What to BLPOP on: relay is for those without a seat."""
        return "w" if c.seat else "wr"

    def closes_before_looking(self, c: Consumer) -> bool:
        """A BLPOP on relay must not be open while a look may take a seat: the token is for somebody else."""
        return c.line == "wr"

    def answered(self, s: State, i: int) -> tuple[str, State]:
        """The reply of pop arrives."""
        c = s.crew[i]
        if c.fires:
            return f"{name(i)} reads its answer: a schedule is due", change(s, i, phase="firing", fires=False)
        if c.alarm == NEVER:
            return f"{name(i)} reads its answer: full", change(s, i, phase="away")
        if not self.free(c):
            return f"{name(i)} reads its answer, no longer wants", change(s, i, phase="leaving", alarm=NEVER)
        return f"{name(i)} reads its answer: seat {c.seat}, alarm in {c.alarm}", change(s, i, phase="waiting")

    def token_arrives(self, s: State, i: int) -> tuple[str, State]:
        """Every token is answered: by a look, or by leaving."""
        if self.free(s.crew[i]):
            return f"{name(i)} reads its token, looks", change(s, i, line="", phase="looking", alarm=NEVER)
        return f"{name(i)} reads its token, leaves", change(s, i, line="", phase="leaving", alarm=NEVER)

    def step(self, s: State, i: int) -> tuple[str, State] | None:
        """The one thing consumer i does next; None: it rests."""
        c = s.crew[i]
        if c.life != "up":
            return None
        who = name(i)
        if c.phase == "looking":
            return f"{who} pops", self.pop(s, i)
        if c.phase == "answered":
            return self.answered(s, i)
        if c.phase == "firing":
            return f"{who} attends to the schedule", change(self.fire(s), i, phase="waiting", alarm=0)
        if c.phase == "leaving":
            s, _, _ = self.settled(s, i)
            return f"{who} leaves", change(s, i, phase="away", seat=0)
        if c.line == "token":
            return self.token_arrives(s, i)
        return self.waits(s, i) if c.phase == "waiting" else self.is_away(s, i)

    def waits(self, s: State, i: int) -> tuple[str, State] | None:
        c, who = s.crew[i], name(i)
        if not self.free(c):
            return f"{who} stops waiting", change(s, i, phase="leaving", alarm=NEVER)
        if c.alarm <= 0 and self.closes_before_looking(c):
            return f"{who}'s alarm rings, it unblocks {c.line}", unblock(s, i)
        if c.alarm <= 0:
            return f"{who}'s alarm rings", change(s, i, phase="looking", alarm=NEVER)
        if not c.line:
            return f"{who} blocks on {self.keys(c)}", block(s, i, self.keys(c))
        if c.line != self.keys(c):  # it may have had a token in this very moment: answered above
            return f"{who} unblocks {c.line}", unblock(s, i)
        return None  # a BLPOP on wake alone stays open over any number of looks

    def is_away(self, s: State, i: int) -> tuple[str, State] | None:
        c, who = s.crew[i], name(i)
        if self.free(c) and self.closes_before_looking(c):
            return f"{who} wants a job, it unblocks {c.line}", unblock(s, i)
        if self.free(c):
            return f"{who} wants a job", change(s, i, phase="looking")
        if c.line:
            return f"{who} unblocks {c.line}, away", unblock(s, i)
        return None

    # ── what must hold in every state ──

    def broken(self, s: State) -> str | None:
        if not (0 <= s.wake <= 1 and 0 <= s.relay <= 1):
            return "a list holds more than one token"
        for i, c in enumerate(s.crew):
            if c.life == "up" and c.phase == "waiting" and c.promise != NEVER and c.alarm > max(c.promise, 0):
                return f"{name(i)} promised to look in {c.promise}, its alarm is in {c.alarm}"
            if c.life == "up" and c.promise != NEVER and self.step(s, i) is None and c.phase != "waiting":
                return f"{name(i)} does not wait and holds a seat"
        return None

    # ── the world ──

    def tick(self, s: State) -> State:
        open_ = s.paused == NEVER
        neglected = open_ and any(c.life == "up" and self.free(c) for c in s.crew)
        held = [h for c in s.crew for h in c.held if h != LOST]
        full = len(held) >= self.cap

        def older(deadline: int, held_back: bool = False) -> int:
            return deadline - 1 if deadline > 0 or (neglected and not held_back) else deadline

        crew = tuple(
            c._replace(
                alarm=c.alarm if c.alarm in (0, NEVER) else self.alarm_after_a_tick(c),
                promise=c.promise if c.promise in (NEVER, -self.G - 1) else c.promise - 1,
                held=tuple(sorted(h if h == LOST else older(h, s.gate > 0) for h in c.held)),
            )
            for c in s.crew
        )
        paused = s.paused if s.paused >= FOR_EVER else s.paused - 1 or NEVER
        jobs = tuple(older(at, s.gate > 0 or full) for at in s.jobs)
        fires = s.fires if s.fires == NEVER else older(s.fires)
        return s._replace(crew=crew, jobs=jobs, paused=paused, gate=max(s.gate - 1, 0), fires=fires)

    def alarm_after_a_tick(self, c: Consumer) -> int:
        """An alarm counts from when the question was sent: a reply read late does not move it."""
        return c.alarm - 1

    def events(self, s: State) -> Steps:
        if s.adds:
            for delay in self.delays:
                yield f"add, due in {delay}", self.add(s._replace(adds=s.adds - 1), delay)
        yield from self.lives(s)
        if s.paused == FOR_EVER:
            yield "resume", self.settled(s._replace(paused=NEVER))[0]
        if s.changes:
            yield from self.changes(s._replace(changes=s.changes - 1))
        if s.faults:
            yield from self.faults(s._replace(faults=s.faults - 1))

    def lives(self, s: State) -> Steps:
        for i, c in enumerate(s.crew):
            if c.life == "up":
                for h in set(c.held) if c.phase in ("away", "waiting") else ():
                    yield f"{name(i)} finishes", self.finish(s, i, h)
                if not c.wants:
                    yield f"{name(i)} wants jobs again", change(s, i, wants=True)
            if c.life == "frozen":
                yield f"{name(i)} thaws", change(s, i, life="up")
            if c.life == "dead" and c.line:
                yield f"server notices that {name(i)} is gone", unblock(s, i)

    def changes(self, s: State) -> Steps:
        if "reschedule" in self.change_kinds and s.jobs:
            for delay in self.delays:
                yield (
                    f"reschedule the head to {delay}",
                    self.settled(s._replace(jobs=tuple(sorted((*s.jobs[1:], delay)))))[0],
                )
        if "pause" in self.change_kinds and s.paused == NEVER:
            yield "pause", self.settled(s._replace(paused=FOR_EVER))[0]
            yield "pause for 2", self.settled(s._replace(paused=2))[0]
        if "pass" in self.change_kinds and s.jobs and s.jobs[0] <= 0 and s.paused == NEVER:
            yield "somebody pops in passing", self.settled(self.put_back_and_take(s, 1)[0])[0]
        for i, c in enumerate(s.crew):
            if "stop" in self.change_kinds and c.life == "up" and c.wants:
                yield f"{name(i)} wants no more jobs", change(s, i, wants=False)
            if "end" in self.change_kinds and c.line in ("w", "wr"):
                yield f"{name(i)}'s BLPOP ends by itself", unblock(s, i)

    def faults(self, s: State) -> Steps:
        for i, c in enumerate(s.crew):
            if c.life == "dead":
                continue
            corpse = Consumer("dead", "away", promise=c.promise, held=tuple(h for h in c.held if h != LOST))
            if "kill" in self.fault_kinds:
                yield f"kill {name(i)}", change(s, i, **corpse._asdict())
            if "ghost" in self.fault_kinds and c.line in ("w", "wr"):
                corpse = corpse._replace(line=c.line, place=c.place)
                yield f"kill {name(i)}, its BLPOP seems alive", change(s, i, **corpse._asdict())
            if "freeze" in self.fault_kinds and c.life == "up":
                yield f"freeze {name(i)}", change(s, i, life="frozen")
        if "lose" in self.fault_kinds:
            crew = tuple(c._replace(promise=NEVER) for c in s.crew)
            yield "fail-over loses watch, wake, relay", s._replace(crew=crew, wake=0, relay=0)


# ── BLPOP, as the server does it ──


def block(s: State, i: int, keys: str) -> State:
    place = 1 + max(c.place for c in s.crew)
    return serve(change(s, i, line=keys, place=place))


def unblock(s: State, i: int) -> State:
    return close_ranks(change(s, i, line="", place=0))


def serve(s: State) -> State:
    """After each script: tokens go to the client that has waited longest for their list."""
    for key, tokens in (("w", s.wake), ("r", s.relay)):
        for _ in range(tokens):
            waiting = [(c.place, i) for i, c in enumerate(s.crew) if c.place and key in c.line]
            if not waiting:
                break
            s = change(s, min(waiting)[1], line="token", place=0)
            s = s._replace(wake=s.wake - 1) if key == "w" else s._replace(relay=s.relay - 1)
    return close_ranks(s)


def close_ranks(s: State) -> State:
    places = sorted(c.place for c in s.crew if c.place)
    if not places or places[-1] == len(places):
        return s
    return s._replace(crew=tuple(c._replace(place=places.index(c.place) + 1) if c.place else c for c in s.crew))


# ── the search ───────────────────────────────────────────────────────────────────────────────────────────────────────


Key = tuple[Any, ...]


def same(s: State) -> Key:
    """Consumers are alike: states that differ by their names are one."""
    return (tuple(sorted(s.crew)), *s[1:])


def lateness(s: State) -> int:
    late = min([0, s.fires, *s.jobs, *(h for c in s.crew for h in c.held)])
    return -late


@dataclass
class Finding:
    what: str
    trace: list[tuple[str, State]]

    def __str__(self) -> str:
        return "\n".join([self.what, *(f"  {label:44}{picture(s)}" for label, s in self.trace)])


def picture(s: State) -> str:
    crew = "  ".join(
        f"{name(i)}:{c.life if c.life != 'up' else c.phase}"
        + (f"({c.line})" if c.line else "")
        + (f" alarm {c.alarm}" if c.alarm != NEVER else "")
        + (f" seat@{c.promise}" if c.promise != NEVER else "")
        + (f" holds {c.held}" if c.held else "")
        for i, c in enumerate(s.crew)
    )
    lists = " wake" * s.wake + " relay" * s.relay
    paused = "" if s.paused == NEVER else " paused" if s.paused == FOR_EVER else f" paused for {s.paused}"
    held = f" rate {s.gate}" * (s.gate > 0) + f" schedule {s.fires}" * (s.fires != NEVER)
    return f"jobs {list(s.jobs)}{lists}{paused}{held}  |  {crew}"


@dataclass
class Report:
    states: int = 0
    latest: int = 0  # ticks
    looks: int = 0  # the most pops that one event caused, when looks are counted
    finding: Finding | None = None


def explore(watch: Watch, start: State, *, late: int, looks: int | None = None) -> Report:
    """Try everything, breadth first (so a finding is a shortest one); stop at the first broken promise."""
    report = Report()
    came: dict[Key, tuple[Key | None, str, State]] = {}  # state → from where, by what; names stay those of the path
    ahead: deque[Key] = deque()
    quiet: list[tuple[Key, str, State]] = []  # events that meet everybody at rest

    def meet(label: str, s: State, parent: Key | None) -> None:
        key = same(s)
        if key not in came:
            came[key] = (parent, label, s)
            ahead.append(key)

    def found(what: str, key: Key | None, *after: tuple[str, State]) -> Report:
        trace = []
        while key is not None:
            key, label, s = came[key]
            trace.append((label, s))
        report.finding = Finding(what, [*trace[::-1], *after])
        return report

    meet("start", start, None)
    while ahead:
        key = ahead.popleft()
        s = came[key][2]
        report.states = len(came)
        report.latest = max(report.latest, lateness(s))
        if lateness(s) > late:
            return found(f"a job is late by {lateness(s)}, {late} allowed", key)
        if wrong := watch.broken(s):
            return found(wrong, key)
        steps = [step for i in range(len(s.crew)) if (step := watch.step(s, i))]
        events = list(watch.events(s))
        if not steps:  # everybody rests
            events.append(("— a tick", watch.tick(s)))
            if looks is not None:
                quiet += [(key, label, t) for label, t in events]
        for label, t in steps + events:
            meet(label, t, key)

    if looks is not None:
        count_looks(watch, quiet, looks, report, found)
    return report


SPIN = 10**6


def count_looks(
    watch: Watch, quiet: list[tuple[Key, str, State]], allowed: int, report: Report, found: Callable[..., Report]
) -> None:
    known: dict[Key, int] = {}
    for key, label, s in quiet:
        n = most_looks(watch, s, known)
        report.looks = max(report.looks, n)
        if n > allowed:
            many = str(n) if n < SPIN else "endless"
            found(f"one event caused {many} looks, {allowed} allowed", key, (label, s), *busiest(watch, s, known))
            return


def most_looks(watch: Watch, start: State, known: dict[Key, int]) -> int:
    """The most pops before everybody rests again, over all orders of steps; SPIN when they need not end.

    A look-around (the alarm of a consumer without a seat) is not caused by the event and not counted."""
    stack: list[tuple[State, Key, list[tuple[int, State]] | None]] = [(start, same(start), None)]
    open_: set[Key] = set()
    while stack:
        s, key, after = stack.pop()
        if after is None:
            if key in known or key in open_:
                continue
            after = []
            for i, c in enumerate(s.crew):
                if step := watch.step(s, i):
                    around = (
                        c.phase == "waiting" and c.seat == 0 and c.alarm <= 0 and step[1].crew[i].phase == "looking"
                    )
                    after.append((int(c.phase == "looking") - int(around), step[1]))
            open_.add(key)
            stack.append((s, key, after))
            for _, t in after:
                k = same(t)
                if k in open_:
                    known[key] = SPIN
                stack.append((t, k, None))
        else:
            open_.discard(key)
            best = max((cost + known.get(same(t), SPIN) for cost, t in after), default=0)
            known[key] = SPIN if best > SPIN // 2 else best
    return known[same(start)]


def busiest(watch: Watch, s: State, known: dict[Key, int]) -> Iterator[tuple[str, State]]:
    """The steps of the longest such run; of an endless one, its beginning."""
    for _ in range(30):
        steps = [step for i in range(len(s.crew)) if (step := watch.step(s, i))]
        if not steps:
            return
        label, s = max(steps, key=lambda step: known.get(same(step[1]), SPIN))
        yield label, s
